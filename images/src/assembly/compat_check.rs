//! What would only show when a container starts, or in what it measures, found when its image is made.

use crate::{
    Error, Image, Result, ScenarioBinary,
    assembly::{Lower, contents::SCENARIO_IN_IMAGE},
    base::ready::ReadyBase,
    elf::Dynamic,
    libtorch::Origin,
};

/// Refuses a base without a C library that can start the workload and load libtorch. What engines
/// say of it is that there is no such file, and that only once the image was loaded.
pub(crate) fn check_libc(lower: &Lower, scenario: &ScenarioBinary) -> Result<()> {
    let lacks = |what: String, by: &str, next: &str| {
        Err(Error::Input(format!(
            "the image would lack {what}, needed by {by}; {next}"
        )))
    };
    let program = Dynamic::of_file(&scenario.path)?;
    let mut newest = (program.glibc_needed, SCENARIO_IN_IMAGE);
    if !matches!(lower.libtorch.origin, Origin::Inside(_)) {
        for library in &lower.libtorch.libraries {
            let needed = Dynamic::of_file(&library.path)?.glibc_needed;
            newest = newest.max((needed, &library.name));
        }
    }
    if let (Some(needed), by) = newest
        && lower.base.glibc.is_some_and(|there| there < needed)
    {
        let next = "take a newer base; PyTorch's wheels, and a workload that is compiled anew \
                    (without --scenario-binary), start on glibc 2.28";
        return lacks(format!("GLIBC_{needed} of libc.so.6"), by, next);
    }
    match program.interpreter {
        Some(loader) if lower.base.filesystem()?.file(&loader).is_none() => lacks(
            format!("the loader {loader}"),
            "the scenario binary",
            "add the package that has it to the base, which is glibc's",
        ),
        _ => Ok(()),
    }
}

/// How variables begin that change what is measured: of the loader, of allocators, of libraries
/// that compute.
const CHANGING: [&str; 20] = [
    "ATEN_",
    "CUBLAS",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDNN_",
    "DNNL_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "KMP_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "TORCH_",
];
/// How those end that only say what there is, or where.
const HARMLESS: [&str; 6] = [
    "_VERSION",
    "_HOME",
    "_ROOT",
    "_PATH",
    "_ARCH_LIST",
    "_INSTALL",
];
/// Has programs load what they do not ask for.
pub(crate) const PRELOAD: &str = "/etc/ld.so.preload";

/// Whether a variable of this name changes what is measured.
pub(crate) fn changes_runs(name: &str) -> bool {
    CHANGING.iter().any(|start| name.starts_with(start))
        && !HARMLESS.iter().any(|end| name.ends_with(end))
}

/// Refuses what a base would change about runs without a word, unless the spec sets or allows it.
pub(crate) fn check_surroundings(image: &Image, base: &ReadyBase) -> Result<()> {
    let spec = &image.spec;
    let is_changing = |name: &&str| changes_runs(name) && !spec.environment.contains_key(*name);
    let variables = base.environment.iter();
    let names = variables.filter_map(|pair| Some(pair.split_once('=')?.0));
    let mut found: Vec<String> = names
        .filter(is_changing)
        .chain(base.is_preloading.then_some(PRELOAD))
        .filter(|name| !spec.allow.contains(*name))
        .map(str::to_owned)
        .collect();
    found.sort();
    if found.is_empty() {
        return Ok(());
    }
    let found = found.join(", ");
    Err(Error::Input(format!(
        "the base of {} changes what runs measure by {found}; set it under `environment` in the \
         spec, or allow it: `allow: [{found}]`",
        image.name
    )))
}
