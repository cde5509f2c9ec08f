//! A part of a file that must be there to its end: another size would shift all that follows it in
//! an archive.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
};

/// A part of a file, as a file of its own.
pub(crate) struct FilePart {
    file: File,
    start: u64,
    size_bytes: u64,
    position: u64,
}

impl FilePart {
    pub(crate) fn open(path: &Path, start: u64, size_bytes: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Self {
            file,
            start,
            size_bytes,
            position: 0,
        })
    }

    /// All of a file that had this size when its archive was laid out.
    pub(crate) fn whole(path: &Path, size_bytes: u64) -> io::Result<Self> {
        let part = Self::open(path, 0, size_bytes)?;
        if part.file.metadata()?.len() != size_bytes {
            return Err(io::Error::other(
                "its size changed while the image was made; run again",
            ));
        }
        Ok(part)
    }

    pub(crate) fn buffered(self) -> BufReader<Self> {
        BufReader::with_capacity(1 << 18, self)
    }
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.size_bytes.saturating_sub(self.position);
        let most = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let n = self.file.read(&mut buffer[..most])?;
        if n == 0 && most > 0 {
            return Err(io::Error::other("the file ends early; run again"));
        }
        self.position += n as u64;
        Ok(n)
    }
}

impl FileExt for FilePart {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.size_bytes.saturating_sub(offset);
        let most = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        self.file.read_at(&mut buffer[..most], self.start + offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Seek for FilePart {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let wanted = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.size_bytes.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let wanted = wanted.and_then(|wanted| Some((wanted, self.start.checked_add(wanted)?)));
        let (wanted, place) = wanted.ok_or_else(|| io::Error::other("a position in no file"))?;
        self.file.seek(SeekFrom::Start(place))?;
        self.position = wanted;
        Ok(wanted)
    }
}
