//! Edits of YAML: values as in JSON, and what only YAML has: indentation, anchors, tags, quotes.

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::{Material, bytes, json, text};

/// Edits a document: its values, or its lines.
pub fn edit(document: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    if random.random_bool(0.65)
        && let Ok(mut value) = serde_yaml::from_slice::<Value>(document)
    {
        for _ in 0..edits {
            json::edit_value(&mut value, from, random);
        }
        // JSON is YAML too.
        if random.random_range(0..4) == 0 {
            return serde_json::to_vec(&value).unwrap_or_default();
        }
        return serde_yaml::to_string(&value)
            .unwrap_or_default()
            .into_bytes();
    }
    let Ok(written) = std::str::from_utf8(document) else {
        let mut document = document.to_vec();
        bytes::edit(&mut document, random);
        return document;
    };
    let mut lines: Vec<String> = written.lines().map(str::to_owned).collect();
    for _ in 0..edits {
        edit_lines(&mut lines, from, random);
    }
    let end = *["\n", "\n", "\n", "\r\n", "\r"]
        .choose(random)
        .unwrap_or(&"\n");
    let mut written = lines.join(end);
    if random.random_bool(0.8) {
        written.push_str(end);
    }
    let mut written = written.into_bytes();
    if random.random_range(0..10) == 0 {
        bytes::edit(&mut written, random);
    }
    written
}

/// What changes how a value reads.
const MARKS: &[&str] = &[
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "!!binary ",
    "| ",
    "> ",
    "|+ ",
    "'",
    "\"",
    "? ",
    "- ",
    "%YAML 1.1",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ": ",
    "#",
    "---",
    "...",
    "<<: *a",
    "\t",
    "@",
    "`",
    "\u{feff}",
    "? - ",
];

fn edit_lines(lines: &mut Vec<String>, from: &Material, random: &mut ChaCha8Rng) {
    if lines.is_empty() {
        lines.push(from.key(random) + ":");
        return;
    }
    let at = random.random_range(0..lines.len());
    let block = at..at + block_length(&lines[at..]);
    match random.random_range(0..11) {
        0 => drop(lines.drain(block)),
        1 => {
            let copy = lines[block].to_vec();
            let to = random.random_range(0..=lines.len());
            lines.splice(to..to, copy);
        }
        2 => {
            let other = random.random_range(0..lines.len());
            lines.swap(at, other);
        }
        3 => {
            let by = random.random_range(1..=4);
            for line in &mut lines[block] {
                line.insert_str(0, &" ".repeat(by));
            }
        }
        4 => {
            for line in &mut lines[block] {
                let shorter = line.strip_prefix("  ").map(str::to_owned);
                if let Some(shorter) = shorter {
                    *line = shorter;
                }
            }
        }
        5 => {
            let mark = MARKS.choose(random).unwrap_or(&"");
            let places: Vec<usize> = lines[at].char_indices().map(|(place, _)| place).collect();
            let place = places.choose(random).copied().unwrap_or(0);
            lines[at].insert_str(place, mark);
        }
        6 => {
            let mark = MARKS.choose(random).unwrap_or(&"");
            match lines[at].find(": ") {
                Some(place) => lines[at].insert_str(place + 2, mark),
                None => lines[at].push_str(mark),
            }
        }
        7 => {
            if let Some(place) = lines[at].find(": ") {
                let value = match from.value(random) {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                lines[at].replace_range(place + 2.., &value);
            }
        }
        8 => {
            let trimmed = lines[at].trim_start();
            let indent = lines[at].len() - trimmed.len();
            if let Some(colon) = trimmed.find(':') {
                lines[at].replace_range(indent..indent + colon, &from.key(random));
            }
        }
        // A list of lists, each of them named twice in the next: a few lines, a million values.
        9 => {
            lines.insert(0, "x0: &x0 [a, a, a, a, a, a, a, a, a, a]".to_owned());
            for level in 1..random.random_range(2..9) {
                let below = format!("*x{}", level - 1);
                let line = format!("x{level}: &x{level} [{}]", vec![below; 10].join(", "));
                lines.insert(level, line);
            }
        }
        _ => lines.insert(at, text(random)),
    }
}

/// A line and those that are indented below it.
fn block_length(lines: &[String]) -> usize {
    let indent = |line: &String| line.len() - line.trim_start().len();
    let Some((first, rest)) = lines.split_first() else {
        return 0;
    };
    let own = indent(first);
    1 + rest.iter().take_while(|line| indent(line) > own).count()
}
