//! Edits of CSV: cells, rows, columns, quotes.

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

use super::{Material, bytes, number, text};

/// Edits a table.
pub fn edit(table: &[u8], edits: u32, _: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let written = String::from_utf8_lossy(table);
    let mut rows: Vec<Vec<String>> = written
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect();
    for _ in 0..edits {
        edit_rows(&mut rows, random);
    }
    let end = *["\n", "\n", "\r\n", "\r"].choose(random).unwrap_or(&"\n");
    let rows: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    let mut written = rows.join(end).into_bytes();
    if random.random_bool(0.8) {
        written.extend(end.as_bytes());
    }
    if random.random_range(0..12) == 0 {
        bytes::edit(&mut written, random);
    }
    written
}

/// Ways to write a time or a number.
const CELLS: &[&str] = &[
    "2026-11-21",
    "2026-11-21T10:00:00Z",
    "2026-11-21 10:00:00",
    "2026-11-21T10:00:00+25:59",
    "-009999-01-02T01:59:59Z",
    "9999-12-30T22:00:00.999999999Z",
    "2026-02-30",
    "2026-W47-6",
    "1763719200000",
    "1763719200000000",
    "1763719200000000000",
    "1e11",
    "-1e-400",
    "1e400",
    "1e308",
    "-1e308",
    "0x1p3",
    "+5",
    ".5",
    "5.",
    "infinity",
    "nan",
    "5e-324",
    "\"a\nb\"",
    "\"a\"\"b\"",
    "\"a",
    "a\"b",
    "timestamp",
    "value",
    "revision",
    "Value ",
    "\u{feff}timestamp",
];

fn cell(random: &mut ChaCha8Rng) -> String {
    match random.random_range(0..4) {
        0 => number(random).to_string(),
        1 => text(random),
        _ => (*CELLS.choose(random).unwrap_or(&"")).to_owned(),
    }
}

fn edit_rows(rows: &mut Vec<Vec<String>>, random: &mut ChaCha8Rng) {
    if rows.is_empty() {
        rows.push(vec![cell(random)]);
        return;
    }
    let at = random.random_range(0..rows.len());
    let column = random.random_range(0..rows[at].len().max(1));
    match random.random_range(0..9) {
        0 => drop(rows.remove(at)),
        1 => {
            let times = *[1, 20, 300].choose(random).unwrap_or(&1);
            let copies = vec![rows[at].clone(); times];
            rows.splice(at..at, copies);
        }
        2 => {
            let other = random.random_range(0..rows.len());
            rows.swap(at, other);
        }
        3 => {
            let other = random.random_range(0..rows[at].len().max(1));
            if column < rows[at].len() && other < rows[at].len() {
                rows[at].swap(column, other);
            }
        }
        4 => {
            let column = column.min(rows[at].len());
            rows[at].insert(column, cell(random));
        }
        5 if column < rows[at].len() => drop(rows[at].remove(column)),
        // A whole column: what is odd alone is refused alone.
        6 => {
            let odd = cell(random);
            for row in rows.iter_mut().skip(1) {
                if let Some(place) = row.get_mut(column) {
                    place.clone_from(&odd);
                }
            }
        }
        _ => {
            if let Some(place) = rows[at].get_mut(column) {
                *place = cell(random);
            }
        }
    }
}
