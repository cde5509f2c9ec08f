//! Opening what is to be a file. A FIFO would wait for a writer, a device may never end.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileTypeExt as _,
    path::Path,
};

/// Opens a regular file, links followed; anything else is refused at once, by what it is.
pub fn open_file(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    let what = if kind.is_file() {
        return File::open(path);
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
