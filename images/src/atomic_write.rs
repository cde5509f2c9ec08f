//! Files that users get: whole under their name or not at all.

use std::{
    fs::{File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::{Result, error::at};

/// Writes a file beside its place and gives it its name once it is whole. It can be read by whom the
/// user's mask lets: an archive is loaded by others too. What is there and is no regular file stays.
pub(crate) fn whole<T>(to: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    check_kind(to)?;
    let folder = folder_of(to);
    let mut aside = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|error| at(folder)(error))?;
    let written = write(aside.as_file_mut())?;
    aside.persist(to).map_err(|error| at(to)(error.error))?;
    Ok(written)
}

/// Whether a file can be written in this place, before the work that fills it: its folder is there
/// and writable, and nothing has its name but a file.
pub fn check_place(to: &Path) -> Result<()> {
    check_kind(to)?;
    tempfile::tempfile_in(folder_of(to))
        .map(drop)
        .map_err(at(folder_of(to)))
}

/// Refuses a place with something that the file's name would be taken from: a directory, a FIFO, a
/// device, or a link, as `/dev/stdout` is one.
fn check_kind(to: &Path) -> Result<()> {
    if to.is_symlink() {
        let what = "it is a link; expected a file, or none";
        return Err(at(to)(io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    match regular_file::check(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(to)(error)),
        _ => Ok(()),
    }
}

fn folder_of(file: &Path) -> &Path {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::{fs, io::Write, os::unix::fs::symlink};

    #[test]
    fn others_can_read_what_a_shell_would_have_let_them_read() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        File::create(&plain).unwrap();
        whole(&ours, |file| file.write_all(b"x").map_err(at(&ours))).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
        assert_eq!(fs::read(&ours).unwrap(), b"x");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        check_place(&folder.path().join("x")).unwrap();
        check_place(Path::new("x-in-this-folder")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let refusals = [folder.path(), &folder.path().join("no/x")].map(|place| {
            let error = check_place(place).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            let text = error.to_string();
            text.replace(folder.path().to_str().unwrap(), "/folder")
        });
        insta::assert_snapshot!(refusals.join("\n"), @r"
        /folder: it is a directory; expected a file
        /folder/no: No such file or directory (os error 2)
        ");
    }

    #[test]
    fn what_is_no_file_keeps_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("directory")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status();
        assert!(made.unwrap().success());
        symlink("file", path("link")).unwrap();
        fs::write(path("file"), "old").unwrap();
        let mut refusals = Vec::new();
        for place in [path("directory"), path("fifo"), path("link")] {
            let kind = || fs::symlink_metadata(&place).unwrap().file_type();
            let before = kind();
            let written = whole(&place, |file| file.write_all(b"new").map_err(at(&place)));
            for error in [written.unwrap_err(), check_place(&place).unwrap_err()] {
                assert!(matches!(error, Error::Io { .. }), "{error:?}");
                let text = error.to_string();
                refusals.push(text.replace(folder.path().to_str().unwrap(), "/folder"));
            }
            assert_eq!(kind(), before);
        }
        assert_eq!(fs::read(path("file")).unwrap(), b"old");
        // Not written to: root would have it replaced, were it not refused.
        let error = check_place(Path::new("/dev/null")).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        refusals.push(error.to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        /folder/directory: it is a directory; expected a file
        /folder/directory: it is a directory; expected a file
        /folder/fifo: it is a FIFO; expected a file
        /folder/fifo: it is a FIFO; expected a file
        /folder/link: it is a link; expected a file, or none
        /folder/link: it is a link; expected a file, or none
        /dev/null: it is a device; expected a file
        ");
    }

    #[test]
    fn what_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("x");
        let failed = std::io::Error::other("half way");
        whole(&place, |_| Err::<(), _>(at(&place)(failed))).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
