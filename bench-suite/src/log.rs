//! What a run wrote to its log.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

/// The last few thousand bytes of a log, fit to be shown.
pub fn tail(path: &Path) -> io::Result<String> {
    let bytes = last(path, 4096)?;
    Ok(record::printable(&String::from_utf8_lossy(&bytes)).into_owned())
}

/// Leaves the first and the last part of a log that is longer than `limit` bytes, with a line
/// between them.
pub(crate) fn shorten(path: &Path, limit: u64) -> io::Result<()> {
    let length = fs::metadata(path)?.len();
    if length <= limit {
        return Ok(());
    }
    let tail = last(path, limit / 2)?;
    let mut file = File::options().write(true).open(path)?;
    file.set_len(limit / 2)?;
    file.seek(SeekFrom::End(0))?;
    write!(file, "\n… {} bytes left out …\n", length - limit / 2 * 2)?;
    file.write_all(&tail)
}

fn last(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
