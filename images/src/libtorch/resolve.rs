//! Which wheels make up a libtorch, and which of their files programs load.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    Error, Flavour, KnownTorch, Result,
    error::at,
    libtorch::{
        linkage::{LibraryIndex, linkage, roots},
        pip::Pip,
        wheel::OpenWheel,
    },
    lock::{Wheel, WheelLibrary, WheelsLock},
    progress::{Action, Progress},
    store::{Cache, library_store as unpacked},
};

/// Asks pip which wheels make up a torch version, fetches them, and finds out which of their
/// libraries programs load.
pub(crate) fn resolve(
    version: &str,
    flavour: Flavour,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<WheelsLock> {
    let torch = KnownTorch::of(version)?;
    let pip = Pip::ready(cache, progress)?;
    let candidates = {
        let _meter = progress.start(Action::Resolve, &format!("torch {version}"), None);
        pip.resolve(&[format!("torch=={version}")], cache)?
    };
    let mut wheels = Vec::new();
    for mut wheel in candidates {
        if wanted(&wheel.name, flavour) {
            let path = pip.fetch(&wheel, cache, progress)?;
            wheel.size_bytes = fs::metadata(&path).map_err(at(&path))?.len();
            wheels.push((wheel, path));
        }
    }
    wheels.sort_by_key(|(wheel, _)| (wheel.name != "torch", wheel.name.clone()));
    let headers = match flavour {
        Flavour::Cpu => Vec::new(),
        Flavour::Cuda => header_wheels(&pip, &wheels, cache, progress)?,
    };
    let scratch = cache.scratch()?;
    let mut index = WheelIndex::new(&wheels, scratch.path())?;
    let found = linkage(flavour, &mut index)?;
    if let Some(root) = roots(flavour)
        .iter()
        .find(|root| found.outside.contains_key(**root))
    {
        return Err(Error::BadWheel {
            wheel: wheels
                .first()
                .map(|(_, path)| path.clone())
                .unwrap_or_default(),
            member: Some((*root).to_owned()),
            cause: "none of the wheels holds it".to_owned(),
        });
    }
    let mut libraries: Vec<WheelLibrary> = found
        .libraries
        .keys()
        .filter_map(|name| index.taken.remove(name))
        .collect();
    libraries.sort_by(|a, b| a.name.cmp(&b.name));
    for library in &libraries {
        unpacked::keep(&scratch.path().join(&library.name), library.sha256, cache)?;
    }
    let mut wheels_unpacked_bytes = 0;
    for (_, path) in &wheels {
        wheels_unpacked_bytes += OpenWheel::open(path)?.unpacked_bytes();
    }
    let used = |wheel: &Wheel| libraries.iter().any(|library| library.wheel == wheel.name);
    Ok(WheelsLock {
        version: version.to_owned(),
        flavour,
        name: torch.name(flavour),
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
fn header_wheels(
    pip: &Pip,
    wheels: &[(Wheel, PathBuf)],
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<Wheel>> {
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
    let mut headers = Vec::new();
    for mut wheel in found.into_iter().filter(|wheel| wheel.name == name) {
        let path = pip.fetch(&wheel, cache, progress)?;
        wheel.size_bytes = fs::metadata(&path).map_err(at(&path))?.len();
        headers.push(wheel);
    }
    Ok(headers)
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

/// One entry of pip's installation report.
#[derive(Deserialize)]
struct Report {
    install: Vec<ReportEntry>,
}

#[derive(Deserialize)]
struct ReportEntry {
    metadata: ReportMetadata,
    download_info: ReportDownload,
}

#[derive(Deserialize)]
struct ReportMetadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct ReportDownload {
    url: String,
    archive_info: ReportArchive,
}

#[derive(Deserialize)]
struct ReportArchive {
    hashes: BTreeMap<String, String>,
}

/// Reads pip's installation report. Sizes are not in it.
pub(crate) fn read_report(json: &[u8]) -> Result<Vec<Wheel>, String> {
    let report: Report = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    report
        .install
        .into_iter()
        .map(|entry| {
            let name = entry.metadata.name.to_lowercase().replace(['_', '.'], "-");
            let hash = entry.download_info.archive_info.hashes.get("sha256");
            let hash = hash.ok_or_else(|| format!("{name} has no SHA-256 in pip's report"))?;
            let file = entry
                .download_info
                .url
                .rsplit('/')
                .next()
                .unwrap_or_default();
            // Local versions (`+cu130`) are percent-encoded in URLs.
            let file = file
                .split(['#', '?'])
                .next()
                .unwrap_or_default()
                .replace("%2B", "+");
            Ok(Wheel {
                name,
                version: entry.metadata.version,
                file,
                size_bytes: 0,
                sha256: format!("sha256:{hash}")
                    .parse()
                    .map_err(|e: crate::ParseDigestError| e.to_string())?,
            })
        })
        .collect()
}
