//! A libtorch on this machine: where its libraries lie and what it is, whether fetched as wheels,
//! installed with PyTorch, or given as a folder.

pub(crate) mod folder;
pub(crate) mod in_base;
pub(crate) mod installed;
pub(crate) mod linkage;
pub(crate) mod pip;
pub(crate) mod resolve;
mod versions;
pub(crate) mod wheel;
pub(crate) mod wheels;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{Flavour, Result, lock::WheelsLock};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Wheels, as a lock names them.
    Wheels(Box<WheelsLock>),
    /// This machine: an installed PyTorch, or a folder that the user gave.
    Here,
    /// The image's base, which holds the libraries in these folders of its own.
    Inside(Vec<String>),
}

/// One shared library that programs load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Its name: what others ask for.
    pub name: String,
    pub path: PathBuf,
    pub size_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libtorch {
    /// torch's version without what follows a `+`: `2.11.0`.
    pub version: String,
    pub flavour: Flavour,
    /// The flavour's full name: `2.11.0+cpu`, `2.11.0+cu130`.
    pub name: String,
    /// Whether it is built with the C++11 strings of libstdc++, as what links it must be.
    pub cxx11_abi: bool,
    /// A folder as torch-sys wants it in `LIBTORCH`: `lib/`, `include/`, `build-version`.
    /// `None` where it has no headers, or not yet.
    pub build_folder: Option<PathBuf>,
    /// The libraries that programs load, sorted by name.
    pub libraries: Vec<Library>,
    /// The packages that its libraries came in, as far as they are known: name without CUDA to
    /// version.
    pub packages: BTreeMap<String, String>,
    pub origin: Origin,
}

impl Libtorch {
    /// One that was unpacked into a folder of the cache: `lib/`, and `include/` once it is needed.
    fn unpacked(
        place: &Path,
        (version, name, flavour): (&str, &str, Flavour),
        libraries: impl IntoIterator<Item = (String, u64)>,
        packages: BTreeMap<String, String>,
        origin: Origin,
    ) -> Result<Self> {
        let lib = place.join("lib");
        let library = |(name, size_bytes)| Library {
            path: lib.join(&name),
            name,
            size_bytes,
        };
        Ok(Self {
            version: version.to_owned(),
            flavour,
            name: name.to_owned(),
            cxx11_abi: folder::abi_is_cxx11(&lib.join("libc10.so"))?,
            build_folder: place.join("include").is_dir().then(|| place.to_owned()),
            libraries: libraries.into_iter().map(library).collect(),
            packages,
            origin,
        })
    }

    /// The folders for `LD_LIBRARY_PATH` when a program is to run against it on this machine.
    pub fn library_folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = Vec::new();
        for library in &self.libraries {
            if let Some(folder) = library.path.parent()
                && !folders.iter().any(|known| known == folder)
            {
                folders.push(folder.to_owned());
            }
        }
        folders
    }

    /// The sum of its libraries' sizes.
    pub fn size_bytes(&self) -> u64 {
        self.libraries
            .iter()
            .map(|library| library.size_bytes)
            .sum()
    }
}
