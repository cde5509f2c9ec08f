//! Takes pages of zeros out of a shared library, which its loader then provides.
//!
//! A program header maps bytes of the file to addresses. One whose bytes have pages of zeros in
//! them is split: what lies before and after them keeps its addresses and moves up in the file, and
//! for the pages themselves a header asks for memory and no bytes, as it does for `.bss`. No address
//! changes, so that nothing that points into the library has to. The program headers become more
//! than there is room for, and stand at the end of the file, where the loader copies them from.

use std::{fs::File, io, os::unix::fs::FileExt as _};

use object::{
    LittleEndian as LE,
    elf::{
        self, DataEncoding, ELFCLASS64, ELFMAG, FileHeader64, PF_X, PT_LOAD, PT_NULL, PT_PHDR,
        ProgramFlags, ProgramHeader64, SHT_NOBITS, SectionHeader64,
    },
    pod::{bytes_of, bytes_of_slice, from_bytes, slice_from_all_bytes},
};

use super::pieces::{Edit, Piece, Range};

/// What is mapped at once on x86-64.
const PAGE: u64 = 4096;
/// Each hole is two more mappings: fewer bytes are not worth them.
const SMALLEST: u64 = 64 << 10;
/// The most holes of a file. A process may have 65,530 mappings by default.
const MOST: usize = 1000;

/// A library's headers, and what is taken out of it.
pub(super) struct Shorter {
    header: FileHeader64<LE>,
    segments: Vec<ProgramHeader64<LE>>,
    sections: Vec<SectionHeader64<LE>>,
    size: u64,
    /// In the order of the file.
    pub(super) holes: Vec<Range>,
}

impl Shorter {
    /// The pages within these zeros that a loader can provide; `None` where there are none, or the
    /// file is no shared library for x86-64.
    pub(super) fn find(file: &File, size: u64, zeros: &[Range]) -> io::Result<Option<Self>> {
        let Some((header, segments, sections)) = headers(file, size)? else {
            return Ok(None);
        };
        let tables = [
            span::<FileHeader64<LE>>(0, 1),
            span::<ProgramHeader64<LE>>(header.e_phoff.get(LE), header.e_phnum.get(LE)),
            span::<SectionHeader64<LE>>(header.e_shoff.get(LE), header.e_shnum.get(LE)),
        ];
        let overlap = |a: Range, b: Range| a.0 < b.1 && b.0 < a.1;
        if zeros
            .iter()
            .any(|zeros| tables.iter().any(|table| overlap(*table, *zeros)))
        {
            return Ok(None);
        }
        let mut holes: Vec<Range> = zeros
            .iter()
            .map(|(start, end)| (start.next_multiple_of(PAGE), end / PAGE * PAGE))
            .filter(|(start, end)| end.saturating_sub(*start) >= SMALLEST)
            .filter(|hole| is_of_one_segment(*hole, &segments))
            .collect();
        holes.sort_by_key(|(start, end)| (std::cmp::Reverse(end - start), *start));
        holes.truncate(MOST);
        holes.sort_unstable();
        Ok((!holes.is_empty()).then_some(Self {
            header,
            segments,
            sections,
            size,
            holes,
        }))
    }

    /// What has to stand elsewhere in the file, and what comes after its end.
    pub(super) fn edits(self) -> Vec<Edit> {
        let segments: Vec<_> = self
            .segments
            .iter()
            .flat_map(|segment| self.split(segment))
            .collect();
        let sections: Vec<_> = self.sections.iter().map(|one| self.moved(one)).collect();
        // No segment's last page reaches there: what a loader finds mapped it does not copy.
        let end = self.moved_to(self.size);
        let table = end.next_multiple_of(PAGE);
        let mut header = self.header;
        header.e_phoff.set(LE, table);
        // As many as fit: at most two for each hole and what was there, which was counted.
        header
            .e_phnum
            .set(LE, u16::try_from(segments.len()).unwrap_or(u16::MAX));
        let sections_at = self.header.e_shoff.get(LE);
        header.e_shoff.set(LE, self.moved_to(sections_at));

        let bytes = |place: u64, bytes: &[u8]| Edit {
            place: (place, place + bytes.len() as u64),
            by: Some(Piece::Bytes(bytes.to_vec())),
        };
        let mut edits = vec![
            bytes(0, bytes_of(&header)),
            Edit {
                place: (self.size, self.size),
                by: Some(Piece::Zeros(table - end)),
            },
            Edit {
                place: (self.size, self.size),
                by: Some(Piece::Bytes(bytes_of_slice(&segments).to_vec())),
            },
        ];
        if !sections.is_empty() {
            edits.push(bytes(sections_at, bytes_of_slice(&sections)));
        }
        edits.extend(self.holes.iter().map(|hole| Edit {
            place: *hole,
            by: None,
        }));
        edits
    }

    /// Where a place of the file comes to.
    fn moved_to(&self, place: u64) -> u64 {
        let before = self.holes.iter().take_while(|(_, end)| *end <= place);
        place - before.map(|(start, end)| end - start).sum::<u64>()
    }

    fn split(&self, segment: &ProgramHeader64<LE>) -> Vec<ProgramHeader64<LE>> {
        let (start, end) = range_of(segment);
        let mut moved = *segment;
        moved.p_offset.set(LE, self.moved_to(start));
        if segment.p_type.get(LE) != PT_LOAD {
            return vec![moved];
        }
        // Places move by pages, and no further than that can they still be aligned.
        if moved.p_offset.get(LE) != start {
            moved.p_align.set(LE, PAGE);
        }
        let inside = |hole: &&Range| start <= hole.0 && hole.1 <= end;
        let mut parts = Vec::new();
        let mut position = start;
        let mut part = |from: u64, file_bytes: u64, memory_bytes: u64, is_hole: bool| {
            let mut part = moved;
            let by = from - start;
            part.p_offset.set(LE, self.moved_to(from));
            part.p_vaddr.set(LE, segment.p_vaddr.get(LE) + by);
            part.p_paddr
                .set(LE, segment.p_paddr.get(LE).wrapping_add(by));
            part.p_filesz.set(LE, file_bytes);
            part.p_memsz.set(LE, memory_bytes);
            if by > 0 {
                part.p_align.set(LE, PAGE);
            }
            if is_hole {
                // Memory that is no file's and may be run is what hardened kernels refuse.
                let flags = segment.p_flags.get(LE).0 & !PF_X.0;
                part.p_flags.set(LE, ProgramFlags(flags));
            }
            if memory_bytes > 0 {
                parts.push(part);
            }
        };
        for (from, to) in self.holes.iter().filter(inside) {
            part(position, from - position, from - position, false);
            part(*from, 0, to - from, true);
            position = *to;
        }
        let memory_end = start + segment.p_memsz.get(LE);
        part(position, end - position, memory_end - position, false);
        parts
    }

    fn moved(&self, section: &SectionHeader64<LE>) -> SectionHeader64<LE> {
        let mut moved = *section;
        let (start, size) = (section.sh_offset.get(LE), section.sh_size.get(LE));
        moved.sh_offset.set(LE, self.moved_to(start));
        let has_hole = self
            .holes
            .iter()
            .any(|hole| hole.0 < start.saturating_add(size) && start < hole.1);
        if has_hole && section.sh_type.get(LE) != SHT_NOBITS {
            // What it has is not in one place any more.
            moved.sh_type.set(LE, SHT_NOBITS);
        }
        moved
    }
}

fn range_of(segment: &ProgramHeader64<LE>) -> Range {
    let start = segment.p_offset.get(LE);
    (start, start.saturating_add(segment.p_filesz.get(LE)))
}

/// Whether a hole lies within one segment that is loaded, and no other header speaks of it.
fn is_of_one_segment((start, end): Range, segments: &[ProgramHeader64<LE>]) -> bool {
    let mut loads = 0;
    for segment in segments {
        let (first, over) = range_of(segment);
        if first >= end || over <= start {
            continue;
        }
        if segment.p_type.get(LE) != PT_LOAD || start < first || over < end {
            return false;
        }
        loads += 1;
    }
    loads == 1
}

type Headers = (
    FileHeader64<LE>,
    Vec<ProgramHeader64<LE>>,
    Vec<SectionHeader64<LE>>,
);

/// The headers of a shared library for x86-64 as linkers write them; `None` of anything else.
fn headers(file: &File, size: u64) -> io::Result<Option<Headers>> {
    const SEGMENT: usize = size_of::<ProgramHeader64<LE>>();
    const SECTION: usize = size_of::<SectionHeader64<LE>>();
    let first = span::<FileHeader64<LE>>(0, 1);
    let Some(first) = read(file, size, first)? else {
        return Ok(None);
    };
    let Ok((header, _)) = from_bytes::<FileHeader64<LE>>(&first) else {
        return Ok(None);
    };
    let ident = &header.e_ident;
    let is_library = ident.magic == ELFMAG
        && ident.class == ELFCLASS64
        && ident.data == DataEncoding(elf::ELFDATA2LSB.0)
        && header.e_machine.get(LE) == elf::EM_X86_64
        && header.e_type.get(LE) == elf::ET_DYN
        && usize::from(header.e_phentsize.get(LE)) == SEGMENT
        && (header.e_shnum.get(LE) == 0 || usize::from(header.e_shentsize.get(LE)) == SECTION);
    if !is_library {
        return Ok(None);
    }
    let segments = span::<ProgramHeader64<LE>>(header.e_phoff.get(LE), header.e_phnum.get(LE));
    let sections = span::<SectionHeader64<LE>>(header.e_shoff.get(LE), header.e_shnum.get(LE));
    let segments = read(file, size, segments)?;
    let sections = read(file, size, sections)?;
    let (Some(segments), Some(sections)) = (segments, sections) else {
        return Ok(None);
    };
    let segments = slice_from_all_bytes::<ProgramHeader64<LE>>(&segments);
    let sections = slice_from_all_bytes::<SectionHeader64<LE>>(&sections);
    let (Ok(segments), Ok(sections)) = (segments, sections) else {
        return Ok(None);
    };
    if !segments.iter().all(|segment| is_sound(segment, size)) {
        return Ok(None);
    }
    let mut segments = segments.to_vec();
    // It would tell the loader that the table lies where it has been.
    segments.retain(|segment| ![PT_PHDR, PT_NULL].contains(&segment.p_type.get(LE)));
    Ok(Some((*header, segments, sections.to_vec())))
}

/// Whether a segment's figures fit the file, each other and the address space.
fn is_sound(segment: &ProgramHeader64<LE>, size: u64) -> bool {
    let (offset, address) = (segment.p_offset.get(LE), segment.p_vaddr.get(LE));
    let (in_file, in_memory) = (segment.p_filesz.get(LE), segment.p_memsz.get(LE));
    let is_load = segment.p_type.get(LE) == PT_LOAD;
    offset.checked_add(in_file).is_some_and(|end| end <= size)
        && offset.checked_add(in_memory).is_some()
        && address.checked_add(in_memory).is_some()
        && (!is_load || in_file <= in_memory && address % PAGE == offset % PAGE)
}

/// Where a table of so many entries lies that begins there.
fn span<T>(start: u64, count: u16) -> Range {
    (
        start,
        start.saturating_add(u64::from(count) * size_of::<T>() as u64),
    )
}

fn read(file: &File, size: u64, (start, end): Range) -> io::Result<Option<Vec<u8>>> {
    let Some(bytes) = usize::try_from(end - start).ok().filter(|_| end <= size) else {
        return Ok(None);
    };
    let mut content = vec![0; bytes];
    file.read_exact_at(&mut content, start)?;
    Ok(Some(content))
}
