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

use super::{Cache, NOTES};
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
        let stamp = Stamp::of(path).map_err(at(path))?;
        let note = self.note_path("hashes", stamp.path.as_os_str().as_encoded_bytes());
        if let Some(known) = read_note::<KnownHash>(&note)
            && known.stamp == stamp
        {
            return Ok(known.digest);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut meter = self
            .progress
            .start(Action::Verify, &name, Some(stamp.size_bytes));
        let file = File::open(path).map_err(at(path))?;
        let digest = Digest::of_reader(file, |done| meter.advance_to(done)).map_err(at(path))?;
        self.write_note(&note, &KnownHash { stamp, digest })?;
        Ok(digest)
    }

    /// Drops what is known of files and layers, so that all of them are read again.
    pub(crate) fn forget_notes(&self) {
        let folders = NOTES.map(|name| fs::read_dir(self.folder(name)));
        for note in folders.into_iter().flatten().flatten().flatten() {
            let _ = fs::remove_file(note.path());
        }
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
