//! What a suite asks, and the metrics that answer it.

use metrics::Rows;
use record::SuiteQuestion;
use strict_yaml::{Document, YamlError};

use super::file::SuiteFile;

/// Checks the names of the metrics, and that there is a question for them.
pub(super) fn read(
    document: &Document,
    file: &SuiteFile,
    rows: &Rows,
) -> Result<Option<SuiteQuestion>, YamlError> {
    let top = document.top();
    let names: Vec<_> = rows.followed().map(|metric| metric.name).collect();
    for (place, name) in file.answered_by.iter().enumerate() {
        if !names.contains(&name.as_str()) && top.key("metrics").is_sound() {
            let at = top.key("answered_by").index(place);
            let message = format!("no metric with a direction is named `{name}`");
            return Err(at.unknown(message, "one of: ", name, &names));
        }
    }
    let Some(question) = &file.question else {
        let mended = top.mended();
        let key = match (file.answered_by.is_empty(), file.yes_when) {
            _ if mended.iter().any(|way| way.len() == 1) => return Ok(None),
            (false, _) => "answered_by",
            (true, Some(_)) => "yes_when",
            (true, None) => return Ok(None),
        };
        let help = format!("add `question`, or leave `{key}` out");
        return Err(top.key(key).error("it answers no question", Some(help)));
    };
    Ok(Some(SuiteQuestion {
        question: question.clone(),
        answered_by: file.answered_by.clone(),
        yes_when: file.yes_when,
    }))
}
