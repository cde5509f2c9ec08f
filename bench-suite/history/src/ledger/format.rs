//! The TOML of a ledger: one table an entry, one line a series, in order of IDs, which are as good as
//! random, so that what two branches add rarely lands in one place.

use std::{io, ops::Range, path::Path};

use serde::{Deserialize, Serialize};
use toml_edit::{
    ArrayOfTables, Document, DocumentMut, Item, Table, Value,
    de::from_document,
    ser::{Error, to_document},
};

use super::{Entry, Followed, Ledger, LedgerError};

const VERSION: i64 = 1;
const HEAD: &str = "\
# Regressions, kept by `trend --gate` and changed by `ledger accept`; docs/ci.md says how.
# An entry is open until it is accepted, or all of its series are fixed.
";
const ENTRIES: &str = "regression";
const FOLLOWED: &str = "followed";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    version: i64,
    #[serde(default)]
    followed: Vec<Followed>,
    #[serde(default)]
    regression: Vec<Entry>,
}

/// Reads a ledger; nothing is an empty one.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Ledger, LedgerError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Ledger::default());
    }
    if let Some(line) = conflict(text) {
        let path = path.to_owned();
        return Err(LedgerError::Conflict { path, line });
    }
    let form = |message: String| LedgerError::Form {
        path: path.to_owned(),
        message: record::printable(&message).into_owned(),
    };
    // Without the line that the error's own text quotes: it may be of any file at all.
    let said = |message: &str, span: Option<Range<usize>>| match span {
        Some(span) => form(format!("{}: {message}", place(text, span.start))),
        None => form(message.to_owned()),
    };
    let document =
        Document::parse(text.to_owned()).map_err(|error| said(error.message(), error.span()))?;
    // A newer version may have other keys.
    let version = document
        .as_table()
        .get("version")
        .and_then(Item::as_integer);
    if let Some(got) = version.filter(|got| *got != VERSION) {
        return Err(LedgerError::Version {
            path: path.to_owned(),
            got,
            reads: VERSION,
        });
    }
    let lines = lines_of_entries(&document, text);
    let whole: Whole =
        from_document(document).map_err(|error| said(error.message(), error.span()))?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut places: Vec<usize> = Vec::new();
    for (entry, line) in whole.regression.into_iter().zip(lines) {
        check(&entry).map_err(|message| form(format!("line {line}: {message}")))?;
        match entries.iter().position(|known| known.id == entry.id) {
            None => {
                entries.push(entry);
                places.push(line);
            }
            // Both branches found the same.
            Some(known) if entries[known] == entry => {}
            Some(known) => {
                return Err(LedgerError::Twice {
                    path: path.to_owned(),
                    id: entry.id,
                    first: places[known],
                    second: line,
                });
            }
        }
    }
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(Ledger {
        entries,
        followed: merged(whole.followed),
    })
}

/// Line and column of a byte, from 1.
fn place(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let (line, start) = match before.rfind('\n') {
        Some(end) => (1 + before.matches('\n').count(), end + 1),
        None => (1, 0),
    };
    let column = 1 + before[start..].chars().count();
    format!("line {line}, column {column}")
}

/// Two branches may have begun to follow the same points: the earlier one counts.
fn merged(all: Vec<Followed>) -> Vec<Followed> {
    let mut kept: Vec<Followed> = Vec::new();
    for one in all {
        match kept.iter_mut().find(|other| other.points == one.points) {
            Some(other) if one.since < other.since => other.since = one.since,
            Some(_) => {}
            None => kept.push(one),
        }
    }
    kept
}

/// What TOML cannot know.
fn check(entry: &Entry) -> Result<(), String> {
    let id = &entry.id;
    if id.is_empty() || record::printable(id) != id.as_str() {
        return Err("an entry needs an `id` that can be printed".to_owned());
    }
    let numbers = entry.series.iter().flat_map(|change| {
        let interval = change.interval.into_iter().flatten();
        interval.chain(change.before).chain(change.after)
    });
    if numbers.into_iter().any(|number| !number.is_finite()) {
        return Err(format!("{id}: a level is no finite number"));
    }
    let (silent, machine) = (entry.what == super::Kind::NoNewResult, &entry.machine);
    if silent && machine.is_none() {
        return Err(format!("{id}: `no-new-result` needs a `machine`"));
    }
    if !silent && (entry.first_bad.is_none() || entry.series.is_empty()) {
        return Err(format!("{id}: `regressed` needs `first_bad` and `series`"));
    }
    let unsigned = |text: &str| text.trim().is_empty();
    let mut accepted = entry.accepted.iter();
    if accepted.any(|one| unsigned(&one.by) || unsigned(&one.why)) {
        return Err(format!("{id}: an acceptance needs `by` and `why`"));
    }
    Ok(())
}

/// The first line with a marker of a merge that git left to people.
fn conflict(text: &str) -> Option<usize> {
    let is_marker = |line: &str| {
        let marks = ["<<<<<<< ", "||||||| ", ">>>>>>> "];
        line == "=======" || marks.iter().any(|mark| line.starts_with(mark))
    };
    let place = text.lines().position(is_marker)?;
    Some(place + 1)
}

fn lines_of_entries(document: &Document<String>, text: &str) -> Vec<usize> {
    let tables = document.as_table().get(ENTRIES);
    let tables = tables.and_then(Item::as_array_of_tables).into_iter();
    let starts = tables.flatten().map(Table::span);
    starts
        .map(|span| {
            let before = span.map_or(0, |span| span.start);
            1 + text[..before].matches('\n').count()
        })
        .collect()
}

/// The text with what `after` has otherwise than `before`, which is what `text` says.
pub(crate) fn write(text: &str, before: &Ledger, after: &Ledger) -> io::Result<String> {
    let mut document: DocumentMut = text.parse().map_err(io::Error::other)?;
    if document.is_empty() {
        document["version"] = toml_edit::value(VERSION);
        document
            .as_table_mut()
            .key_mut("version")
            .into_iter()
            .for_each(|mut key| {
                key.leaf_decor_mut().set_prefix(HEAD);
            });
    }
    let old = document.remove(ENTRIES);
    let old: Vec<Table> = old
        .and_then(|item| item.into_array_of_tables().ok())
        .map(|tables| tables.into_iter().collect())
        .unwrap_or_default();
    if before.followed != after.followed {
        let mut tables = ArrayOfTables::new();
        for (place, followed) in after.followed.iter().enumerate() {
            let mut table = table_of(followed).map_err(io::Error::other)?;
            table.set_position(isize::try_from(place).ok());
            table.decor_mut().set_prefix("\n");
            tables.push(table);
        }
        document[FOLLOWED] = Item::ArrayOfTables(tables);
    }
    let mut tables = ArrayOfTables::new();
    for (place, entry) in after.entries.iter().enumerate() {
        let id = |table: &&Table| table.get("id").and_then(Item::as_str) == Some(&entry.id);
        let known = old.iter().find(id);
        let same = before.entries.iter().any(|other| other == entry);
        let mut table = match known.filter(|_| same) {
            Some(table) => table.clone(),
            None => table_of(entry).map_err(io::Error::other)?,
        };
        match known {
            Some(known) => *table.decor_mut() = known.decor().clone(),
            None => table.decor_mut().set_prefix("\n"),
        }
        let place = after.followed.len() + place;
        table.set_position(isize::try_from(place).ok());
        tables.push(table);
    }
    if !tables.is_empty() {
        document[ENTRIES] = Item::ArrayOfTables(tables);
    }
    Ok(document.to_string())
}

/// A table with one line an element of its lists.
fn table_of<T: Serialize>(value: &T) -> Result<Table, Error> {
    let mut table = to_document(value)?.into_table();
    for (_, item) in table.iter_mut() {
        item.make_value();
        let Some(list) = item.as_array_mut() else {
            continue;
        };
        for element in list.iter_mut() {
            if let Value::InlineTable(inner) = element {
                // A part of a key that says nothing.
                inner.retain(|_, value| value.as_str() != Some(""));
            }
            element.decor_mut().set_prefix("\n    ");
        }
        list.set_trailing_comma(true);
        list.set_trailing("\n");
    }
    Ok(table)
}
