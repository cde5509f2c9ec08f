//! Opening what is to be a file. A FIFO would wait for a writer, a device may never end.
//!
//! `strict-yaml` has the same for its documents: that crate and this one do not know each other.

use std::{
    fs::{self, File},
    io::{self, Read as _},
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

/// Opens a regular file to be read; anything else is refused at once, as by [`check_file`].
pub fn open_file(path: &Path) -> io::Result<File> {
    check_file(path)?;
    File::open(path)
}

/// Opens a file whose contents errors quote, as [`open_file`]. A link that leads out of its folder is
/// refused: who may write the folder need not be one who may see what the link leads to.
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

/// The content of a regular file.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file.
pub fn read_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open_file(path)?)
}

/// Writes a file, which need not be there. A directory or a FIFO in its place is left alone; what the
/// shell hands over as `/dev/stdout` or `/dev/fd/63`, and `/dev/null`, are written to.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let is_handed_over = path.starts_with("/dev") || path.starts_with("/proc");
    match check_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && !is_handed_over => Err(error),
        _ => fs::write(path, content),
    }
}
