//! Slim libraries: without the GPU code that the GPUs at hand cannot run.
//!
//! nvcc puts the code for every architecture into *fatbins*: a header of 16 bytes (magic
//! `0xBA55ED50`, u16 version 1, u16 size of the header, u64 size of what follows), then entries with
//! a header each (u16 kind: 1 PTX, 2 cubin; u16; u32 size of the header; u64 size of the payload;
//! the architecture as u32 at byte 28) and a payload. The driver picks an entry by its header, so
//! payloads that it would not pick can be zeros, and those that follow each other one entry. Where
//! that makes pages of zeros, the file does without them and its loader provides them. All that the
//! driver or a program has the address of stays where it is in memory.

mod holes;
mod pieces;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeSet, fmt, fs::File, io, os::unix::fs::FileExt, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    Result,
    error::at,
    progress::Action,
    spec::gpu::GpuArchitecture,
    store::{Cache, Stamp, read_note},
};

use holes::Shorter;
use pieces::{Edit, Range, edited};
pub(crate) use pieces::{Piece, Pieces};

/// Changes whenever a slim library would have other bytes.
const FORMAT: u32 = 2;
const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
pub(crate) const PTX: u16 = 1;
pub(crate) const CUBIN: u16 = 2;
/// What is read at once.
const WINDOW: usize = 4 << 20;
/// The shortest header of an entry that holds an architecture.
const ENTRY_HEADER: usize = 32;
/// Where in an entry's header the size of its payload stands.
const ENTRY_SIZE: u64 = 8;

/// A library as it comes into a slim image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slim {
    pub(crate) pieces: Vec<Piece>,
    /// Bytes of GPU code that stay.
    pub(crate) kept_bytes: u64,
    /// Bytes of GPU code that are left out.
    pub(crate) left_out_bytes: u64,
}

impl Slim {
    /// A library for GPUs of these architectures; looked up where it was worked out before.
    pub(crate) fn of(
        library: &Path,
        architectures: &[GpuArchitecture],
        cache: &Cache,
    ) -> Result<Self> {
        let stamp = Stamp::of(library).map_err(at(library))?;
        let key = crate::canonical::json(&(FORMAT, stamp, architectures));
        let note = cache.note_path("hashes", format!("slim {key}").as_bytes());
        if let Some(known) = read_note::<Self>(&note) {
            return Ok(known);
        }
        let file = File::open(library).map_err(at(library))?;
        let size = file.metadata().map_err(at(library))?.len();
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        let mut meter = cache.start(Action::Slim, &name, Some(size));
        let slim = scan(&file, size, architectures, |done| meter.advance_to(done))
            .and_then(|found| Self::made(&file, size, &found))
            .map_err(at(library))?;
        cache.write_note(&note, &slim)?;
        Ok(slim)
    }

    fn made(file: &File, size: u64, found: &Found) -> io::Result<Self> {
        let zeros: Vec<Range> = found.unused.iter().map(|run| run.payload).collect();
        let mut edits: Vec<Edit> = found.unused.iter().filter_map(Unused::as_one).collect();
        let mut holes = Vec::new();
        if let Some(shorter) = Shorter::find(file, size, &zeros)? {
            holes.clone_from(&shorter.holes);
            edits.extend(shorter.edits());
        }
        let mut holes = holes.into_iter().peekable();
        for (start, end) in zeros {
            let mut zeros = |place: Range| {
                edits.push(Edit {
                    place,
                    by: Some(Piece::Zeros(place.1 - place.0)),
                });
            };
            // A hole lies within one of them.
            match holes.next_if(|hole| hole.1 <= end) {
                Some(hole) => {
                    zeros((start, hole.0));
                    zeros((hole.1, end));
                }
                None => zeros((start, end)),
            }
        }
        Ok(Self {
            pieces: edited(size, edits),
            kept_bytes: found.kept_bytes,
            left_out_bytes: found.left_out_bytes,
        })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.pieces.iter().map(Piece::size_bytes).sum()
    }
}

/// Code for GPUs: compiled for an architecture, or the text that a driver compiles for it and those
/// after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GpuCode {
    Cubin(u32),
    Ptx(u32),
}

impl fmt::Display for GpuCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cubin(sm) => write!(f, "sm_{sm}"),
            Self::Ptx(sm) => write!(f, "PTX of sm_{sm}"),
        }
    }
}

/// The code for GPUs in a library of this size, without what is left of emptied code.
pub(crate) fn gpu_code(library: &impl FileExt, size: u64) -> io::Result<BTreeSet<GpuCode>> {
    Ok(scan(library, size, &[], |_| {})?.code)
}

/// What of a library's GPU code is used, and what is not.
#[derive(Default)]
struct Found {
    code: BTreeSet<GpuCode>,
    /// In the order of the file.
    unused: Vec<Unused>,
    kept_bytes: u64,
    left_out_bytes: u64,
}

/// Entries that follow each other and that no GPU at hand uses.
struct Unused {
    /// Where the first one's header begins.
    header: u64,
    /// From the first one's payload to the end of the last one.
    payload: Range,
    entries: usize,
}

impl Unused {
    /// Where it is several, the size that makes the first one all of them.
    fn as_one(&self) -> Option<Edit> {
        let size = (self.payload.1 - self.payload.0).to_le_bytes();
        (self.entries > 1).then(|| Edit {
            place: (self.header + ENTRY_SIZE, self.header + ENTRY_SIZE + 8),
            by: Some(Piece::Bytes(size.to_vec())),
        })
    }
}

fn scan(
    file: &impl FileExt,
    size: u64,
    architectures: &[GpuArchitecture],
    mut heard: impl FnMut(u64),
) -> io::Result<Found> {
    let mut found = Found::default();
    let mut window = vec![0; WINDOW + MAGIC.len() - 1];
    let (mut start, mut next) = (0, 0);
    while start < size {
        let length = window
            .len()
            .min(usize::try_from(size - start).unwrap_or(usize::MAX));
        file.read_exact_at(&mut window[..length], start)?;
        for hit in memchr::memmem::find_iter(&window[..length], &MAGIC) {
            let place = start + hit as u64;
            // Within a fatbin lie payloads, which may hold anything.
            if place >= next
                && let Some(end) = fatbin(file, place, size, architectures, &mut found)?
            {
                next = end;
            }
        }
        start += WINDOW as u64;
        heard(start.min(size));
    }
    Ok(found)
}

struct Entry {
    kind: u16,
    architecture: u32,
    header: u64,
    payload: Range,
}

impl Entry {
    /// What it holds; `None` of what is no code, or is none any more.
    fn code(&self, file: &impl FileExt) -> io::Result<Option<GpuCode>> {
        let code = match self.kind {
            PTX => GpuCode::Ptx(self.architecture),
            CUBIN => GpuCode::Cubin(self.architecture),
            _ => return Ok(None),
        };
        let mut start = [0; MAGIC.len()];
        let size = usize::try_from(self.payload.1 - self.payload.0).unwrap_or(usize::MAX);
        let length = size.min(start.len());
        file.read_exact_at(&mut start[..length], self.payload.0)?;
        Ok((start != [0; MAGIC.len()]).then_some(code))
    }
}

/// Reads the fatbin at a place, and where it ends; `None` where there is none.
fn fatbin(
    file: &impl FileExt,
    place: u64,
    size: u64,
    architectures: &[GpuArchitecture],
    found: &mut Found,
) -> io::Result<Option<u64>> {
    let mut header = [0; 16];
    if place + 16 > size {
        return Ok(None);
    }
    file.read_exact_at(&mut header, place)?;
    let (version, header_bytes) = (u16_at(&header, 4), u64::from(u16_at(&header, 6)));
    let end = place
        .checked_add(header_bytes)
        .and_then(|start| start.checked_add(u64_at(&header, 8)))
        .filter(|end| *end <= size);
    let Some(end) = end.filter(|_| version == 1 && header_bytes >= 16) else {
        return Ok(None);
    };
    let mut entries = Vec::new();
    let mut at = place + header_bytes;
    while at + ENTRY_HEADER as u64 <= end {
        let mut header = [0; ENTRY_HEADER];
        file.read_exact_at(&mut header, at)?;
        let (header_bytes, payload_bytes) = (u64::from(u32_at(&header, 4)), u64_at(&header, 8));
        let payload = at.checked_add(header_bytes);
        let after = payload.and_then(|payload| payload.checked_add(payload_bytes));
        let (Some(payload), Some(after)) = (payload, after) else {
            return Ok(None);
        };
        // What is no list of entries to its end is left as it is.
        if header_bytes < ENTRY_HEADER as u64 || after > end {
            return Ok(None);
        }
        entries.push(Entry {
            kind: u16_at(&header, 0),
            architecture: u32_at(&header, 28),
            header: at,
            payload: (payload, after),
        });
        at = after;
    }
    for entry in &entries {
        found.code.extend(entry.code(file)?);
    }
    let kept = kept(&entries, architectures);
    let mut run: Option<Unused> = None;
    for (index, entry) in entries.iter().enumerate() {
        let bytes = entry.payload.1 - entry.payload.0;
        if ![PTX, CUBIN].contains(&entry.kind) || kept.contains(&index) {
            found.kept_bytes += bytes;
            found.unused.extend(run.take());
            continue;
        }
        found.left_out_bytes += bytes;
        let run = run.get_or_insert(Unused {
            header: entry.header,
            payload: entry.payload,
            entries: 0,
        });
        run.payload.1 = entry.payload.1;
        run.entries += 1;
    }
    found.unused.extend(run);
    Ok(Some(end))
}

/// Of a fatbin's entries those that some of these GPUs runs: cubins of its very architecture, else
/// the newest cubins before it of the same generation, else the newest PTX before it.
fn kept(entries: &[Entry], architectures: &[GpuArchitecture]) -> Vec<usize> {
    let mut kept = Vec::new();
    for gpu in architectures {
        let cubins = newest(entries, CUBIN, |sm| gpu.runs_cubin_of(sm));
        if cubins.is_empty() {
            kept.extend(newest(entries, PTX, |sm| sm <= gpu.number()));
        } else {
            kept.extend(cubins);
        }
    }
    kept
}

/// The entries of a kind with the newest of the architectures that fit.
fn newest(entries: &[Entry], kind: u16, is_fit: impl Fn(u32) -> bool) -> Vec<usize> {
    let all = entries.iter().enumerate();
    let fitting = all.filter(|(_, entry)| entry.kind == kind && is_fit(entry.architecture));
    let newest = fitting.clone().map(|(_, entry)| entry.architecture).max();
    let kept = fitting.filter(|(_, entry)| Some(entry.architecture) == newest);
    kept.map(|(index, _)| index).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
