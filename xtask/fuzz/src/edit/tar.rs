//! Edits of tar archives: their headers, their members, and what lies in those.

use flate2::{Compression, write::GzEncoder};
use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::io::Write as _;

use super::{Material, bytes, elf, json, text};

const BLOCK: usize = 512;

/// One member: its header as it lies there, and its content.
#[derive(Clone)]
struct Member {
    header: [u8; BLOCK],
    content: Vec<u8>,
}

/// Edits the archive of a root file system.
pub fn edit(archive: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut members = read(archive);
    for _ in 0..edits {
        edit_members(&mut members, from, random);
    }
    written(&members, random)
}

/// Edits the archive of an image: `docker image save`'s, with layers inside.
pub fn edit_image(archive: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut members = read(archive);
    for _ in 0..edits {
        let is_layer = |member: &Member| name(member).ends_with("layer.tar");
        let layers: Vec<usize> = (0..members.len())
            .filter(|at| is_layer(&members[*at]))
            .collect();
        match layers.choose(random) {
            Some(&layer) if random.random_bool(0.4) => {
                let edited = edit(&members[layer].content, 1, from, random);
                members[layer].content = if random.random_range(0..6) == 0 {
                    packed(&edited)
                } else {
                    edited
                };
                refresh(&mut members[layer]);
            }
            _ => edit_members(&mut members, from, random),
        }
    }
    // A layer that is not what the configuration says is refused before it is read.
    if random.random_bool(0.8) {
        name_layers(&mut members);
    }
    written(&members, random)
}

/// An archive of these files.
#[must_use]
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let members: Vec<Member> = files
        .iter()
        .map(|(path, content)| file(path, content))
        .collect();
    joined(&members)
}

/// The same with links: path and target.
#[must_use]
pub fn archive_with_links(files: &[(&str, &[u8])], links: &[(&str, &str)]) -> Vec<u8> {
    let mut members: Vec<Member> = files
        .iter()
        .map(|(path, content)| file(path, content))
        .collect();
    for (path, target) in links {
        let mut link = file(path, b"");
        link.header[156] = b'2';
        put(&mut link.header[157..257], target.as_bytes());
        sum(&mut link.header);
        members.push(link);
    }
    joined(&members)
}

/// The image archive of these layers.
#[must_use]
pub fn image(layers: &[Vec<u8>], are_packed: bool) -> Vec<u8> {
    let names: Vec<String> = (0..layers.len())
        .map(|place| format!("{place}/layer.tar"))
        .collect();
    let manifest = serde_json::json!([{
        "Config": "config.json",
        "RepoTags": ["base:latest"],
        "Layers": names,
    }]);
    let config = serde_json::json!({
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-11-21T10:00:00Z",
        "config": {
            "Env": ["PATH=/usr/bin:/bin", "LD_PRELOAD="],
            "Cmd": ["sh"],
            "Labels": { "org.opencontainers.image.title": "base" },
            "ExposedPorts": { "80/tcp": {} },
        },
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|layer| digest(layer)).collect::<Vec<_>>() },
        "history": [{ "created": "2026-11-21T10:00:00Z", "created_by": "COPY", "empty_layer": false }],
    });
    let mut members = vec![
        file("manifest.json", manifest.to_string().as_bytes()),
        file("config.json", config.to_string().as_bytes()),
    ];
    for (name, layer) in names.iter().zip(layers) {
        let content = if are_packed {
            packed(layer)
        } else {
            layer.clone()
        };
        members.push(file(name, &content));
    }
    joined(&members)
}

fn packed(content: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packed.write_all(content).and_then(|()| packed.finish());
    written.unwrap_or_default()
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(content))
}

fn file(path: &str, content: &[u8]) -> Member {
    let mut header = [0; BLOCK];
    put(&mut header[..100], path.as_bytes());
    put(&mut header[100..108], b"0000755");
    put(&mut header[108..116], b"0000000");
    put(&mut header[116..124], b"0000000");
    put(&mut header[136..148], b"00000000000");
    header[156] = b'0';
    put(&mut header[257..265], b"ustar\x0000");
    let mut member = Member {
        header,
        content: content.to_vec(),
    };
    refresh(&mut member);
    member
}

fn put(field: &mut [u8], value: &[u8]) {
    field.fill(0);
    let length = value.len().min(field.len());
    field[..length].copy_from_slice(&value[..length]);
}

/// Sets the size that the content has.
fn refresh(member: &mut Member) {
    let size = format!("{:011o}", member.content.len());
    put(&mut member.header[124..136], size.as_bytes());
    sum(&mut member.header);
}

fn sum(header: &mut [u8; BLOCK]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    put(&mut header[148..156], format!("{sum:06o}\0 ").as_bytes());
}

fn name(member: &Member) -> String {
    let name = member.header[..100].split(|byte| *byte == 0).next();
    String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
}

/// The members of an archive that says the truth about their sizes.
fn read(archive: &[u8]) -> Vec<Member> {
    let mut members = Vec::new();
    let mut rest = archive;
    while let Some((header, after)) = rest.split_first_chunk::<BLOCK>() {
        if header[0] == 0 {
            break;
        }
        let size = std::str::from_utf8(&header[124..135]).unwrap_or_default();
        let size = usize::from_str_radix(size, 8).unwrap_or(0).min(after.len());
        members.push(Member {
            header: *header,
            content: after[..size].to_vec(),
        });
        rest = &after[size.next_multiple_of(BLOCK).min(after.len())..];
    }
    members
}

fn joined(members: &[Member]) -> Vec<u8> {
    let mut archive = Vec::new();
    for member in members {
        archive.extend(member.header);
        archive.extend(&member.content);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn written(members: &[Member], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut archive = joined(members);
    match random.random_range(0..16) {
        0 => bytes::edit(&mut archive, random),
        1 => archive.truncate(archive.len() - BLOCK * random.random_range(1..=2)),
        _ => {}
    }
    archive
}

/// Paths that mean something to whoever reads a base.
const PATHS: &[&str] = &[
    "etc/os-release",
    "etc/ld.so.preload",
    "var/lib/dpkg/status",
    "var/lib/dpkg/status.d/base",
    "lib/apk/db/installed",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "usr/local/cuda/version.json",
    "opt/conda/conda-meta/x.json",
    "usr/lib/python3/dist-packages/x.dist-info/METADATA",
    "lib/x86_64-linux-gnu/libc.so.6",
    "lib64/libc.so.6",
    "usr/lib",
    "lib",
    "manifest.json",
    "./manifest.json",
    "config.json",
    "0/layer.tar",
    "../0/layer.tar",
    "a/.wh.b",
    ".wh..wh..opq",
    "etc/.wh.os-release",
    ".wh.",
    "/",
    "./",
    "etc",
];

fn edit_members(members: &mut Vec<Member>, from: &Material, random: &mut ChaCha8Rng) {
    if members.is_empty() {
        members.push(file(PATHS.choose(random).unwrap_or(&"a"), b""));
        return;
    }
    let at = random.random_range(0..members.len());
    match random.random_range(0..14) {
        0 => drop(members.remove(at)),
        1 => {
            let copy = members[at].clone();
            members.insert(random.random_range(0..=members.len()), copy);
        }
        2 => {
            let other = random.random_range(0..members.len());
            members.swap(at, other);
        }
        3 => {
            let path = path(random);
            put(&mut members[at].header[..100], path.as_bytes());
            sum(&mut members[at].header);
        }
        4 => {
            members[at].header[156] = *b"01234567LKxgSDVN\0".choose(random).unwrap_or(&b'0');
            if random.random_bool(0.5) {
                put(&mut members[at].header[157..257], path(random).as_bytes());
            }
            sum(&mut members[at].header);
        }
        5 => lie_about_size(&mut members[at].header, random),
        6 => {
            let field = *[100..108, 108..116, 124..136, 136..148, 257..265, 345..500]
                .choose(random)
                .as_ref()
                .unwrap_or(&&(124..136));
            let noise = text(random);
            put(&mut members[at].header[field.clone()], noise.as_bytes());
            sum(&mut members[at].header);
        }
        7 => {
            // A header whose sum is not its own.
            let place = random.random_range(0..BLOCK);
            members[at].header[place] ^= 1;
        }
        8 => members.insert(at, extension(random)),
        9 => make_sparse(&mut members[at], random),
        _ => edit_content(&mut members[at], from, random),
    }
}

fn path(random: &mut ChaCha8Rng) -> String {
    if random.random_bool(0.7) {
        (*PATHS.choose(random).unwrap_or(&"a")).to_owned()
    } else {
        text(random)
    }
}

fn lie_about_size(header: &mut [u8; BLOCK], random: &mut ChaCha8Rng) {
    let size = odd_size(random);
    if size < 8_u64.pow(11) && random.random_bool(0.5) {
        put(&mut header[124..136], format!("{size:011o}").as_bytes());
    } else {
        // In base 256, as GNU tar writes what octal digits have no room for.
        header[124..136].fill(0);
        header[124] = *[0x80, 0xff].choose(random).unwrap_or(&0x80);
        header[128..136].copy_from_slice(&size.to_be_bytes());
    }
    sum(header);
}

fn odd_size(random: &mut ChaCha8Rng) -> u64 {
    match random.random_range(0..6) {
        0 => u64::MAX,
        1 => u64::MAX - random.random_range(0..2048),
        2 => i64::MAX.cast_unsigned() - random.random_range(0..2),
        3 => 1 << random.random_range(0..64),
        4 => random.random_range(0..4096),
        _ => 0,
    }
}

/// A member that says something about the next one.
fn extension(random: &mut ChaCha8Rng) -> Member {
    if random.random_bool(0.4) {
        let mut long = path(random).into_bytes();
        long.push(0);
        let mut member = file("././@LongLink", &long);
        member.header[156] = *b"LK".choose(random).unwrap_or(&b'L');
        sum(&mut member.header);
        return member;
    }
    let mut records = String::new();
    for _ in 0..random.random_range(1..4) {
        let (key, value) = match random.random_range(0..5) {
            0 => ("path", path(random)),
            1 => ("linkpath", path(random)),
            2 => ("size", odd_size(random).to_string()),
            3 => ("GNU.sparse.realsize", odd_size(random).to_string()),
            _ => ("mtime", text(random)),
        };
        let body = format!(" {key}={value}\n");
        let mut length = body.len() + 1;
        while length != body.len() + length.to_string().len() {
            length += 1;
        }
        if random.random_range(0..5) == 0 {
            length = (length + random.random_range(0..7)).saturating_sub(3);
        }
        records.push_str(&length.to_string());
        records.push_str(&body);
    }
    let mut member = file("PaxHeaders/x", records.as_bytes());
    member.header[156] = *b"xxg".choose(random).unwrap_or(&b'x');
    sum(&mut member.header);
    member
}

/// A file with holes, as GNU tar writes it.
fn make_sparse(member: &mut Member, random: &mut ChaCha8Rng) {
    put(&mut member.header[257..265], b"ustar  \0");
    member.header[156] = b'S';
    let mut field = |place: usize, value: u64| {
        let field = &mut member.header[place..place + 12];
        field.fill(0);
        field[0] = 0x80;
        field[4..12].copy_from_slice(&value.to_be_bytes());
    };
    let size = odd_size(random);
    let hole = if random.random_bool(0.5) {
        size
    } else {
        odd_size(random)
    };
    let length = member.content.len() as u64;
    // One piece with all that is there, one at the end without anything.
    field(386, 0);
    field(398, length);
    field(410, hole);
    field(
        422,
        if random.random_bool(0.8) {
            0
        } else {
            odd_size(random)
        },
    );
    field(483, size);
    sum(&mut member.header);
}

fn edit_content(member: &mut Member, from: &Material, random: &mut ChaCha8Rng) {
    let content = &mut member.content;
    if content.starts_with(b"\x7fELF") || content.starts_with(b"SQLite format 3") {
        elf::edit_number(content, random);
    } else if content.starts_with(b"{") || content.starts_with(b"[") {
        *content = json::edit(content, 1, from, random);
    } else if let (Ok(written), true) = (std::str::from_utf8(content), random.random_bool(0.8)) {
        let mut lines: Vec<String> = written.lines().map(str::to_owned).collect();
        if !lines.is_empty() {
            let at = random.random_range(0..lines.len());
            match random.random_range(0..4) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, text(random)),
                2 => {
                    let place = lines[at].find([':', '=']).map_or(0, |place| place + 1);
                    lines[at].replace_range(place.., &text(random));
                }
                _ => lines.insert(at, lines[at].clone()),
            }
        }
        *content = lines.join("\n").into_bytes();
    } else {
        bytes::edit(content, random);
    }
    refresh(member);
}

/// Writes into the configuration of an image what its layers are.
fn name_layers(members: &mut [Member]) {
    let value = |name_of: &str, members: &[Member]| -> Option<Value> {
        let member = members.iter().find(|member| name(member) == name_of)?;
        serde_json::from_slice(&member.content).ok()
    };
    let Some(manifest) = value("manifest.json", members) else {
        return;
    };
    let Some(layers) = manifest[0]["Layers"].as_array() else {
        return;
    };
    let digests: Vec<Value> = layers
        .iter()
        .map(|layer| {
            let layer = layer.as_str().unwrap_or_default();
            let found = members.iter().find(|member| name(member) == layer);
            found.map_or(Value::Null, |member| {
                let mut plain = Vec::new();
                let mut unpack = flate2::read::GzDecoder::new(member.content.as_slice());
                match std::io::Read::read_to_end(&mut unpack, &mut plain) {
                    Ok(_) => digest(&plain).into(),
                    Err(_) => digest(&member.content).into(),
                }
            })
        })
        .collect();
    let config = manifest[0]["Config"].as_str().unwrap_or_default();
    let Some(mut settings) = value(config, members) else {
        return;
    };
    // Only where the place is there: its absence is an edit too.
    let Some(place) = settings.pointer_mut("/rootfs/diff_ids") else {
        return;
    };
    *place = Value::Array(digests);
    let Some(member) = members.iter_mut().find(|member| name(member) == config) else {
        return;
    };
    member.content = settings.to_string().into_bytes();
    refresh(member);
}
