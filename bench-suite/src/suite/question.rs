//! What a suite asks, and the metrics that answer it.

use metrics::Rows;
use record::SuiteQuestion;
use strict_yaml::{Document, KeyPath, YamlError, did_you_mean};

use super::file::SuiteFile;

/// Checks the names of the metrics, and that there is a question for them.
pub(super) fn read(
    document: &Document,
    file: &SuiteFile,
    rows: &Rows,
) -> Result<Option<SuiteQuestion>, YamlError> {
    let at = KeyPath::root().key("answered_by");
    for (place, name) in file.answered_by.iter().enumerate() {
        let is_followed = rows.followed().any(|metric| metric.name == name);
        if is_followed || !document.mended(&KeyPath::root().key("metrics")).is_empty() {
            continue;
        }
        let names: Vec<_> = rows.followed().map(|metric| metric.name).collect();
        return Err(document.error_expecting(
            &at.index(place),
            format!("no metric that has a better and a worse is named `{name}`"),
            format!("one of: {}", names.join(", ")),
            did_you_mean(name, names.iter().copied()),
        ));
    }
    let Some(question) = &file.question else {
        let mended = document.mended(&KeyPath::root());
        let key = match (file.answered_by.is_empty(), file.yes_when) {
            _ if mended.iter().any(|way| way.len() == 1) => return Ok(None),
            (false, _) => "answered_by",
            (true, Some(_)) => "yes_when",
            (true, None) => return Ok(None),
        };
        return Err(document.error_at(
            &KeyPath::root().key(key),
            "it answers no question",
            Some(format!("add `question`, or leave `{key}` out")),
        ));
    };
    Ok(Some(SuiteQuestion {
        question: question.clone(),
        answered_by: file.answered_by.clone(),
        yes_when: file.yes_when,
    }))
}
