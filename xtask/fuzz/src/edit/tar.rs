//! Edits of tar archives: their headers, their members, and what lies in those.

use std::{
    io::{Read as _, Write as _},
    ops::Range,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use super::{Dice, Pool, json, lines};

const IN_MEMORY: &str = "what is written to memory can be read";

struct Member {
    header: Header,
    content: Vec<u8>,
}

impl Member {
    fn new(name: &str, kind: u8, content: Vec<u8>) -> Self {
        let mut header = Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[156] = kind;
        header.set_mode(0o755);
        let mut member = Self {
            header,
            content: Vec::new(),
        };
        member.set_content(content);
        member
    }

    fn is_named(&self, name: &str) -> bool {
        self.header.path_bytes().as_ref() == name.as_bytes()
    }

    fn set_content(&mut self, content: Vec<u8>) {
        self.header.set_size(content.len() as u64);
        self.header.set_cksum();
        self.content = content;
    }
}

/// Edits the archive of a root file system.
pub(crate) fn edit(archive: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    let Some(mut members) = read(archive) else {
        return dice.mutated(archive);
    };
    for _ in 0..dice.edits() {
        edit_members(&mut members, pool, dice);
    }
    let archive = written(&members);
    if dice.one_in(16) {
        dice.mutated(&archive)
    } else {
        archive
    }
}

/// Edits the archive of an image: `docker image save`'s, with layers inside.
pub(crate) fn edit_image(archive: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    let Some(mut members) = read(archive) else {
        return dice.mutated(archive);
    };
    for _ in 0..dice.edits() {
        let layers = members
            .iter_mut()
            .filter(|member| member.header.path_bytes().ends_with(b"layer.tar"));
        let mut layers: Vec<&mut Member> = layers.collect();
        if layers.is_empty() || dice.one_in(2) {
            edit_members(&mut members, pool, dice);
        } else {
            let at = dice.below(layers.len());
            let edited = edit(&unpacked(&layers[at].content), pool, dice);
            layers[at].set_content(if dice.one_in(4) {
                packed(&edited)
            } else {
                edited
            });
        }
    }
    // A layer that is not what the configuration says is refused before it is read.
    if !dice.one_in(5) {
        name_layers(&mut members);
    }
    written(&members)
}

/// The members of an archive whose headers fit their contents.
fn read(archive: &[u8]) -> Option<Vec<Member>> {
    let mut archive = Archive::new(archive);
    let entries = archive.entries().ok()?.raw(true);
    let members = entries.map(|entry| {
        let mut entry = entry.ok()?;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).ok()?;
        Some(Member {
            header: entry.header().clone(),
            content,
        })
    });
    members.collect()
}

fn written(members: &[Member]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for member in members {
        archive
            .append(&member.header, member.content.as_slice())
            .expect(IN_MEMORY);
    }
    archive.into_inner().expect(IN_MEMORY)
}

/// Where the fields of a header lie: name, mode, owner, size, time, type, link, format, prefix.
const FIELDS: [Range<usize>; 9] = [
    0..100,
    100..108,
    108..116,
    124..136,
    136..148,
    156..157,
    157..257,
    257..265,
    345..500,
];

fn edit_members(members: &mut Vec<Member>, pool: &Pool, dice: &mut Dice) {
    if members.is_empty() {
        members.push(Member::new("a", b'0', Vec::new()));
    }
    let (at, other) = (dice.below(members.len()), dice.below(members.len()));
    let Member { header, content } = &mut members[at];
    match dice.below(14) {
        0 => drop(members.remove(at)),
        1 => {
            let copy = Member {
                header: header.clone(),
                content: content.clone(),
            };
            members.insert(other, copy);
        }
        2 => members.swap(at, other),
        3..6 => {
            let field = &mut header.as_mut_bytes()[dice.pick(&FIELDS).clone()];
            let end = field
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(field.len());
            let old = &field[..if dice.one_in(2) { 0 } else { end }];
            let new = dice.mutated(old);
            let length = new.len().min(field.len());
            field.fill(0);
            field[..length].copy_from_slice(&new[..length]);
            header.set_cksum();
        }
        6 => {
            header.as_mut_bytes()[156] = *dice.pick(b"01234567LKxgSDVN\0");
            header.set_cksum();
        }
        7 => {
            header.set_size(dice.size());
            header.set_cksum();
        }
        // A header whose sum is not its own.
        8 => header.as_mut_bytes()[dice.below(512)] ^= 1,
        9 => members.insert(at, extension(dice)),
        10 => make_sparse(&mut members[at], dice),
        _ => {
            let content = edited(content, pool, dice);
            members[at].set_content(content);
        }
    }
}

/// A member that describes the next one.
fn extension(dice: &mut Dice) -> Member {
    if dice.one_in(3) {
        let kind = *dice.pick(b"LK");
        return Member::new(
            "././@LongLink",
            kind,
            dice.text("etc/os-release\0").into_bytes(),
        );
    }
    let records: Vec<(&str, String)> = (0..dice.edits())
        .map(|_| {
            let key = *dice.pick(&["path", "linkpath", "size", "GNU.sparse.realsize", "mtime"]);
            let value = match dice.below(2) {
                0 => dice.text("lib"),
                _ => dice.size().to_string(),
            };
            (key, value)
        })
        .collect();
    let mut archive = Builder::new(Vec::new());
    let records = records.iter().map(|(key, value)| (*key, value.as_bytes()));
    archive.append_pax_extensions(records).expect(IN_MEMORY);
    let mut members = read(&archive.into_inner().expect(IN_MEMORY)).expect(IN_MEMORY);
    let mut member = members.remove(0);
    if dice.one_in(3) {
        member.header.set_entry_type(EntryType::XGlobalHeader);
        member.header.set_cksum();
    }
    member
}

/// A file with holes, as GNU tar writes it: one piece with all that is there, one at the end.
fn make_sparse(member: &mut Member, dice: &mut Dice) {
    let bytes = member.header.as_mut_bytes();
    bytes[257..265].copy_from_slice(b"ustar  \0");
    bytes[156] = b'S';
    let size = dice.size();
    let hole = if dice.one_in(2) { size } else { dice.size() };
    let rest = if dice.one_in(5) { dice.size() } else { 0 };
    let length = member.content.len() as u64;
    for (place, value) in [
        (386, 0),
        (398, length),
        (410, hole),
        (422, rest),
        (483, size),
    ] {
        bytes[place..place + 4].copy_from_slice(&[0x80, 0, 0, 0]);
        bytes[place + 4..place + 12].copy_from_slice(&value.to_be_bytes());
    }
    member.header.set_cksum();
}

fn edited(content: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    if content.starts_with(b"{") || content.starts_with(b"[") {
        json::edit(content, pool, dice)
    } else if std::str::from_utf8(content).is_ok() {
        lines(content, dice, |line, dice| dice.mutated(line))
    } else {
        dice.mutated(content)
    }
}

fn packed(content: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(content).expect(IN_MEMORY);
    packed.finish().expect(IN_MEMORY)
}

fn unpacked(content: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match GzDecoder::new(content).read_to_end(&mut plain) {
        Ok(_) => plain,
        Err(_) => content.to_vec(),
    }
}

/// Writes into the configuration of an image what its layers are.
fn name_layers(members: &mut [Member]) -> Option<()> {
    let find = |name: &str| members.iter().position(|member| member.is_named(name));
    let value = |at: usize| serde_json::from_slice::<Value>(&members[at].content).ok();
    let manifest = value(find("manifest.json")?)?;
    let digests = manifest[0]["Layers"].as_array()?.iter().map(|layer| {
        let at = layer.as_str().and_then(find)?;
        Some(format!(
            "sha256:{:x}",
            Sha256::digest(unpacked(&members[at].content))
        ))
    });
    let digests: Vec<Option<String>> = digests.collect();
    let at = find(manifest[0]["Config"].as_str()?)?;
    let mut config = value(at)?;
    // Only where the place is there: its absence is an edit too.
    *config.pointer_mut("/rootfs/diff_ids")? = digests.into();
    members[at].set_content(config.to_string().into_bytes());
    Some(())
}
