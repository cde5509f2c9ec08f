//! Reading wheels, which are zip archives.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::{self, File},
    io::{BufReader, Read},
    path::{Component, Path, PathBuf},
};

use strict_yaml::printable;
use zip::ZipArchive;

use crate::{
    Digest, Error, Result,
    digest::{CopyError, copy_hashed},
    elf::is_library,
    error::at,
};

/// Of a text in a wheel no more is read.
const MAX_TEXT_BYTES: u64 = 1 << 20;

pub(crate) struct OpenWheel {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
}

impl OpenWheel {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(at(path))?;
        let archive =
            ZipArchive::new(BufReader::with_capacity(1 << 18, file)).map_err(|error| {
                Error::BadWheel {
                    wheel: path.to_owned(),
                    member: None,
                    cause: printable(error.to_string()),
                }
            })?;
        Ok(Self {
            path: path.to_owned(),
            archive,
        })
    }

    /// The paths of everything in it.
    fn paths(&self) -> Result<Vec<String>> {
        let paths = self.archive.file_names();
        let paths: Result<_, _> = paths.map(|path| Ok(path?.into_owned())).collect();
        paths.map_err(|error: zip::result::ZipError| bad(&self.path, "its list of files", error))
    }

    /// The shared libraries in it: file name to path. Of two with one name the first path counts.
    pub(crate) fn libraries(&self) -> Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for path in self.paths()? {
            let name = path.rsplit('/').next().unwrap_or_default();
            if is_library(name) && !path.contains("/stubs/") {
                found.entry(name.to_owned()).or_insert(path);
            }
        }
        Ok(found)
    }

    /// Whether a file with such an end of its path is in it.
    pub(crate) fn has_file_ending(&self, end: &str) -> Result<bool> {
        Ok(self.paths()?.iter().any(|path| path.ends_with(end)))
    }

    /// The folders with headers in NVIDIA's wheels: `nvidia/cu13/include/`,
    /// `nvidia/cuda_runtime/include/`.
    pub(crate) fn include_folders(&self) -> Result<Vec<String>> {
        let mut folders = BTreeSet::new();
        for path in self.paths()? {
            if let Some((before, _)) = path.split_once("/include/")
                && before.matches('/').count() == 1
                && before.starts_with("nvidia/")
            {
                folders.insert(format!("{before}/include/"));
            }
        }
        Ok(folders.into_iter().collect())
    }

    /// The sum of the sizes of everything in it, unpacked.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.archive
            .decompressed_size()
            .and_then(|size| u64::try_from(size).ok())
            .unwrap_or(0)
    }

    /// Takes one file out; `done` hears how much of it is there.
    pub(crate) fn extract(
        &mut self,
        member: &str,
        to: &Path,
        done: impl FnMut(u64),
    ) -> Result<(Digest, u64)> {
        let entry = self.archive.by_name(member);
        let mut entry = entry.map_err(|error| bad(&self.path, member, error))?;
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        let file = File::create(to).map_err(at(to))?;
        copy_hashed(&mut entry, file, done).map_err(|error| match error {
            CopyError::Read(error) => bad(&self.path, member, error),
            CopyError::Write(error) => at(to)(error),
        })
    }

    pub(crate) fn text(&mut self, member: &str) -> Result<String> {
        let mut text = String::new();
        let read = match self.archive.by_name(member) {
            Ok(entry) => entry
                .take(MAX_TEXT_BYTES)
                .read_to_string(&mut text)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|cause| bad(&self.path, member, cause))?;
        Ok(text)
    }

    /// Takes out every file below `prefix`, into `to` without the prefix.
    pub(crate) fn extract_folder(&mut self, prefix: &str, to: &Path) -> Result<()> {
        for member in self.paths()? {
            let rest = member.strip_prefix(prefix).unwrap_or_default();
            if rest.is_empty() || rest.ends_with('/') {
                continue;
            }
            if Path::new(rest)
                .components()
                .any(|part| !matches!(part, Component::Normal(_)))
            {
                return Err(bad(&self.path, &member, "its path leads out of the wheel"));
            }
            if rest.contains(char::is_control) {
                return Err(bad(
                    &self.path,
                    &member,
                    "its path holds control characters",
                ));
            }
            self.extract(&member, &to.join(rest), |_| {})?;
        }
        Ok(())
    }
}

fn bad(wheel: &Path, member: &str, cause: impl fmt::Display) -> Error {
    Error::BadWheel {
        wheel: wheel.to_owned(),
        member: Some(printable(member)),
        cause: printable(cause.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_wheel_names_itself_and_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("torch.whl");
        fs::write(&path, b"PK\x03\x04 half a wheel").unwrap();
        let error = OpenWheel::open(&path).err().unwrap();
        assert!(matches!(error, Error::BadWheel { .. }), "{error:?}");
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "/folder"), @"the wheel /folder/torch.whl cannot be unpacked: invalid Zip archive: Could not find EOCD; run again to fetch it anew");
    }
}
