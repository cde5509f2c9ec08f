//! Opening what is to be a file. A FIFO would wait for a writer, a device may never end.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileTypeExt as _,
    path::Path,
};

/// Refuses whatever is there and is no regular file, links followed, by what it is: the error is of
/// the kind [`io::ErrorKind::InvalidInput`].
pub fn check_file(path: &Path) -> io::Result<()> {
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

/// Opens a regular file; anything else is refused at once, as by [`check_file`].
pub fn open_file(path: &Path) -> io::Result<File> {
    check_file(path)?;
    File::open(path)
}

/// Opens a file whose contents errors quote. A link that leads out of its folder is refused: who
/// may write the folder need not be one who may see what the link leads to.
pub fn open_own_file(path: &Path) -> io::Result<File> {
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
    open_file(path)
}
