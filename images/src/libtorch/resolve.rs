//! Which wheels make up a libtorch, and which of their files programs load.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Flavour, Result,
    error::at,
    libtorch::{
        folder::cuda_in,
        linkage::{LibraryIndex, linkage, roots},
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
    let mut index = WheelIndex::new(&wheels, scratch.path())?;
    let found = linkage(flavour, &mut index)?;
    let mut roots = roots(flavour).iter();
    if let Some(root) = roots.find(|root| found.outside.contains_key(**root)) {
        let what = format!("torch {version} with {root}");
        return Err(not_offered(&what, "none of its wheels holds that library"));
    }
    let mut libraries: Vec<WheelLibrary> = found
        .libraries
        .keys()
        .filter_map(|name| index.taken.remove(name))
        .collect();
    libraries.sort_by(|a, b| a.name.cmp(&b.name));
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
        not_offered(&what, "its wheel says that it was built without")
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

/// Takes libraries out of wheels as they are asked for.
struct WheelIndex<'a> {
    wheels: &'a [(Wheel, PathBuf)],
    index: BTreeMap<String, (usize, String)>,
    taken: BTreeMap<String, WheelLibrary>,
    folder: &'a Path,
}

impl<'a> WheelIndex<'a> {
    fn new(wheels: &'a [(Wheel, PathBuf)], folder: &'a Path) -> Result<Self> {
        let mut index = BTreeMap::new();
        for (number, (_, path)) in wheels.iter().enumerate() {
            for (name, member) in OpenWheel::open(path)?.libraries()? {
                index.entry(name).or_insert((number, member));
            }
        }
        Ok(Self {
            wheels,
            index,
            taken: BTreeMap::new(),
            folder,
        })
    }
}

impl LibraryIndex for WheelIndex<'_> {
    fn find(&mut self, name: &str) -> Result<Option<PathBuf>> {
        let Some((number, member)) = self.index.get(name) else {
            return Ok(None);
        };
        let (wheel, path) = &self.wheels[*number];
        let to = self.folder.join(name);
        let (sha256, size_bytes) = OpenWheel::open(path)?.extract(member, &to, |_| {})?;
        self.taken.insert(
            name.to_owned(),
            WheelLibrary {
                name: name.to_owned(),
                wheel: wheel.name.clone(),
                path: member.clone(),
                size_bytes,
                sha256,
            },
        );
        Ok(Some(to))
    }

    fn names(&self) -> Vec<String> {
        self.index.keys().cloned().collect()
    }
}
