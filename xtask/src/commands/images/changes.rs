//! Lists of things that differ, as they are printed.

use bytesize::ByteSize;
use images::diff::Change;

/// How values read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Text,
    Bytes,
}

/// Rows of a table: what, before, after; `–` where a side lacks it.
pub(super) fn rows(changes: &[Change], unit: Unit) -> impl Iterator<Item = [String; 3]> {
    let value = move |text: Option<&String>| match (text, unit) {
        (None, _) => "–".to_owned(),
        (Some(text), Unit::Text) => text.clone(),
        (Some(text), Unit::Bytes) => text
            .parse()
            .map_or_else(|_| text.clone(), |bytes| ByteSize::b(bytes).to_string()),
    };
    changes.iter().map(move |change| {
        [
            change.name.clone(),
            value(change.first.as_ref()),
            value(change.second.as_ref()),
        ]
    })
}
