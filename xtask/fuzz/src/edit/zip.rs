//! Edits of zip archives: their members, and the numbers in their directory.

use std::io::{Cursor, Read as _, Write as _};

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::{Material, bytes, text};

/// Edits an archive.
pub fn edit(archive: &[u8], edits: u32, _: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut archive = archive.to_vec();
    if random.random_bool(0.4)
        && let Some(mut members) = read(&archive)
    {
        for _ in 0..edits {
            edit_members(&mut members, random);
        }
        archive = written(&members, random);
        if random.random_bool(0.5) {
            return archive;
        }
    }
    for _ in 0..edits {
        if random.random_range(0..5) == 0 {
            bytes::edit(&mut archive, random);
        } else {
            edit_record(&mut archive, random);
        }
    }
    archive
}

/// An archive of these files, some of them compressed.
#[must_use]
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (place, (path, content)) in files.iter().enumerate() {
        let method = if place % 2 == 0 {
            CompressionMethod::Deflated
        } else {
            CompressionMethod::Stored
        };
        add(&mut writer, path, content, method);
    }
    writer.finish().map(Cursor::into_inner).unwrap_or_default()
}

fn add(
    writer: &mut ZipWriter<Cursor<Vec<u8>>>,
    path: &str,
    content: &[u8],
    method: CompressionMethod,
) {
    let options = SimpleFileOptions::default().compression_method(method);
    // What the writer refuses, such as a name twice, is made by editing its records.
    if writer.start_file(path, options).is_ok() {
        let _ = writer.write_all(content);
    }
}

fn read(archive: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut archive = ZipArchive::new(Cursor::new(archive)).ok()?;
    let mut members = Vec::new();
    for place in 0..archive.len() {
        let mut member = archive.by_index(place).ok()?;
        let mut content = Vec::new();
        member.read_to_end(&mut content).ok()?;
        members.push((member.name().ok()?.into_owned(), content));
    }
    Some(members)
}

/// Paths that mean something to whoever reads a wheel.
const PATHS: &[&str] = &[
    "torch/lib/libc10.so",
    "torch/include/../../../../escaped",
    "torch/include//absolute",
    "torch/include/a/",
    "torch/include/a/b",
    "torch/include/.",
    "torch/include/a/../b",
    "torch/include/torch/a.h",
    "torch/include/a\0b",
    "nvidia/cu13/include/../x",
    "nvidia/../include/x",
    "nvidia/cu13/include/cuda.h",
    "nvidia//include/x",
    "/etc/passwd",
    "../libx.so",
    "libx.so.1.2",
    "a/libx.so",
    "a\\libx.so",
    "x.dist-info/METADATA",
    "stubs/libx.so",
];

fn edit_members(members: &mut Vec<(String, Vec<u8>)>, random: &mut ChaCha8Rng) {
    let path = |random: &mut ChaCha8Rng| {
        if random.random_bool(0.7) {
            (*PATHS.choose(random).unwrap_or(&"a")).to_owned()
        } else {
            text(random)
        }
    };
    if members.is_empty() {
        members.push((path(random), Vec::new()));
        return;
    }
    let at = random.random_range(0..members.len());
    match random.random_range(0..6) {
        0 => drop(members.remove(at)),
        1 => members.push((path(random), members[at].1.clone())),
        2 => members[at].0 = path(random),
        3 => members[at].1 = vec![0; *[0, 1, 1 << 20].choose(random).unwrap_or(&0)],
        4 => {
            let other = random.random_range(0..members.len());
            members.swap(at, other);
        }
        _ => bytes::edit(&mut members[at].1, random),
    }
}

fn written(members: &[(String, Vec<u8>)], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content) in members {
        let method = if random.random_bool(0.5) {
            CompressionMethod::Deflated
        } else {
            CompressionMethod::Stored
        };
        add(&mut writer, path, content, method);
    }
    writer.finish().map(Cursor::into_inner).unwrap_or_default()
}

/// Where a field of a record lies: offset and width.
type Field = (usize, usize);

/// Signatures of the records, and their fields.
const RECORDS: [(&[u8; 4], &[Field]); 3] = [
    (
        b"PK\x03\x04",
        &[
            (4, 2),
            (6, 2),
            (8, 2),
            (14, 4),
            (18, 4),
            (22, 4),
            (26, 2),
            (28, 2),
        ],
    ),
    (
        b"PK\x01\x02",
        &[
            (4, 2),
            (6, 2),
            (8, 2),
            (10, 2),
            (16, 4),
            (20, 4),
            (24, 4),
            (28, 2),
            (30, 2),
            (32, 2),
            (34, 2),
            (36, 2),
            (38, 4),
            (42, 4),
        ],
    ),
    (
        b"PK\x05\x06",
        &[(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)],
    ),
];

fn edit_record(archive: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    let Some((mark, fields)) = RECORDS.choose(random) else {
        return;
    };
    let places: Vec<usize> = archive
        .windows(4)
        .enumerate()
        .filter(|(_, four)| four == mark)
        .map(|(place, _)| place)
        .collect();
    let Some(&record) = places.choose(random) else {
        bytes::edit(archive, random);
        return;
    };
    // The name begins behind the last field.
    if random.random_range(0..6) == 0 {
        let name = record + if *mark == b"PK\x03\x04" { 30 } else { 46 };
        let noise = if random.random_bool(0.5) {
            (*PATHS.choose(random).unwrap_or(&"a")).to_owned()
        } else {
            text(random)
        };
        for (byte, new) in archive.iter_mut().skip(name).zip(noise.bytes().take(24)) {
            *byte = new;
        }
        return;
    }
    let &(offset, width) = fields.choose(random).unwrap_or(&(4, 2));
    let Some(field) = archive.get(record + offset..record + offset + width) else {
        return;
    };
    let old = field
        .iter()
        .rev()
        .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let new = match random.random_range(0..8) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 => 8,
        5 => 1 << random.random_range(0..32),
        6 => archive.len() as u64,
        _ => random.random(),
    };
    let at = record + offset;
    archive[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
}
