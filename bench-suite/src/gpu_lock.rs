//! One session on a GPU at a time, on the whole machine.
//!
//! A lock is a file that is locked (`flock(2)`) while a session measures, in a folder that every
//! user of the machine shares. The kernel drops the lock with the process, however that ends; the
//! file itself goes with a session that ends by itself, and one that was left holds nobody up. On
//! the CPU there is nothing to lock.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use record::Gpu;
use serde::{Deserialize, Serialize};

/// Names another folder for the locks; every session of the machine must use the same.
pub const FOLDER_VARIABLE: &str = "TORCHGAUGE_LOCKS";

/// Folders that every user may write to and that go with a reboot, the best first.
const FOLDERS: [&str; 3] = ["/run/lock", "/var/lock", "/tmp"];
/// A note longer than this is none of ours.
const MAX_NOTE_BYTES: u64 = 4096;

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The session.
    pub session: String,
    /// Its process.
    pub pid: u32,
    /// Since when.
    pub since: Timestamp,
}

/// Why a GPU cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum GpuLockError {
    /// Another session measures on it.
    #[error(
        "cuda:{index} ({gpu}) is in use by {}; wait for its end, take another GPU with \
         --device cuda:N, or give --share-gpu to both where the metrics need not be worth much",
        who(holder.as_ref())
    )]
    Held {
        /// The GPU.
        index: u32,
        /// Its name and UUID.
        gpu: String,
        /// Who; `None` where the file does not say.
        holder: Option<Holder>,
    },
    /// The lock's file cannot be used.
    #[error(
        "cannot lock cuda:{index} with {path}: {source}; {FOLDER_VARIABLE}=DIR names another \
         folder, the same for every session of this machine"
    )]
    Io {
        /// The GPU.
        index: u32,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn who(holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder {
            session,
            pid,
            since,
        }) => format!(
            "the session {session}, process {pid}, since {}",
            since.strftime("%F %T UTC")
        ),
        None => "another session of Torchgauge".to_owned(),
    }
}

/// A GPU that is this session's until the lock is dropped.
#[derive(Debug)]
pub struct GpuLock {
    file: File,
    path: PathBuf,
}

impl GpuLock {
    /// Locks a GPU for the session of this name, in the machine's folder; with `share`, together
    /// with other sessions that share it.
    pub fn take(gpu: &Gpu, session: &str, share: bool) -> Result<Self, GpuLockError> {
        Self::take_in(&folder(), gpu, session, share)
    }

    fn take_in(folder: &Path, gpu: &Gpu, session: &str, share: bool) -> Result<Self, GpuLockError> {
        let path = folder.join(format!("torchgauge-{}.lock", file_word(&gpu.uuid)));
        let io = |source| GpuLockError::Io {
            index: gpu.index,
            path: path.clone(),
            source,
        };
        // A holder that ends takes the file away: whoever opened it before then holds a lock on a
        // file that nobody else finds, and begins again.
        loop {
            let mut file = open(&path).map_err(io)?;
            let locked = if share {
                file.try_lock_shared()
            } else {
                file.try_lock()
            };
            match locked {
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) => {
                    write_note(&mut file, session).map_err(io)?;
                    return Ok(Self { file, path });
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(GpuLockError::Held {
                        index: gpu.index,
                        gpu: format!("{}, {}", gpu.name, gpu.uuid),
                        holder: read_note(&mut file),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
    }
}

impl Drop for GpuLock {
    fn drop(&mut self) {
        // Only the last of several that share may take the file away.
        if self.file.try_lock().is_ok() && is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The folder that all sessions of the machine agree on: by what the folder allows everybody, not
/// by what it allows this user.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        return PathBuf::from(folder);
    }
    let open_to_all = |folder: &&str| {
        fs::metadata(folder).is_ok_and(|about| about.is_dir() && about.mode() & 0o1777 == 0o1777)
    };
    PathBuf::from(FOLDERS.into_iter().find(open_to_all).unwrap_or("/tmp"))
}

/// Opens the file, made where it is missing. Links are not followed: the folder is everybody's.
fn open(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(no_follow);
    loop {
        // Asked to create what is another user's, kernels refuse (`fs.protected_regular`).
        match options.create_new(false).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match options.create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                // Other users lock the same file, whatever this one's umask.
                file.set_permissions(fs::Permissions::from_mode(0o666))?;
                return Ok(file);
            }
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn write_note(file: &mut File, session: &str) -> io::Result<()> {
    let note = serde_json::to_string(&Holder {
        session: session.to_owned(),
        pid: std::process::id(),
        since: Timestamp::now(),
    })?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(note.as_bytes())
}

fn read_note(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(MAX_NOTE_BYTES).read_to_string(&mut text).ok()?;
    let mut holder: Holder = serde_json::from_str(&text).ok()?;
    // Anybody may have written it, and it goes to a terminal.
    holder.session.retain(|c| !c.is_control());
    Some(holder)
}

/// A UUID as a file's name.
fn file_word(uuid: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    uuid.chars().map(fit).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(uuid: &str) -> Gpu {
        Gpu {
            index: 1,
            name: "NVIDIA H200".into(),
            uuid: uuid.into(),
            ..Gpu::default()
        }
    }

    #[test]
    fn a_gpu_is_one_session_s_until_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        let take = |uuid: &str, share| GpuLock::take_in(folder.path(), &gpu(uuid), "s-1", share);
        let held = take("GPU-1", false).unwrap();
        let other = take("GPU-2", false).unwrap();
        for share in [false, true] {
            let words = take("GPU-1", share).unwrap_err().to_string();
            let pid = std::process::id();
            let expect = format!(
                "cuda:1 (NVIDIA H200, GPU-1) is in use by the session s-1, process {pid}, since 2"
            );
            assert!(words.starts_with(&expect), "{words}");
            assert!(words.contains("--share-gpu"), "{words}");
        }
        drop(held);
        let again = take("GPU-1", false).unwrap();
        drop((again, other));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn those_who_share_keep_out_those_who_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let take = |share| GpuLock::take_in(folder.path(), &gpu("GPU-1"), "s-1", share);
        let (one, two) = (take(true).unwrap(), take(true).unwrap());
        take(false).unwrap_err();
        drop(one);
        take(false).unwrap_err();
        drop(two);
        take(false).unwrap();
    }

    #[test]
    fn what_a_dead_session_or_anybody_left_behind_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("torchgauge-GPU-1.lock");
        fs::write(&path, "\u{1b}[2J nonsense").unwrap();
        let held = GpuLock::take_in(folder.path(), &gpu("GPU-1"), "s", false).unwrap();
        fs::write(&path, "\u{1b}[2J nonsense").unwrap();
        let error = GpuLock::take_in(folder.path(), &gpu("GPU-1"), "s", false).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("in use by another session of Torchgauge;"),
            "{error}"
        );
        drop(held);
        assert!(!path.exists());
    }

    #[test]
    fn links_are_not_followed_and_folders_that_are_missing_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("precious");
        fs::write(&target, "keep").unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("torchgauge-GPU-1.lock")).unwrap();
        let error = GpuLock::take_in(folder.path(), &gpu("GPU-1"), "s", false).unwrap_err();
        assert!(error.to_string().contains(FOLDER_VARIABLE), "{error}");
        assert_eq!(fs::read_to_string(target).unwrap(), "keep");
        let none = folder.path().join("none");
        GpuLock::take_in(&none, &gpu("GPU-1"), "s", false).unwrap_err();
    }
}
