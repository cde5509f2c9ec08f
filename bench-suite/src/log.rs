//! What a run wrote to its log.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

/// The last few thousand bytes of a log.
pub(crate) fn tail(path: &Path) -> io::Result<String> {
    const LAST: u64 = 4096;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST)))?;
    let mut bytes = Vec::new();
    file.take(LAST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // Neither terminals nor records want what a program drew there.
    Ok(text.replace(|c: char| c.is_control() && c != '\n', " "))
}
