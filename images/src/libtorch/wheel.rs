//! Reading wheels, which are zip archives.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufReader, Read},
    path::{Path, PathBuf},
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

    fn bad(&self, member: &str, cause: impl std::fmt::Display) -> Error {
        Error::BadWheel {
            wheel: self.path.clone(),
            member: Some(printable(member.to_owned())),
            cause: printable(cause.to_string()),
        }
    }

    /// The shared libraries in it: file name to path. Of two with one name the first path counts.
    pub(crate) fn libraries(&self) -> Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        for path in self.archive.file_names() {
            let path = path.map_err(|error| self.bad("its list of files", error))?;
            let Some(name) = path.rsplit('/').next() else {
                continue;
            };
            if is_library(name) && !path.contains("/stubs/") {
                found
                    .entry(name.to_owned())
                    .or_insert_with(|| path.clone().into_owned());
            }
        }
        Ok(found)
    }

    /// Whether a file with such an end of its path is in it.
    pub(crate) fn has_file_ending(&self, end: &str) -> Result<bool> {
        for path in self.archive.file_names() {
            if path.map_err(|error| self.bad(end, error))?.ends_with(end) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The folders with headers in NVIDIA's wheels: `nvidia/cu13/include/`,
    /// `nvidia/cuda_runtime/include/`.
    pub(crate) fn include_folders(&self) -> Result<Vec<String>> {
        let mut folders = std::collections::BTreeSet::new();
        for path in self.archive.file_names() {
            let path = path.map_err(|error| self.bad("include", error))?;
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
        let wheel = self.path.clone();
        let bad = |cause: String| Error::BadWheel {
            wheel: wheel.clone(),
            member: Some(printable(member.to_owned())),
            cause: printable(cause),
        };
        let mut entry = self
            .archive
            .by_name(member)
            .map_err(|error| bad(error.to_string()))?;
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        let file = File::create(to).map_err(at(to))?;
        copy_hashed(&mut entry, file, done).map_err(|error| match error {
            CopyError::Read(error) => bad(error.to_string()),
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
        read.map_err(|cause| self.bad(member, cause))?;
        Ok(text)
    }

    /// Takes out every file below `prefix`, into `to` without the prefix.
    pub(crate) fn extract_folder(&mut self, prefix: &str, to: &Path) -> Result<()> {
        let mut members = Vec::new();
        for path in self.archive.file_names() {
            let path = path.map_err(|error| self.bad(prefix, error))?;
            if let Some(rest) = path.strip_prefix(prefix)
                && !rest.is_empty()
                && !rest.ends_with('/')
            {
                members.push((path.clone().into_owned(), rest.to_owned()));
            }
        }
        for (member, rest) in members {
            if Path::new(&rest)
                .components()
                .any(|part| !matches!(part, std::path::Component::Normal(_)))
            {
                return Err(self.bad(&member, "its path leads out of the wheel"));
            }
            if rest.contains(char::is_control) {
                return Err(self.bad(&member, "its path holds control characters"));
            }
            self.extract(&member, &to.join(rest), |_| {})?;
        }
        Ok(())
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
        let error = OpenWheel::open(&path).err().unwrap().to_string();
        for part in ["torch.whl", "run again"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
