//! What the two images differ in, beside what their metrics differ in.

use record::{ImageChange, PartValue};
use verdict::Verdicts;

use crate::format::{UNKNOWN, bytes};

/// Above the table, in every form.
pub(super) const TITLE: &str = "What the images differ in";

/// Names of the table's columns.
pub(super) const HEADS: [&str; 4] = ["part", "name", "base", "head"];

/// Rows of the table: kind of part, its name, its value on either side.
pub(super) fn rows(verdicts: &Verdicts) -> Vec<[String; 4]> {
    let row = |change: &ImageChange| {
        [
            change.part.to_string(),
            change.name.clone(),
            value(change.base.as_ref()),
            value(change.head.as_ref()),
        ]
    };
    verdicts.image_changes.iter().map(row).collect()
}

fn value(value: Option<&PartValue>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(PartValue::Bytes(size)) => bytes(*size as f64),
        Some(PartValue::Text(text)) => text.clone(),
    }
}
