//! Where the parts of images come from on this machine, and what locks say about them.

use std::path::PathBuf;

use crate::{
    Base, Error, Image, Libtorch, LibtorchSpec, Result, ScenarioBinary,
    base::{self, ready::ReadyBase},
    libtorch::{folder, in_base, installed::installed, resolve::resolve, wheels::fetch},
    lock::{LibtorchLock, Lock},
    store::Cache,
    workload,
};

/// What locks mean to a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockUse {
    /// An image is built from its lock alone; no lock is an error.
    Required,
    /// The lock is used where there is one. Where the machine's apt no longer offers a locked
    /// Debian package, what it offers now is taken instead, and [`record::ImageLock`] says so.
    #[default]
    Preferred,
    /// Everything is resolved anew.
    Ignored,
}

/// Where the parts of images come from on this machine.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The checkout, to build the scenario binary from.
    pub workspace: PathBuf,
    /// cargo's target folder.
    pub target: PathBuf,
    /// A libtorch folder to use instead of the spec's (`--libtorch`, `LIBTORCH`).
    pub libtorch: Option<PathBuf>,
    /// A scenario binary that is there already (`--scenario-binary`, `TORCHGAUGE_SCENARIO`).
    pub scenario_binary: Option<PathBuf>,
    /// A base archive to use instead of the spec's base (`--base-archive`, `TORCHGAUGE_BASE`).
    pub base_archive: Option<PathBuf>,
    pub locks: LockUse,
    /// What the cache may take (`--cache-size`, `TORCHGAUGE_CACHE_SIZE`).
    pub cache_bytes: u64,
}

impl Sources {
    /// Checks the scenario binary that was given, if one was: what is wrong with it is known at
    /// once, and would show only after everything below it was fetched.
    pub fn check(&self, cache: &Cache) -> Result<()> {
        match &self.scenario_binary {
            Some(file) => ScenarioBinary::existing(file, cache).map(drop),
            None => Ok(()),
        }
    }
}

/// The libtorch of an image on this machine: for images, and for plain processes.
pub fn libtorch_of(image: &Image, sources: &Sources, cache: &Cache) -> Result<Libtorch> {
    let lock = usable_lock(image, sources)?;
    find_libtorch(image, lock, sources, None, cache)
}

/// The libtorch of an image, with its lock where that is to be used, and its base where that is
/// there already.
pub(super) fn find_libtorch(
    image: &Image,
    lock: Option<&Lock>,
    sources: &Sources,
    base: Option<&ReadyBase>,
    cache: &Cache,
) -> Result<Libtorch> {
    let flavour = image.spec.libtorch.flavour();
    if let Some(folder) = &sources.libtorch {
        return folder::from_folder(folder, flavour, cache);
    }
    match &image.spec.libtorch {
        LibtorchSpec::Installed { folder, .. } => installed(folder.as_deref(), flavour, cache),
        LibtorchSpec::Inside { folder, .. } => {
            let folder = folder.as_deref();
            if let Some(base) = base {
                return in_base::libtorch(base, folder, flavour, cache);
            }
            let (base, _) = find_base(image, lock, sources, cache)?;
            in_base::libtorch(&base, folder, flavour, cache)
        }
        LibtorchSpec::Wheels { version, .. } => match lock.map(|lock| &lock.libtorch) {
            Some(LibtorchLock::Wheels(lock)) => fetch(lock, cache),
            _ if sources.locks == LockUse::Required => Err(Error::no_lock(&image.reference)),
            _ => fetch(&resolve(version, flavour, cache)?, cache),
        },
    }
}

/// The image's lock, where it is to be used and fits the spec.
pub(crate) fn usable_lock<'a>(image: &'a Image, sources: &Sources) -> Result<Option<&'a Lock>> {
    if image.lock.is_none() || sources.locks == LockUse::Ignored {
        return Ok(None);
    }
    image.usable_lock().map(Some)
}

/// The scenario binary for a libtorch: the given one, or built now.
pub fn scenario_of(
    libtorch: &Libtorch,
    sources: &Sources,
    cache: &Cache,
) -> Result<ScenarioBinary> {
    match &sources.scenario_binary {
        Some(file) => ScenarioBinary::existing(file, cache),
        None => workload::build(&sources.workspace, &sources.target, libtorch, cache),
    }
}

/// The base, and how it differs from the locked one.
pub(crate) fn find_base(
    image: &Image,
    lock: Option<&Lock>,
    sources: &Sources,
    cache: &Cache,
) -> Result<(ReadyBase, Option<String>)> {
    if let Some(file) = &sources.base_archive {
        let base = base::ready(&Base::Archive(file.clone()), None, cache)?;
        return Ok((base, None));
    }
    let locked = lock.map(|lock| &lock.base);
    match base::ready(&image.spec.base, locked, cache) {
        Err(error @ Error::NoPackage { .. })
            if locked.is_some() && sources.locks == LockUse::Preferred =>
        {
            let note = format!("the base is not the locked one: {error}");
            cache.note(&note);
            Ok((base::ready(&image.spec.base, None, cache)?, Some(note)))
        }
        other => other.map(|base| (base, None)),
    }
}

/// What the image stands on, for people and records: of an archive its name, for its folder is
/// this machine's alone.
pub(crate) fn base_in_words(image: &Image, sources: &Sources) -> String {
    match (&sources.base_archive, &image.spec.base) {
        (Some(file), _) | (None, Base::Archive(file)) => {
            let name = file.file_name().unwrap_or(file.as_os_str());
            format!("archive {}", name.to_string_lossy())
        }
        (None, Base::Debian) => "debian packages".to_owned(),
        (None, Base::Image(reference)) => format!("image {reference}"),
    }
}
