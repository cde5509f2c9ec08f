//! What users' programs find of this machine in their containers: files and folders, copied or packed.

use std::{
    fs::{self, Metadata},
    io::{self, Cursor, Read as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use record::SessionFolder;

/// The most that packed mounts may be once they are unpacked.
const MOST_UNPACKED: u64 = 1 << 30;

/// A copy that everybody may write to: who the container's user is, only its image knows.
///
/// # Errors
/// Where something cannot be read or written, or is no file, folder or link.
pub fn copy_to(source: &Path, target: &Path) -> io::Result<()> {
    for (from, to, facts) in contents(source, target)? {
        let made = if facts.is_symlink() {
            fs::read_link(&from).and_then(|link| symlink(link, &to))
        } else {
            let (made, all) = if facts.is_dir() {
                (fs::create_dir(&to), 0o777)
            } else {
                (fs::copy(&from, &to).map(drop), 0o666)
            };
            let everybody_s = fs::Permissions::from_mode(facts.permissions().mode() | all);
            made.and_then(|()| fs::set_permissions(&to, everybody_s))
        };
        made.map_err(|error| at(&from, &error))?;
    }
    Ok(())
}

/// Everything below a source, and where it goes, each folder before what is in it. Sessions are left
/// out, for the one under way may lie there. No link is followed but one that is the source itself.
fn contents(source: &Path, target: &Path) -> io::Result<Vec<(PathBuf, PathBuf, Metadata)>> {
    let mut all = Vec::new();
    let whole = source.canonicalize().map_err(|error| at(source, &error))?;
    let mut left = vec![(whole, target.to_owned())];
    while let Some((from, to)) = left.pop() {
        let failed = |error| at(&from, &error);
        let facts = fs::symlink_metadata(&from).map_err(failed)?;
        if facts.is_dir() {
            for entry in fs::read_dir(&from).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if !entry.path().join(SessionFolder::SESSION).exists() {
                    left.push((entry.path(), to.join(entry.file_name())));
                }
            }
        } else if !facts.is_file() && !facts.is_symlink() {
            return Err(failed(io::Error::other("it is no file, folder or link")));
        }
        all.push((from, to, facts));
    }
    Ok(all)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    let words = format!("copying {}: {error}", path.display());
    io::Error::new(error.kind(), words)
}

/// Packs sources, each below its number.
///
/// # Errors
/// Of the kind `WriteZero` where that takes more than so many bytes.
pub(super) fn pack(sources: &[&Path], most: usize) -> io::Result<Vec<u8>> {
    let room = Cursor::new(vec![0; most].into_boxed_slice());
    let mut archive = tar::Builder::new(GzEncoder::new(room, Compression::default()));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    archive.sparse(false);
    for (number, source) in sources.iter().enumerate() {
        for (from, to, _) in contents(source, Path::new(&number.to_string()))? {
            let packed = archive.append_path_with_name(&from, to);
            packed.map_err(|error| at(&from, &error))?;
        }
    }
    let room = archive.into_inner()?.finish()?;
    let length = usize::try_from(room.position()).unwrap_or(most);
    let mut packed = room.into_inner().into_vec();
    packed.truncate(length);
    Ok(packed)
}

/// Unpacks what [`pack`] packed, and makes these copies, `NUMBER:NAME,…`, in a folder that is there.
///
/// # Errors
/// Where it is no such archive, would write outside of the folder, or cannot be written.
pub fn unpack(packed: &[u8], folder: &Path, copies: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("the mounts cannot be unpacked: {error}");
    let mut archive = tar::Archive::new(GzDecoder::new(packed).take(MOST_UNPACKED));
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let kind = entry.header().entry_type();
        let is_known = kind.is_file() || kind.is_dir() || kind.is_symlink();
        if !is_known || !entry.unpack_in(folder).map_err(failed)? {
            let path = entry.path().unwrap_or_default();
            return Err(format!("`{}` is no file of a mount", path.display()));
        }
    }
    let copies = copies.split(',').filter_map(|copy| copy.split_once(':'));
    for (number, name) in copies {
        copy_to(&folder.join(number), &folder.join(name)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(home: &Path) -> PathBuf {
        let source = home.join("src");
        fs::create_dir_all(source.join("a")).unwrap();
        fs::write(source.join("a/run.sh"), "x").unwrap();
        fs::set_permissions(source.join("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a/run.sh", source.join("link")).unwrap();
        fs::create_dir(source.join("session")).unwrap();
        fs::write(source.join("session/session.json"), "{}").unwrap();
        source
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_copy_is_the_whole_tree_and_everybody_s_to_write() {
        let home = tempfile::tempdir().unwrap();
        let source = tree(home.path());
        let target = home.path().join("copy");
        symlink(&source, home.path().join("other")).unwrap();
        copy_to(&home.path().join("other"), &target).unwrap();
        let modes = ["a", "a/run.sh"].map(|path| mode(&target.join(path)));
        assert_eq!(modes, [0o777, 0o777]);
        assert_eq!(
            fs::read_link(target.join("link")).unwrap(),
            Path::new("a/run.sh")
        );
        assert!(!target.join("session").exists());
        let error = copy_to(&home.path().join("none"), &target.join("x")).unwrap_err();
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(home.path().to_str().unwrap(), "/home"), @"copying /home/none: No such file or directory (os error 2)");
    }

    #[test]
    fn mounts_are_packed_whole_or_refused_for_their_size() {
        let home = tempfile::tempdir().unwrap();
        let source = tree(home.path());
        let file = source.join("a/run.sh");
        let packed = pack(&[&source, &file], 1 << 20).unwrap();
        let to = home.path().join("to");
        fs::create_dir(&to).unwrap();
        unpack(&packed, &to, "0:run-0001-0").unwrap();
        assert_eq!(fs::read_to_string(to.join("0/link")).unwrap(), "x");
        assert_eq!(fs::read_to_string(to.join("1")).unwrap(), "x");
        assert!(!to.join("0/session").exists());
        let modes = ["0/a/run.sh", "run-0001-0/a/run.sh"].map(|path| mode(&to.join(path)));
        assert_eq!(modes, [0o755, 0o777]);
        let error = pack(&[&source], 64).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero, "{error}");
    }

    #[test]
    fn nothing_is_unpacked_outside_of_its_folder() {
        use tar::EntryType::{Fifo, Link, Regular, Symlink};
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("kept"), "kept").unwrap();
        for (number, entries) in [
            vec![("../kept", Regular, "")],
            vec![("a", Symlink, ".."), ("a/kept", Regular, "")],
            vec![("a", Link, "../kept")],
            vec![("a", Fifo, "")],
        ]
        .into_iter()
        .enumerate()
        {
            let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            for (name, kind, link) in entries {
                let mut header = tar::Header::new_gnu();
                header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
                header.as_gnu_mut().unwrap().linkname[..link.len()]
                    .copy_from_slice(link.as_bytes());
                header.set_entry_type(kind);
                header.set_mode(0o644);
                header.set_size(u64::from(kind == Regular));
                header.set_cksum();
                let content: &[u8] = if kind == Regular { b"x" } else { b"" };
                archive.append(&header, content).unwrap();
            }
            let packed = archive.into_inner().unwrap().finish().unwrap();
            let to = home.path().join(number.to_string());
            fs::create_dir(&to).unwrap();
            unpack(&packed, &to, "").unwrap_err();
            assert_eq!(
                fs::read_to_string(home.path().join("kept")).unwrap(),
                "kept"
            );
        }
    }
}
