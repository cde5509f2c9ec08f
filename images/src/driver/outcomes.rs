//! What a driver makes of what was found in an image.

use std::collections::BTreeSet;

use super::{Compat, DriverCheck, OLDEST, Version};
use crate::{GpuArchitecture, slim::GpuCode};

/// Whether the driver starts a CUDA; `first`: compat libraries that are found before its own.
pub(super) fn started(
    cuda: &Version,
    from: &str,
    driver: &Version,
    first: Option<&Compat>,
) -> DriverCheck {
    let newest = driver.newest_cuda();
    let mut oldest = OLDEST.iter().filter(|(major, _)| cuda.0[0] == *major);
    let oldest = oldest.next().map(|(_, oldest)| oldest);
    let has = match &newest {
        Some(newest) => format!("driver {driver} has CUDA {newest}"),
        None => format!("driver {driver} is older than CUDA 11"),
    };
    let (starts, what) = if newest.is_some_and(|newest| newest.is_at_least(&cuda.0)) {
        (true, "starts".to_owned())
    } else if oldest.is_some_and(|oldest| driver.is_at_least(oldest)) {
        let what =
            "starts by minor-version compatibility; what is compiled from PTX fails (error 222)";
        (true, what.to_owned())
    } else if first.is_some() {
        (
            true,
            "starts by the image's compat libraries, on data-centre GPUs alone".to_owned(),
        )
    } else {
        let needs = oldest.map_or_else(
            || "a newer driver".to_owned(),
            |[major, minor]| format!("driver {major}.{minor} or newer"),
        );
        let next = "upgrade the driver, or take an image with an older CUDA";
        (false, format!("needs {needs} (error 35): {next}"))
    };
    DriverCheck::of("CUDA", starts, format!("{cuda} by {from}; {has}: {what}"))
}

pub(super) fn compatible(driver: &Version, compat: &Compat) -> DriverCheck {
    let Compat {
        version,
        from,
        is_first,
    } = compat;
    let (starts, found) = if !is_first {
        let found = format!("{version} in {from}, where the loader does not search by default");
        (true, found)
    } else if driver == version {
        (
            true,
            format!("{version}, first by {from}; the same as the driver"),
        )
    } else if driver.is_at_least(&version.0) {
        let found = format!(
            "{version}, first by {from}; driver {driver} is no older, so CUDA does not start (error \
             803): take the folder out of {from}"
        );
        (false, found)
    } else {
        let found = format!(
            "{version}, first by {from}; driver {driver} is older: starts on data-centre GPUs, and not \
             on others (error 804)"
        );
        (true, found)
    };
    DriverCheck::of("compat libraries", starts, found)
}

/// Whether a GPU finds code that it runs; `compiles`: whether PTX becomes such code.
pub(super) fn with_code(
    code: &BTreeSet<GpuCode>,
    gpu: Option<GpuArchitecture>,
    compiles: bool,
) -> DriverCheck {
    let named: Vec<String> = code.iter().map(ToString::to_string).collect();
    let named = named.join(", ");
    let Some(gpu) = gpu.filter(|_| !code.is_empty()) else {
        let found = if code.is_empty() {
            "not known: the image has no libtorch_cuda.so".to_owned()
        } else {
            format!("{named}; give --gpu to learn whether yours finds its own")
        };
        return DriverCheck::of("GPU code", true, found);
    };
    let mut all = code.iter();
    let has_own = all.any(|one| matches!(one, GpuCode::Cubin(sm) if gpu.runs_cubin_of(*sm)));
    let mut all = code.iter().rev();
    let ptx = all.find(|one| matches!(one, GpuCode::Ptx(sm) if *sm <= gpu.number()));
    let (starts, what) = match ptx {
        _ if has_own => (true, format!("{gpu} finds its own")),
        Some(ptx) if compiles => (true, format!("{gpu} compiles {ptx} at the first start")),
        Some(ptx) => (
            false,
            format!("{gpu} would compile {ptx}, which is newer than the driver (error 222)"),
        ),
        None => (
            false,
            format!("nothing for {gpu} (error 209): take an image that is built for it"),
        ),
    };
    DriverCheck::of("GPU code", starts, format!("{named}; {what}"))
}
