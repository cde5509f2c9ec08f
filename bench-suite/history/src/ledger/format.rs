//! The TOML of a ledger: one table an entry, one line a series, in order of IDs, which are as good as
//! random, so that what two branches add rarely lands in one place.

use std::{ops::Range, path::Path};

use serde::{Deserialize, Serialize};
use toml_edit::{
    Document, Item, Table, Value,
    de::from_document,
    ser::{Error, to_document},
};

use super::{Entry, Followed, Ledger};
use crate::HistoryError;

const VERSION: i64 = 1;
const HEAD: &str = "\
# Regressions, kept by `trend --gate` and changed by `ledger accept`; docs/ci.md says how.
# An entry is open until it is accepted, or all of its series are fixed. Comments are not kept.
";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    #[serde(rename = "version")]
    _version: i64,
    #[serde(default)]
    followed: Vec<Followed>,
    #[serde(default)]
    regression: Vec<Entry>,
}

/// Reads a ledger; nothing is an empty one.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Ledger, HistoryError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Ledger::default());
    }
    let form = |message: String| {
        let (path, why) = (path.display(), record::printable(message.trim_end()));
        let next = "fix the file, or name another with --ledger";
        HistoryError::Refused(format!("{path} is no ledger: {why}; {next}"))
    };
    // Without the line that the error's own text quotes: it may be of any file at all.
    let said = |message: &str, span: Option<Range<usize>>| match span {
        Some(span) => form(format!("{}: {message}", place(text, span.start))),
        None => form(message.to_owned()),
    };
    let document =
        Document::parse(text.to_owned()).map_err(|error| said(error.message(), error.span()))?;
    // A newer version may have other keys.
    let version = document.get("version").and_then(Item::as_integer);
    if let Some(got) = version.filter(|got| *got != VERSION) {
        return Err(form(format!(
            "it is of version {got}, and this Torchgauge reads version {VERSION}"
        )));
    }
    let whole: Whole =
        from_document(document).map_err(|error| said(error.message(), error.span()))?;
    let mut entries = whole.regression;
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    entries.iter().try_for_each(check).map_err(form)?;
    let mut pairs = entries.array_windows();
    if let Some([one, _]) = pairs.find(|[one, next]| one.id == next.id) {
        return Err(form(format!("it has two entries {}; keep one", one.id)));
    }
    Ok(Ledger {
        entries,
        followed: whole.followed,
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

pub(crate) fn write(ledger: &Ledger) -> Result<String, Error> {
    let mut text = format!("{HEAD}version = {VERSION}\n");
    for followed in &ledger.followed {
        text = format!("{text}\n[[followed]]\n{}", table_of(followed)?);
    }
    for entry in &ledger.entries {
        text = format!("{text}\n[[regression]]\n{}", table_of(entry)?);
    }
    Ok(text)
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
