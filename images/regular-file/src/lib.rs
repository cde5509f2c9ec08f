//! Opening what is to be a file, and replacing one whole. A FIFO would wait for a writer, a device may
//! never end.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::Path,
};

/// Refuses whatever is there and is no regular file, links followed, by what it is: the error is of
/// the kind [`io::ErrorKind::InvalidInput`].
pub fn check(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("it is {what}; expected a file"),
    ))
}

/// Opens a regular file to be read; anything else is refused at once, as by [`check`].
pub fn open(path: &Path) -> io::Result<File> {
    check(path)?;
    File::open(path)
}

/// Opens a file whose contents errors quote, as [`open`]. A link that leads out of its folder is
/// refused: who may write the folder need not be one who may see what the link leads to.
pub fn open_own(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_symlink() {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !fs::canonicalize(path)?.starts_with(fs::canonicalize(folder)?) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a link that leads out of its folder; give the file itself",
            ));
        }
    }
    open(path)
}

/// The content of a file that may be anybody's, as [`open_own`] opens it.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] where it is larger than this.
pub fn read_own(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    content(&open_own(path)?, most_bytes)
}

/// The content of a regular file, as [`read_own`] but for links, which may lead anywhere.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    content(&open(path)?, most_bytes)
}

fn content(file: &File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most_bytes {
        let message = format!("it is larger than {} MiB", most_bytes >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    file.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file.
pub fn read_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path)?)
}

/// Writes a file, which need not be there. A directory or a FIFO in its place is left alone; what the
/// shell hands over as `/dev/stdout` or `/dev/fd/63`, and `/dev/null`, are written to.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let is_handed_over = path.starts_with("/dev") || path.starts_with("/proc");
    match check(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && !is_handed_over => Err(error),
        _ => fs::write(path, content),
    }
}

/// Puts a file in the place of one that may be there, whole or not at all: `write` fills it aside, in
/// the same folder, and it takes its place once it is on the disk. Of two writers at once one wins.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // For whom the umask says, not for the owner alone.
    let mut fresh = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    write(fresh.as_file_mut())?;
    fresh.as_file().sync_all()?;
    fresh.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        os::unix::{fs::symlink, net::UnixListener},
    };

    use super::*;

    #[test]
    fn what_is_no_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, what) in [
            (folder.path(), "a directory"),
            (&socket, "a socket"),
            (Path::new("/dev/null"), "a device"),
        ] {
            let error = open(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{what}");
            assert_eq!(error.to_string(), format!("it is {what}; expected a file"));
        }
        assert!(write(folder.path(), "").is_err());
        write(Path::new("/dev/null"), "given up").unwrap();
    }

    #[test]
    fn a_link_is_followed_within_its_folder_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (own, others) = (folder.path().join("own"), folder.path().join("others"));
        fs::create_dir(&own).unwrap();
        for (content, name) in [("near", "own/file"), ("far", "others")] {
            write(&folder.path().join(name), content).unwrap();
        }
        symlink("file", own.join("within")).unwrap();
        symlink(&others, own.join("out")).unwrap();
        let text = io::read_to_string(open_own(&own.join("within")).unwrap());
        assert_eq!(text.unwrap(), "near");
        let refused = open_own(&own.join("out")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "it is a link that leads out of its folder; give the file itself"
        );
        assert_eq!(read_text(&own.join("out")).unwrap(), "far");
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        for text in ["old, and longer", "new"] {
            replace(&path, |file| file.write_all(text.as_bytes())).unwrap();
            assert_eq!(read_text(&path).unwrap(), text);
        }
        let error = replace(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!(error.unwrap_err().to_string(), "the disk is full");
        assert_eq!(read_text(&path).unwrap(), "new");
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        replace(&taken, |_| Ok(())).unwrap_err();
        let names = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file.json", "taken"]);
    }
}
