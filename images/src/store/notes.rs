//! What is known of files without reading them again. Notes only save work: one that cannot be read
//! is none.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Cache, LIBRARIES, forget};
use crate::{Digest, Result, error::at, progress::Action};

/// What a file looked like when it was hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    path: PathBuf,
    size_bytes: u64,
    modified_ns: u128,
    inode: u64,
}

#[derive(Serialize, Deserialize)]
struct KnownHash {
    stamp: Stamp,
    digest: Digest,
}

impl Stamp {
    /// Looks at a file, following links.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
        Ok(Self {
            path: fs::canonicalize(path)?,
            size_bytes: metadata.len(),
            modified_ns: modified.map_or(0, |since| since.as_nanos()),
            inode: metadata.ino(),
        })
    }
}

impl Cache {
    /// The digest of a file; read only where path, size, time and inode say that it has changed
    /// since it was last hashed.
    pub(crate) fn digest_of(&self, path: &Path) -> Result<Digest> {
        if let Some(known) = self.known_digest(path) {
            return Ok(known);
        }
        let stamp = Stamp::of(path).map_err(at(path))?;
        let note = self.hash_note(&stamp);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut meter = self
            .progress
            .start(Action::Verify, &name, Some(stamp.size_bytes));
        let file = File::open(path).map_err(at(path))?;
        let digest = Digest::of_reader(file, |done| meter.advance_to(done)).map_err(at(path))?;
        self.write_note(&note, &KnownHash { stamp, digest })?;
        Ok(digest)
    }

    /// The digest of a file that has not changed since it was hashed.
    pub(crate) fn known_digest(&self, path: &Path) -> Option<Digest> {
        let stamp = Stamp::of(path).ok()?;
        let known = read_note::<KnownHash>(&self.hash_note(&stamp))?;
        (known.stamp == stamp).then_some(known.digest)
    }

    /// Drops what is known of a file's content, so that it is read again. One of the cache's own is
    /// removed, so that it is made again.
    pub(crate) fn doubt(&self, path: &Path) -> Result<()> {
        let stamp = Stamp::of(path).map_err(at(path))?;
        forget(&self.hash_note(&stamp))?;
        if !stamp.path.starts_with(&self.root) {
            return Ok(());
        }
        // A library has a name here and one in every libtorch that it is part of.
        let libraries = self.folder(LIBRARIES);
        for entry in fs::read_dir(&libraries).map_err(at(&libraries))? {
            let entry = entry.map_err(at(&libraries))?;
            if entry
                .metadata()
                .is_ok_and(|facts| facts.ino() == stamp.inode)
            {
                forget(&entry.path())?;
            }
        }
        forget(&stamp.path)
    }

    fn hash_note(&self, stamp: &Stamp) -> PathBuf {
        self.note_path("hashes", stamp.path.as_os_str().as_encoded_bytes())
    }

    /// Where the note on `key` lies, in a folder of the cache.
    pub(crate) fn note_path(&self, folder: &str, key: &[u8]) -> PathBuf {
        let name = format!("{}.json", Digest::of(key).hex());
        self.folder(folder).join(name)
    }

    /// Writes a note whole or not at all.
    pub(crate) fn write_note(&self, path: &Path, note: &impl Serialize) -> Result<()> {
        let json = serde_json::to_vec(note).map_err(|error| at(path)(error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(self.folder("tmp")).map_err(at(path))?;
        io::Write::write_all(&mut file, &json).map_err(at(path))?;
        file.persist(path).map_err(|error| at(path)(error.error))?;
        Ok(())
    }
}

/// A note, or `None` where there is none that can be read: notes only save work.
pub(crate) fn read_note<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
