//! One session on a GPU, or on the CPUs, at a time, on the whole machine.
//!
//! A lock is a file that is locked (`flock(2)`) while a session measures, in a folder that every
//! user of the machine shares. The kernel drops the lock with the process, however that ends; the
//! file stays, and holds nobody up.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use record::Gpu;
use serde::{Deserialize, Serialize};

use crate::host::{LOCK_FOLDERS, LOCKS_VARIABLE, LockError};

/// A note longer than this is none of ours.
const MAX_NOTE_BYTES: u64 = 4096;

/// Who holds a lock, as its file says.
#[derive(Serialize, Deserialize)]
struct Holder {
    session: String,
    pid: u32,
    since: Timestamp,
}

/// Locks a GPU, or the CPUs, for the session of this name, in the machine's folder; with `share`,
/// together with other sessions that share it. Whoever holds the file holds the device.
pub(super) fn take(gpu: Option<&Gpu>, session: &str, share: bool) -> Result<File, LockError> {
    take_in(&folder(), gpu, session, share)
}

fn take_in(
    folder: &Path,
    gpu: Option<&Gpu>,
    session: &str,
    share: bool,
) -> Result<File, LockError> {
    let word = gpu.map_or_else(|| "cpu".to_owned(), |gpu| file_word(&gpu.uuid));
    let path = folder.join(format!("torchgauge-{word}.lock"));
    let device = match gpu {
        Some(gpu) => format!("cuda:{} ({}, {})", gpu.index, gpu.name, gpu.uuid),
        None => "this machine's CPU".to_owned(),
    };
    let io = |source| {
        LockError(format!(
            "cannot lock {device} with {}: {source}; {LOCKS_VARIABLE}=DIR names another folder, the \
             same for every session of this machine",
            path.display()
        ))
    };
    let mut file = open(&path).map_err(io)?;
    let locked = if share {
        file.try_lock_shared()
    } else {
        file.try_lock()
    };
    match locked {
        Ok(()) => {
            write_note(&mut file, session).map_err(io)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let (another, option) = match gpu {
                Some(_) => (", take another GPU with --device cuda:N", "--share-gpu"),
                None => ("", "--share-cpu"),
            };
            let holder = read_note(&mut file).map_or_else(
                || "another session of Torchgauge".to_owned(),
                |Holder {
                     session,
                     pid,
                     since,
                 }| {
                    let since = since.strftime("%F %T UTC");
                    format!("the session {session}, process {pid}, since {since}")
                },
            );
            Err(LockError(format!(
                "{device} is in use by {holder}; wait for its end{another}, or pass {option} to \
                 both if noisy metrics are acceptable"
            )))
        }
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

/// The folder that all sessions of the machine agree on: by what the folder allows everybody, not
/// by what it allows this user.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(LOCKS_VARIABLE).filter(|folder| !folder.is_empty()) {
        return PathBuf::from(folder);
    }
    let open_to_all = |folder: &&str| {
        fs::metadata(folder).is_ok_and(|about| about.is_dir() && about.mode() & 0o1777 == 0o1777)
    };
    PathBuf::from(LOCK_FOLDERS.into_iter().find(open_to_all).unwrap_or("/tmp"))
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
    holder.session = record::printable(&holder.session).into_owned();
    Some(holder)
}

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

    /// The text of a refusal, with this process and the time since when replaced.
    fn without_time(text: &str) -> String {
        let text = text.replace(&format!("process {}", std::process::id()), "process PID");
        let (start, rest) = text.split_once("since 2").unwrap();
        let (_, end) = rest.split_once(';').unwrap();
        format!("{start}since TIME;{end}")
    }

    #[test]
    fn a_gpu_is_one_session_s_until_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        let take = |uuid: &str, share| take_in(folder.path(), Some(&gpu(uuid)), "s-1", share);
        let held = take("GPU-1", false).unwrap();
        let other = take("GPU-2", false).unwrap();
        let mut refusals = Vec::new();
        for share in [false, true] {
            refusals.push(without_time(&take("GPU-1", share).unwrap_err().to_string()));
        }
        insta::assert_snapshot!(refusals.join("\n"), @r"
        cuda:1 (NVIDIA H200, GPU-1) is in use by the session s-1, process PID, since TIME; wait for its end, take another GPU with --device cuda:N, or pass --share-gpu to both if noisy metrics are acceptable
        cuda:1 (NVIDIA H200, GPU-1) is in use by the session s-1, process PID, since TIME; wait for its end, take another GPU with --device cuda:N, or pass --share-gpu to both if noisy metrics are acceptable
        ");
        drop(held);
        take("GPU-1", false).unwrap();
        drop(other);
    }

    #[test]
    fn the_cpu_is_one_session_s_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let take = |share| take_in(folder.path(), None, "s-1", share);
        let held = take(false).unwrap();
        let error = take(true).unwrap_err().to_string();
        insta::assert_snapshot!(without_time(&error), @"this machine's CPU is in use by the session s-1, process PID, since TIME; wait for its end, or pass --share-cpu to both if noisy metrics are acceptable");
        // Closing it may leave it to a process that another test has just forked.
        held.unlock().unwrap();
        let (_one, _two) = (take(true).unwrap(), take(true).unwrap());
    }

    #[test]
    fn those_who_share_keep_out_those_who_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let take = |share| take_in(folder.path(), Some(&gpu("GPU-1")), "s-1", share);
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
        let held = take_in(folder.path(), Some(&gpu("GPU-1")), "s", false).unwrap();
        fs::write(&path, "\u{1b}[2J nonsense").unwrap();
        let error = take_in(folder.path(), Some(&gpu("GPU-1")), "s", false).unwrap_err();
        insta::assert_snapshot!(error, @"cuda:1 (NVIDIA H200, GPU-1) is in use by another session of Torchgauge; wait for its end, take another GPU with --device cuda:N, or pass --share-gpu to both if noisy metrics are acceptable");
        drop(held);
    }

    #[test]
    fn links_pipes_and_folders_in_its_place_are_refused_and_missing_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("precious");
        fs::write(&target, "keep").unwrap();
        std::os::unix::fs::symlink(&target, folder.path().join("torchgauge-GPU-1.lock")).unwrap();
        let error = take_in(folder.path(), Some(&gpu("GPU-1")), "s", false).unwrap_err();
        assert!(error.to_string().contains(LOCKS_VARIABLE), "{error}");
        assert_eq!(fs::read_to_string(target).unwrap(), "keep");
        // What is no file of notes neither hangs whoever locks it nor shows what it holds.
        let pipe = folder.path().join("torchgauge-GPU-2.lock");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        take_in(folder.path(), Some(&gpu("GPU-2")), "s", false).unwrap_err();
        fs::create_dir(folder.path().join("torchgauge-GPU-3.lock")).unwrap();
        take_in(folder.path(), Some(&gpu("GPU-3")), "s", false).unwrap_err();
        let none = folder.path().join("none");
        take_in(&none, Some(&gpu("GPU-1")), "s", false).unwrap_err();
    }
}
