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

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        fs,
        io::{Cursor, Read as _, Write as _},
        path::PathBuf,
        process::Command,
    };

    use super::*;
    use crate::elf::Dynamic;

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

    pub(crate) fn fatbin(entries: &[(u16, u32, &str)]) -> Vec<u8> {
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

    fn gpus(names: &[&str]) -> Vec<GpuArchitecture> {
        names.iter().map(|gpu| gpu.parse().unwrap()).collect()
    }

    /// The file as it comes out for these GPUs.
    fn slim(content: &[u8], names: &[&str]) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let size = content.len() as u64;
        let found = scan(&file, size, &gpus(names), |_| {}).unwrap();
        let slim = Slim::made(&file, size, &found).unwrap();
        let mut out = Vec::new();
        // In pieces of no special size.
        let mut from = Pieces::new(Cursor::new(content), &slim.pieces);
        let mut piece = [0; 4001];
        while let n @ 1.. = from.read(&mut piece).unwrap() {
            out.extend(&piece[..n]);
        }
        assert_eq!(out.len() as u64, slim.size_bytes());
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
        assert_eq!(out.len(), content.len(), "nothing here is a shared library");
        let stays = ["before", "hopper", "another kind", "after"];
        assert!(stays.iter().all(|text| has(&out, text)));
        let goes = ["ampere", "text of", "blackwell"];
        assert!(!goes.iter().any(|text| has(&out, text)));
        let both = slim(&content, &["sm_80", "sm_90"]);
        assert!(has(&both, "ampere") && has(&both, "hopper") && !has(&both, "blackwell"));
        let code = |content: &[u8]| -> Vec<String> {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            let found = gpu_code(&file, content.len() as u64).unwrap();
            found.iter().map(ToString::to_string).collect()
        };
        assert_eq!(code(&content), ["sm_80", "sm_90", "sm_100", "PTX of sm_90"]);
        assert_eq!(code(&out), ["sm_90"]);
    }

    #[test]
    fn a_library_is_looked_through_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libx.so");
        fs::write(
            &path,
            fatbin(&[(CUBIN, 80, "ampere"), (CUBIN, 90, "hopper")]),
        )
        .unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let first = Slim::of(&path, &gpus(&["sm_90"]), &cache).unwrap();
        assert_eq!((first.kept_bytes, first.left_out_bytes), (6, 6));
        assert_eq!(Slim::of(&path, &gpus(&["sm_90"]), &cache).unwrap(), first);
        let other = Slim::of(&path, &gpus(&["sm_80"]), &cache).unwrap();
        assert_ne!(other.pieces, first.pieces);
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

    /// As `dlopen` has it: what lies at the library's fatbin, and what two functions return.
    const LOADER: &str = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int, char **words) {
            void *library = dlopen(words[1], RTLD_NOW);
            if (!library) { fprintf(stderr, "%s", dlerror()); return 1; }
            auto start = (const char *) dlsym(library, "fatbin");
            auto end = (const char *) dlsym(library, "fatbin_end");
            auto thrown = (int (*)()) dlsym(library, "thrown");
            auto pointed = (int (*)()) dlsym(library, "pointed");
            fwrite(start, 1, end - start, stdout);
            fprintf(stderr, "%d %d", thrown(), pointed());
        }"#;

    /// A library with a fatbin between its code and its data, and what needs tables from both.
    fn library(folder: &Path, name: &str, section_flags: &str, fatbin: &[u8]) -> PathBuf {
        fs::write(folder.join("fatbin"), fatbin).unwrap();
        let source = format!(
            r#"
            __asm__(".section .nv_fatbin,\"{section_flags}\"\n.balign 8\n.globl fatbin\nfatbin:\n"
                    ".incbin \"{}\"\n.globl fatbin_end\nfatbin_end:\n.previous");
            int value = 7;
            int *volatile pointer = &value;
            char zeros[100000];
            extern "C" int pointed() {{ return *pointer + zeros[99999]; }}
            extern "C" int thrown() {{ try {{ throw 42; }} catch (int n) {{ return n; }} }}
            "#,
            folder.join("fatbin").display()
        );
        compile(folder, name, &source, &["-shared", "-fPIC"])
    }

    fn compile(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
        let (file, out) = (folder.join("source.cpp"), folder.join(name));
        fs::write(&file, source).unwrap();
        let status = Command::new("c++")
            .arg(&file)
            .args(arguments)
            .arg("-o")
            .arg(&out)
            .arg("-ldl")
            .status()
            .expect("the tests compile small libraries with `c++`: install g++");
        assert!(status.success(), "compiling {name}");
        out
    }

    #[test]
    fn pages_of_zeros_leave_the_file_and_come_back_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let code = |letter: &str, bytes: usize| letter.repeat(bytes);
        let (a, b, h, z) = (
            code("a", 300_000),
            code("b", 200_001),
            code("h", 100_003),
            code("z", 250_000),
        );
        let whole = fatbin(&[
            (CUBIN, 80, &a),
            (CUBIN, 86, &b),
            (CUBIN, 90, &h),
            (PTX, 90, "text"),
            (CUBIN, 100, &z),
        ]);
        let loader = compile(folder, "loader", LOADER, &[]);
        // In memory that is read, run, or written.
        for flags in ["a", "ax", "aw"] {
            let path = library(folder, "libwhole.so", flags, &whole);
            let content = fs::read(&path).unwrap();
            let out = slim(&content, &["sm_90"]);
            let less = content.len() - out.len();
            let unused = a.len() + b.len() + z.len();
            assert!(less > unused - 5 * 4096, "{less} bytes of {unused} less");
            assert!(less < unused, "{less} bytes of {unused} less");
            let slim_path = folder.join("libslim.so");
            fs::write(&slim_path, &out).unwrap();
            assert_eq!(
                Dynamic::of_file(&slim_path).unwrap(),
                Dynamic::of_file(&path).unwrap()
            );

            let output = Command::new(&loader).arg(&slim_path).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(said, "42 7", "{flags}: {}", output.status);
            let memory = output.stdout;
            assert_eq!(memory.len(), whole.len());
            let place = |bytes: &[u8]| memchr::memmem::find(&memory, bytes);
            let kept = memchr::memmem::find(&whole, h.as_bytes());
            assert_eq!(place(h.as_bytes()), kept);
            assert_eq!([place(b"aa"), place(b"bb"), place(b"zz")], [None; 3]);
            // A list of entries to its end still; what is not used and stands side by side is one.
            let mut architectures = Vec::new();
            let mut at = 16;
            while at < memory.len() {
                architectures.push((u16_at(&memory, at), u32_at(&memory, at + 28)));
                let payload = usize::try_from(u64_at(&memory, at + 8)).unwrap();
                at += u32_at(&memory, at + 4) as usize + payload;
            }
            assert_eq!(at, memory.len());
            assert_eq!(architectures, [(CUBIN, 80), (CUBIN, 90), (PTX, 90)]);
        }
    }

    #[test]
    fn a_damaged_library_is_slimmed_or_left_but_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let code = "a".repeat(200_000);
        let whole = fatbin(&[(CUBIN, 80, &code), (CUBIN, 90, "hopper")]);
        let path = library(folder.path(), "libwhole.so", "a", &whole);
        let content = fs::read(&path).unwrap();
        let table = usize::try_from(u64_at(&content, 40)).unwrap();
        let headers = (16..64 + 12 * 56).chain(table..content.len());
        for at in headers.step_by(3) {
            for value in [0x00, 0x7f, 0xff] {
                let mut bad = content.clone();
                bad[at] = value;
                assert!(slim(&bad, &["sm_90"]).len() <= content.len() + 2 * 4096);
            }
        }
    }
}
