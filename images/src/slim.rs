//! Slim libraries: GPU code that the GPUs at hand cannot run, emptied.
//!
//! nvcc puts the code for every architecture into *fatbins*: a header of 16 bytes (magic
//! `0xBA55ED50`, u16 version 1, u16 size of the header, u64 size of what follows), then entries with
//! a header each (u16 kind: 1 PTX, 2 cubin; u16; u32 size of the header; u64 size of the payload;
//! the architecture as u32 at byte 28) and a payload. The driver picks an entry by its header, so
//! payloads that it would not pick can be zeros. Headers, offsets and the file's size stay.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt as _,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    Result,
    error::at,
    progress::Action,
    spec::gpu::GpuArchitecture,
    store::{Cache, Stamp, read_note},
};

/// Changes whenever other bytes would be emptied.
const FORMAT: u32 = 1;
const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
const PTX: u16 = 1;
const CUBIN: u16 = 2;
/// What is read at once.
const WINDOW: usize = 4 << 20;
/// The shortest header of an entry that holds an architecture.
const ENTRY_HEADER: usize = 32;

/// Bytes of a file from the first to before the second.
pub(crate) type Range = (u64, u64);

/// What of a library is emptied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Emptied {
    /// Payloads, in the order of the file.
    pub(crate) ranges: Vec<Range>,
    /// Bytes of the payloads that stay.
    pub(crate) kept_bytes: u64,
}

impl Emptied {
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}

/// What of a library no GPU of these architectures runs; looked up where it was worked out before.
pub(crate) fn emptied(
    library: &Path,
    architectures: &[GpuArchitecture],
    cache: &Cache,
) -> Result<Emptied> {
    let stamp = Stamp::of(library).map_err(at(library))?;
    let key = crate::canonical::json(&(FORMAT, stamp, architectures));
    let note = cache.note_path("hashes", format!("slim {key}").as_bytes());
    if let Some(known) = read_note::<Emptied>(&note) {
        return Ok(known);
    }
    let file = File::open(library).map_err(at(library))?;
    let size = file.metadata().map_err(at(library))?.len();
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let mut meter = cache.start(Action::Slim, &name, Some(size));
    let found = scan(&file, size, architectures, |done| meter.advance_to(done));
    let found = found.map_err(at(library))?;
    cache.write_note(&note, &found)?;
    Ok(found)
}

fn scan(
    file: &File,
    size: u64,
    architectures: &[GpuArchitecture],
    mut heard: impl FnMut(u64),
) -> io::Result<Emptied> {
    let mut found = Emptied::default();
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
    payload: Range,
}

/// Reads the fatbin at a place, and where it ends; `None` where there is none.
fn fatbin(
    file: &File,
    place: u64,
    size: u64,
    architectures: &[GpuArchitecture],
    found: &mut Emptied,
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
            payload: (payload, after),
        });
        at = after;
    }
    let kept = kept(&entries, architectures);
    for (index, entry) in entries.iter().enumerate() {
        let is_code = [PTX, CUBIN].contains(&entry.kind);
        if is_code && !kept.contains(&index) {
            found.ranges.push(entry.payload);
        } else {
            found.kept_bytes += entry.payload.1 - entry.payload.0;
        }
    }
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
    fitting
        .filter(|(_, entry)| Some(entry.architecture) == newest)
        .map(|(index, _)| index)
        .collect()
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

/// Reads a file as if these ranges, in order, were zeros.
pub(crate) struct Emptying<'a, R> {
    from: R,
    position: u64,
    ranges: &'a [Range],
}

impl<'a, R: Read> Emptying<'a, R> {
    pub(crate) fn new(from: R, ranges: &'a [Range]) -> Self {
        Self {
            from,
            position: 0,
            ranges,
        }
    }
}

impl<R: Read> Read for Emptying<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        let (start, end) = (self.position, self.position + n as u64);
        while let [(_, over), rest @ ..] = self.ranges
            && *over <= start
        {
            self.ranges = rest;
        }
        let within = self.ranges.iter().take_while(|(first, _)| *first < end);
        for &(first, over) in within {
            let offset = |place: u64| usize::try_from(place.clamp(start, end) - start);
            if let (Ok(first), Ok(over)) = (offset(first), offset(over)) {
                buffer[first..over].fill(0);
            }
        }
        self.position = end;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u16, architecture: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_le_bytes());
        bytes.extend([1, 1]);
        bytes.extend(64_u32.to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.resize(28, 0);
        bytes.extend(architecture.to_le_bytes());
        bytes.resize(64, 0);
        bytes.extend(payload);
        bytes
    }

    fn fatbin(entries: &[(u16, u32, &str)]) -> Vec<u8> {
        let body: Vec<u8> = entries
            .iter()
            .flat_map(|(kind, sm, payload)| entry(*kind, *sm, payload.as_bytes()))
            .collect();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(16_u16.to_le_bytes());
        bytes.extend((body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    /// The file as it comes out for these GPUs.
    fn slim(content: &[u8], gpus: &[&str]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libx.so");
        std::fs::write(&path, content).unwrap();
        let gpus: Vec<GpuArchitecture> = gpus.iter().map(|gpu| gpu.parse().unwrap()).collect();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let found = emptied(&path, &gpus, &cache).unwrap();
        assert_eq!(emptied(&path, &gpus, &cache).unwrap(), found);
        let mut out = Vec::new();
        // In pieces of no special size.
        let mut from = Emptying::new(content, &found.ranges);
        let mut piece = [0; 7];
        while let n @ 1.. = from.read(&mut piece).unwrap() {
            out.extend(&piece[..n]);
        }
        assert_eq!(out.len(), content.len());
        out
    }

    fn has(bytes: &[u8], text: &str) -> bool {
        memchr::memmem::find(bytes, text.as_bytes()).is_some()
    }

    #[test]
    fn code_of_other_gpus_is_emptied_and_nothing_else() {
        let whole = fatbin(&[
            (CUBIN, 80, "ampere"),
            (CUBIN, 90, "hopper"),
            (PTX, 90, "text of hopper"),
            (CUBIN, 100, "blackwell"),
            (4, 80, "another kind"),
        ]);
        let mut content = b"before".to_vec();
        content.extend(&whole);
        content.extend(b"after");
        let out = slim(&content, &["sm_90"]);
        let stays = ["before", "hopper", "another kind", "after"];
        assert!(stays.iter().all(|text| has(&out, text)));
        let goes = ["ampere", "text of", "blackwell"];
        assert!(!goes.iter().any(|text| has(&out, text)));
        let both = slim(&content, &["sm_80", "sm_90"]);
        assert!(has(&both, "ampere") && has(&both, "hopper") && !has(&both, "blackwell"));
    }

    #[test]
    fn without_its_own_code_a_gpu_runs_its_generations_or_ptx() {
        let content = fatbin(&[(CUBIN, 80, "old"), (CUBIN, 86, "newer"), (PTX, 80, "text")]);
        let out = slim(&content, &["sm_89"]);
        assert!(has(&out, "newer") && !has(&out, "old") && !has(&out, "text"));
        let out = slim(&content, &["sm_90"]);
        assert!(has(&out, "text") && !has(&out, "old") && !has(&out, "newer"));
    }

    #[test]
    fn what_only_looks_like_a_fatbin_stays() {
        let good = fatbin(&[(CUBIN, 80, "ampere")]);
        for at in [4, 6, 16 + 4] {
            let mut bad = good.clone();
            bad[at..at + 2].fill(0xff);
            assert_eq!(slim(&bad, &["sm_90"]), bad, "{at}");
        }
        for length in 0..good.len() {
            assert_eq!(slim(&good[..length], &["sm_90"]), good[..length]);
        }
    }
}
