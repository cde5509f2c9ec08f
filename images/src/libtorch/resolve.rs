//! Which wheels make up a libtorch, and which of their files programs load.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::{
    Flavour, Result,
    error::at,
    libtorch::{
        folder::cuda_in,
        linkage::{linkage, roots},
        pip::{Pip, not_offered},
        wheel::OpenWheel,
    },
    lock::{Wheel, WheelLibrary, WheelsLock},
    progress::Action,
    store::Cache,
};

/// Asks pip which wheels make up a torch version, fetches them, and finds out which of their
/// libraries programs load.
pub(crate) fn resolve(version: &str, flavour: Flavour, cache: &Cache) -> Result<WheelsLock> {
    let pip = Pip::ready(cache)?;
    let candidates = {
        let _meter = cache.start(Action::Resolve, &format!("torch {version}"), None);
        pip.resolve(&[format!("torch=={version}")], cache)?
    };
    let mut wheels = candidates
        .into_iter()
        .filter(|wheel| wanted(&wheel.name, flavour))
        .map(|wheel| fetch(&pip, wheel, cache))
        .collect::<Result<Vec<_>>>()?;
    wheels.sort_by_key(|(wheel, _)| (wheel.name != "torch", wheel.name.clone()));
    let headers = match flavour {
        Flavour::Cpu => Vec::new(),
        Flavour::Cuda => header_wheels(&pip, &wheels, cache)?,
    };
    let scratch = cache.scratch()?;
    let mut known = BTreeMap::new();
    for wheel in &wheels {
        for (name, member) in OpenWheel::open(&wheel.1)?.libraries()? {
            known.entry(name).or_insert((wheel, member));
        }
    }
    let mut taken = BTreeMap::new();
    let found = linkage(flavour, &known, |name, ((wheel, path), member)| {
        let to = scratch.path().join(name);
        let (sha256, size_bytes) = OpenWheel::open(path)?.extract(member, &to, |_| {})?;
        let library = WheelLibrary {
            name: name.to_owned(),
            wheel: wheel.name.clone(),
            path: member.clone(),
            size_bytes,
            sha256,
        };
        taken.insert(name.to_owned(), library);
        Ok(to)
    })?;
    let mut roots = roots(flavour).iter();
    if let Some(root) = roots.find(|root| !found.contains_key(**root)) {
        let what = format!("torch {version} with {root}");
        return Err(not_offered(&what, "none of its wheels holds that library"));
    }
    // In the order of their names.
    let libraries = found.keys().filter_map(|name| taken.remove(name));
    let libraries: Vec<WheelLibrary> = libraries.collect();
    for library in &libraries {
        let (unpacked, place) = (
            scratch.path().join(&library.name),
            cache.library(library.sha256),
        );
        fs::rename(unpacked, &place).map_err(at(&place))?;
    }
    let mut wheels_unpacked_bytes = 0;
    for (_, path) in &wheels {
        wheels_unpacked_bytes += OpenWheel::open(path)?.unpacked_bytes();
    }
    let name = full_name(version, flavour, &wheels)?;
    let used = |wheel: &Wheel| libraries.iter().any(|library| library.wheel == wheel.name);
    Ok(WheelsLock {
        version: version.to_owned(),
        flavour,
        name,
        wheels: wheels
            .into_iter()
            .map(|(wheel, _)| wheel)
            .filter(used)
            .collect(),
        headers,
        wheels_unpacked_bytes,
        libraries,
    })
}

/// The full name as PyTorch writes it: `2.11.0+cpu`, or `2.11.0+cu130` by what the wheel of torch
/// says of itself.
fn full_name(version: &str, flavour: Flavour, wheels: &[(Wheel, PathBuf)]) -> Result<String> {
    if flavour == Flavour::Cpu {
        return Ok(format!("{version}+cpu"));
    }
    let torch = wheels.iter().find(|(wheel, _)| wheel.name == "torch");
    let cuda = match torch {
        Some((_, path)) => cuda_in(&OpenWheel::open(path)?.text("torch/version.py")?),
        None => None,
    };
    let cuda = cuda.ok_or_else(|| {
        let what = format!("torch {version} with CUDA");
        not_offered(&what, "its wheel was built without")
    })?;
    Ok(format!("{version}+{cuda}"))
}

/// Which of the packages that torch requires may hold libraries of the flavour.
fn wanted(name: &str, flavour: Flavour) -> bool {
    match flavour {
        // All that libtorch_cpu.so needs besides torch's own.
        Flavour::Cpu => {
            name == "torch"
                || name.starts_with("nvidia-cuda-cupti")
                || name.starts_with("nvidia-cuda-runtime")
        }
        Flavour::Cuda => name == "torch" || name.starts_with("nvidia-"),
    }
}

/// The wheel with `crt/host_config.h`, which `cuda_runtime_api.h` includes: CUDA 13 has moved
/// it out of the runtime's wheel, into one that torch does not require.
fn header_wheels(pip: &Pip, wheels: &[(Wheel, PathBuf)], cache: &Cache) -> Result<Vec<Wheel>> {
    let Some((runtime, path)) = wheels
        .iter()
        .find(|(wheel, _)| wheel.name.starts_with("nvidia-cuda-runtime"))
    else {
        return Ok(Vec::new());
    };
    if OpenWheel::open(path)?.has_file_ending("/crt/host_config.h")? {
        return Ok(Vec::new());
    }
    let series: Vec<&str> = runtime.version.split('.').take(2).collect();
    let series = series.join(".");
    let name = if runtime.name.ends_with("-cu12") {
        "nvidia-cuda-nvcc-cu12"
    } else {
        "nvidia-cuda-crt"
    };
    let found = pip.resolve(&[format!("{name}=={series}.*")], cache)?;
    found
        .into_iter()
        .filter(|wheel| wheel.name == name)
        .map(|wheel| Ok(fetch(pip, wheel, cache)?.0))
        .collect()
}

/// Fetches a wheel that pip has named, and looks at its size, which pip does not tell.
fn fetch(pip: &Pip, mut wheel: Wheel, cache: &Cache) -> Result<(Wheel, PathBuf)> {
    let path = pip.fetch(&wheel, cache)?;
    wheel.size_bytes = fs::metadata(&path).map_err(at(&path))?.len();
    Ok((wheel, path))
}
