//! Looking at the files of an image that nothing of was started.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use engine::Container;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

use crate::{Digest, Result, assembly::contents::SCENARIO_IN_IMAGE, error::at};

/// Far above what a scenario binary takes.
const LARGEST_SCENARIO: usize = 256 << 20;

/// Where it lies.
#[derive(Clone, Copy)]
pub(super) enum Inside<'a> {
    /// Never started.
    Container(&'a Container),
    Folder(&'a Path),
}

impl Inside<'_> {
    /// Bytes of the file at a path, links followed; `None` where none is.
    pub(super) async fn size(self, path: &str) -> Result<Option<u64>> {
        let container = match self {
            Self::Container(container) => container,
            Self::Folder(root) => {
                let file = open_in(root, path).ok();
                return Ok(file.and_then(|file| Some(file.metadata().ok()?.len())));
            }
        };
        let mut file = container.stat(path).await?;
        if let Some(target) = file.as_ref().and_then(|file| file.link_target.clone()) {
            file = container.stat(&target).await?;
        }
        Ok(file.map(|file| file.size_bytes))
    }

    /// The digest of the scenario binary; `None` where there is none.
    pub(super) async fn scenario(self) -> Result<Option<Digest>> {
        match self {
            Self::Container(container) => scenario_in(container).await,
            Self::Folder(root) => match open_in(root, SCENARIO_IN_IMAGE) {
                Ok(file) => {
                    let file = file.take(LARGEST_SCENARIO as u64);
                    let digest = Digest::of_reader(file, |_| {});
                    digest.map(Some).map_err(at(Path::new(SCENARIO_IN_IMAGE)))
                }
                Err(_) => Ok(None),
            },
        }
    }
}

/// Opens a regular file below a root as whoever has that root: no link of the image's leads out.
fn open_in(root: &Path, path: &str) -> io::Result<File> {
    let root = open(root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    let file = File::from(file);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::ErrorKind::InvalidInput.into())
}

/// Where the loader finds a library, and its size.
pub(super) async fn loaded(
    inside: Inside<'_>,
    name: &str,
    environment: &BTreeMap<String, String>,
) -> Result<Option<(String, u64)>> {
    let path = environment.get("LD_LIBRARY_PATH");
    for folder in path.iter().flat_map(|path| path.split(':')) {
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        if let Some(bytes) = inside.size(&path).await? {
            return Ok(Some((path, bytes)));
        }
    }
    Ok(None)
}

/// The digest of the scenario binary in a container; `None` where it has none.
async fn scenario_in(container: &Container) -> Result<Option<Digest>> {
    let mut archive = Vec::new();
    let is_there = container.copy_out(SCENARIO_IN_IMAGE, |bytes| {
        archive.extend_from_slice(bytes);
        if archive.len() > LARGEST_SCENARIO {
            return Err(io::Error::other(format!(
                "`{SCENARIO_IN_IMAGE}` is larger than {LARGEST_SCENARIO} bytes"
            )));
        }
        Ok(())
    });
    if !is_there.await? {
        return Ok(None);
    }
    let mut archive = tar::Archive::new(archive.as_slice());
    let entry = archive
        .entries()
        .and_then(|mut entries| entries.next().transpose());
    let unreadable = at(Path::new(SCENARIO_IN_IMAGE));
    let Some(mut file) = entry.map_err(&unreadable)? else {
        return Ok(None);
    };
    if !file.header().entry_type().is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(&unreadable)?;
    Ok(Some(Digest::of(&bytes)))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_of_an_image_lead_nowhere_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("secret"), "12345").unwrap();
        fs::write(root.join("own"), "123").unwrap();
        symlink(folder.path().join("secret"), root.join("absolute")).unwrap();
        symlink("../../secret", root.join("relative")).unwrap();
        symlink("/own", root.join("inner")).unwrap();
        let size = |path: &str| {
            let file = open_in(&root, path).ok();
            file.map(|file| file.metadata().unwrap().len())
        };
        assert_eq!((size("/own"), size("/inner")), (Some(3), Some(3)));
        for path in ["/absolute", "/relative", "/../secret", "/"] {
            assert_eq!(size(path), None, "{path}");
        }
    }
}
