//! The pages of an SQLite file, with those that wait in its write-ahead log.
//!
//! Formats: <https://www.sqlite.org/fileformat2.html>.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use crate::database::with_suffix;

/// What this crate makes: SQLite's default.
const PAGE: usize = 4096;
const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

pub(super) struct Pages {
    file: File,
    count: u32,
    /// Newest committed copy of a page in the log.
    logged: HashMap<u32, Vec<u8>>,
}

impl Pages {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let log = match fs::read(with_suffix(path, "-wal")) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let logged = committed(&log);
        let in_file = u32::try_from(length.div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
        let count = logged.keys().copied().max().unwrap_or(0).max(in_file);
        Ok(Self {
            file,
            count,
            logged,
        })
    }

    /// Page numbers start at 1.
    pub(super) fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.count
    }

    /// The page; short of its end it is filled with zeros. `None` where the disk cannot read it.
    pub(super) fn page(&mut self, number: u32) -> Option<Vec<u8>> {
        if let Some(page) = self.logged.get(&number) {
            return Some(page.clone());
        }
        let offset = u64::from(number.checked_sub(1)?) * PAGE as u64;
        self.file.seek(SeekFrom::Start(offset)).ok()?;
        let mut page = Vec::with_capacity(PAGE);
        (&self.file).take(PAGE as u64).read_to_end(&mut page).ok()?;
        page.resize(PAGE, 0);
        Some(page)
    }
}

/// Pages of the log that belong to a transaction that was committed.
fn committed(log: &[u8]) -> HashMap<u32, Vec<u8>> {
    let mut pages = HashMap::new();
    let Some(header) = log.get(..WAL_HEADER) else {
        return pages;
    };
    let big_endian = match word(header, 0) {
        0x377f_0683 => true,
        0x377f_0682 => false,
        _ => return pages,
    };
    let page_size = word(header, 8) as usize;
    let mut sum = checksum(big_endian, [0, 0], &header[..24]);
    if page_size != PAGE || sum != [word(header, 24), word(header, 28)] {
        return pages;
    }
    let mut pending = Vec::new();
    for frame in log[WAL_HEADER..].chunks_exact(FRAME_HEADER + PAGE) {
        let (head, page) = frame.split_at(FRAME_HEADER);
        sum = checksum(big_endian, checksum(big_endian, sum, &head[..8]), page);
        // Frames of an earlier round, or cut off: nothing behind them counts.
        if head[8..16] != header[16..24] || sum != [word(head, 16), word(head, 20)] {
            break;
        }
        pending.push((word(head, 0), page));
        if word(head, 4) != 0 {
            pages.extend(
                pending
                    .drain(..)
                    .map(|(number, page)| (number, page.to_vec())),
            );
        }
    }
    pages
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_be_bytes(word)
}

/// Section 4.2 of the file format.
fn checksum(big_endian: bool, sum: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let number = |bytes: &[u8]| {
        let number = word(bytes, 0);
        if big_endian {
            number
        } else {
            number.swap_bytes()
        }
    };
    bytes.chunks_exact(8).fold(sum, |[a, b], pair| {
        let a = a.wrapping_add(number(pair)).wrapping_add(b);
        let b = b.wrapping_add(number(&pair[4..])).wrapping_add(a);
        [a, b]
    })
}
