//! A libtorch that a base holds: found in its layers, taken out to build the scenario binary
//! against, and left where it is in the image.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Digest, Error, Flavour, Libtorch, Result,
    base::{
        filesystem::{Filesystem, Place},
        ready::ReadyBase,
    },
    canonical,
    error::at,
    libtorch::{
        Origin, folder,
        linkage::{linkage, roots},
        versions,
    },
    progress::{Action, SharedMeter},
    store::{Cache, publish, read_note},
};

/// Changes whenever the same base would give another libtorch.
const FORMAT: u32 = 3;
/// What every PyTorch has, below its site-packages folder.
const MARK: &str = "/torch/lib/libtorch_cpu.so";

/// What was found and taken out, noted beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Taken {
    version: String,
    name: String,
    /// Library to size.
    libraries: BTreeMap<String, u64>,
    /// NVIDIA's packages beside torch.
    packages: BTreeMap<String, String>,
    /// The folders in the image that hold the libraries, in the order in which they were found; those
    /// of the base's own `LD_LIBRARY_PATH`, which every image keeps, left out.
    folders: Vec<String>,
}

pub(crate) fn libtorch(
    base: &ReadyBase,
    folder: Option<&str>,
    flavour: Flavour,
    cache: &Cache,
) -> Result<Libtorch> {
    let layers: Vec<Digest> = base.layers.iter().map(|layer| layer.id.digest).collect();
    let (name, place) = place_of(&layers, &base.library_path, folder, flavour, cache);
    let note = place.join("taken.json");
    let _lock = cache.lock(&name)?;
    let taken = if let Some(taken) = read_note::<Taken>(&note) {
        taken
    } else {
        let scratch = cache.scratch()?;
        let taken = take_out(base, folder, flavour, scratch.path(), cache)?;
        let to = scratch.path().join("taken.json");
        fs::write(&to, canonical::json(&taken)).map_err(at(&to))?;
        publish(scratch, &place)?;
        taken
    };
    cache.used(&place);
    let what = (&*taken.version, &*taken.name, flavour);
    let origin = Origin::Inside(taken.folders);
    Libtorch::unpacked(&place, what, taken.libraries, taken.packages, origin)
}

/// What the libtorch inside a base is called in the cache, and where it lies.
pub(crate) fn place_of(
    layers: &[Digest],
    library_path: &[String],
    folder: Option<&str>,
    flavour: Flavour,
    cache: &Cache,
) -> (String, PathBuf) {
    let key = canonical::json(&(FORMAT, layers, library_path, folder, flavour));
    let key = Digest::of(key.as_bytes()).short();
    let name = format!("inside-{key}");
    let place = cache.folder("libtorch").join(&name);
    (name, place)
}

fn take_out(
    base: &ReadyBase,
    folder: Option<&str>,
    flavour: Flavour,
    to: &Path,
    cache: &Cache,
) -> Result<Taken> {
    let files = &base.filesystem()?;
    let packages = packages(files, folder)?;
    let torch = format!("{packages}/torch");
    let meter = SharedMeter::new(cache.start(Action::Unpack, "libtorch of the base", None));
    let lib = to.join("lib");
    let known = search(files, &packages);
    // With the C library in it, a folder is the system's: no part of libtorch, nor anything that a
    // plain process could load.
    let is_systems = |folder: &&str| files.file(&format!("{folder}/libc.so.6")).is_some();
    let own = base.library_path.iter();
    let own = own.map(|folder| folder.trim_start_matches('/'));
    let own = own.filter(|folder| !is_systems(folder)).map(str::to_owned);
    let own: Vec<String> = own.collect();
    let mut folders: Vec<String> = Vec::new();
    let libraries = libraries(files, known.iter().chain(&own));
    let found = linkage(flavour, &libraries, |name, (folder, place)| {
        let to = lib.join(name);
        place.extract(&to, meter.part()).map_err(at(&to))?;
        if known.contains(folder) && !folders.iter().any(|known| known[1..] == **folder) {
            folders.push(format!("/{folder}"));
        }
        Ok(to)
    })?;
    let nothing = |cause: &str, next| nothing(&format!("at /{packages} in"), cause, next);
    if let Some(root) = roots(flavour)
        .iter()
        .find(|root| !found.contains_key(**root))
    {
        return Err(nothing(
            &format!("{root} is missing"),
            "take the cpu flavour of it, or a base with CUDA",
        ));
    }
    for (path, header) in files.files_below(&format!("{torch}/include")) {
        let place = to
            .join("include")
            .join(&path[torch.len() + "/include/".len()..]);
        header.extract(&place, meter.part()).map_err(at(&place))?;
    }
    let beside = |name: &str| files.file(&format!("{torch}/{name}"))?.small_text();
    let version = folder::version_of(beside, flavour, &found);
    let (version, name) = version.ok_or_else(|| {
        nothing(
            "its version is nowhere in it",
            "take a base with a released PyTorch",
        )
    })?;
    folder::write_stand_in(&lib, flavour)?;
    let stated = to.join("build-version");
    fs::write(&stated, format!("{version}\n")).map_err(at(&stated))?;
    let size = |(name, path): (String, PathBuf)| {
        let size_bytes = fs::metadata(&path).map_err(at(&path))?.len();
        Ok((name, size_bytes))
    };
    let libraries = found.into_iter().map(size);
    let libraries = libraries.collect::<Result<_>>()?;
    let beside = files.names_in(&packages).unwrap_or_default();
    Ok(Taken {
        version,
        name,
        libraries,
        packages: versions::packages(beside),
        folders,
    })
}

/// The error for a base that should hold a libtorch and does not.
fn nothing(place: &str, cause: &str, next: &str) -> Error {
    Error::Input(format!("no libtorch {place} the base: {cause}; {next}"))
}

/// The folder that torch lies in.
fn packages(files: &Filesystem, folder: Option<&str>) -> Result<String> {
    if let Some(folder) = folder {
        if files.file(&format!("{folder}{MARK}")).is_some() {
            return Ok(folder.to_owned());
        }
        return Err(nothing(
            &format!("at /{folder} in"),
            &format!("{} is missing", MARK.trim_start_matches('/')),
            "name the site-packages folder that holds `torch`, or write `inside: auto`",
        ));
    }
    let found: Vec<&str> = files
        .paths()
        .filter_map(|path| path.strip_suffix(MARK))
        .collect();
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(nothing(
            "in",
            &format!("no file ends in {MARK}"),
            "take a base with PyTorch in it, or libtorch out of wheels",
        )),
        several => Err(nothing(
            "in",
            &format!("there are several, at /{}", several.join(" and /")),
            "name one (`libtorch: {inside: FOLDER}`)",
        )),
    }
}

/// Where a PyTorch's libraries may lie: torch's own, NVIDIA's wheels, what auditwheel bundles, the
/// environment that Python lies in, a toolkit of CUDA.
fn search(files: &Filesystem, packages: &str) -> Vec<String> {
    let mut folders = vec![format!("{packages}/torch/lib")];
    for name in files
        .names_in(&format!("{packages}/nvidia"))
        .unwrap_or_default()
    {
        folders.push(format!("{packages}/nvidia/{name}/lib"));
    }
    folders.push(format!("{packages}/torch.libs"));
    // `lib/python3.11/site-packages`
    if let Some((environment, _)) = packages.rsplit_once("/python3") {
        folders.push(environment.to_owned());
    }
    folders.push("usr/local/cuda/lib64".to_owned());
    folders
}

/// The libraries in these folders, each with the folder that has it first.
fn libraries<'a>(
    files: &Filesystem,
    folders: impl IntoIterator<Item = &'a String>,
) -> BTreeMap<String, (String, Place)> {
    let mut found = BTreeMap::new();
    for folder in folders {
        for name in files.names_in(folder).unwrap_or_default() {
            let place = || files.file(&format!("{folder}/{name}"));
            if crate::elf::is_library(&name)
                && !found.contains_key(&name)
                && let Some(place) = place()
            {
                found.insert(name, (folder.clone(), place));
            }
        }
    }
    found
}
