//! Edits of zip archives: their members, and the records around them.

use std::io::{Cursor, Read as _, Write as _};

use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::{Dice, Pool};

/// Edits an archive.
pub(crate) fn edit(archive: &[u8], _: &Pool, dice: &mut Dice) -> Vec<u8> {
    if dice.one_in(2)
        && let Some(members) = read(archive)
    {
        return written(edited(members, dice), dice).unwrap_or_default();
    }
    let mut archive = archive.to_vec();
    for _ in 0..dice.edits() {
        edit_record(&mut archive, dice);
    }
    archive
}

/// Mutates what follows a record's signature, its numbers and its name, in the same length.
fn edit_record(archive: &mut Vec<u8>, dice: &mut Dice) {
    let records = archive
        .windows(2)
        .enumerate()
        .filter(|(_, two)| two == b"PK");
    let records: Vec<usize> = records.map(|(place, _)| place + 4).collect();
    if records.is_empty() || dice.one_in(8) {
        *archive = dice.mutated(archive);
        return;
    }
    let begin = dice.pick(&records).saturating_add(dice.below(42));
    let Some(part) = archive.get_mut(begin..) else {
        return;
    };
    let length = part.len().min(*dice.pick(&[2, 4, 8, 40]));
    let part = &mut part[..length];
    let new = match dice.below(4) {
        0 => dice.size().to_le_bytes().to_vec(),
        _ => dice.mutated(part),
    };
    for (byte, new) in part.iter_mut().zip(new) {
        *byte = new;
    }
}

type Members = Vec<(String, Vec<u8>)>;

fn read(archive: &[u8]) -> Option<Members> {
    let mut archive = ZipArchive::new(Cursor::new(archive)).ok()?;
    let mut members = Members::new();
    for place in 0..archive.len() {
        let member = archive.by_index(place).ok()?;
        let (name, mut content) = (member.name().ok()?.into_owned(), Vec::new());
        member.take(1 << 20).read_to_end(&mut content).ok()?;
        members.push((name, content));
    }
    Some(members)
}

fn edited(mut members: Members, dice: &mut Dice) -> Members {
    for _ in 0..dice.edits() {
        if members.is_empty() {
            members.push((dice.text(""), Vec::new()));
        }
        let (at, other) = (dice.below(members.len()), dice.below(members.len()));
        let (name, content) = &mut members[at];
        match dice.below(8) {
            0 => drop(members.remove(at)),
            1 => members.swap(at, other),
            2 => *content = vec![0; *dice.pick(&[0, 1, 1 << 20])],
            3 => *content = dice.mutated(content),
            4 => name.insert_str(name.rfind('/').map_or(0, |slash| slash + 1), "../"),
            5 => {
                let added = (dice.text(name), content.clone());
                members.push(added);
            }
            _ => *name = dice.text(name),
        }
    }
    members
}

fn written(members: Members, dice: &mut Dice) -> Option<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content) in members {
        let method = *dice.pick(&[CompressionMethod::Deflated, CompressionMethod::Stored]);
        let options = SimpleFileOptions::default().compression_method(method);
        // What the writer refuses, such as a name twice, comes of edited records.
        if writer.start_file(path, options).is_ok() {
            writer.write_all(&content).ok()?;
        }
    }
    writer.finish().map(Cursor::into_inner).ok()
}
