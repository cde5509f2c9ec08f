//! What a suite asks, and the metrics that answer it.

use metrics::Metric;
use record::SuiteQuestion;
use strict_yaml::{Document, KeyPath, YamlError, most_similar};

use super::file::SuiteFile;

/// Checks the names of the metrics, and that there is a question for them.
pub(super) fn read(
    document: &Document,
    file: &SuiteFile,
) -> Result<Option<SuiteQuestion>, YamlError> {
    let at = KeyPath::root().key("answered_by");
    for (place, name) in file.answered_by.iter().enumerate() {
        if Metric::followed().any(|metric| metric.name == name) {
            continue;
        }
        let names: Vec<_> = Metric::followed().map(|metric| metric.name).collect();
        let help = most_similar(name, names.iter().copied())
            .map(|similar| format!("did you mean `{similar}`?"));
        return Err(document.error_expecting(
            &at.index(place),
            format!("no metric that has a better and a worse is named `{name}`"),
            format!("one of: {}", names.join(", ")),
            help,
        ));
    }
    let Some(question) = &file.question else {
        if file.answered_by.is_empty() {
            return Ok(None);
        }
        return Err(document.error_at(
            &at,
            "metrics that answer no question",
            Some("add `question`, or leave `answered_by` out".to_owned()),
        ));
    };
    Ok(Some(SuiteQuestion {
        question: question.clone(),
        answered_by: file.answered_by.clone(),
    }))
}
