//! The metrics that a suite declares.

use metrics::Metric;
use record::{DeclaredMetric, MOST_DECLARED};
use strict_yaml::{Document, KeyPath, YamlError};

/// Checks names, labels and thresholds, and that no name means something already.
pub(super) fn read(
    document: &Document,
    metrics: &[DeclaredMetric],
) -> Result<Vec<DeclaredMetric>, YamlError> {
    let at = KeyPath::root().key("metrics");
    if metrics.len() > MOST_DECLARED {
        let got = format!("{} metrics", metrics.len());
        let expected = format!("expected at most {MOST_DECLARED}");
        return Err(document.error_expecting(&at, got, expected, None));
    }
    for (place, metric) in metrics.iter().enumerate() {
        let at = at.clone().index(place);
        if let Some((key, expected)) = metric.problem() {
            let got = match key {
                "name" => format!("`{}` is no name", metric.name),
                "label" => "a label that cannot be shown".to_owned(),
                _ => format!("a value out of range: {}", metric.threshold),
            };
            return Err(document.error_expecting(&at.key(key), got, expected, None));
        }
        let name = &metric.name;
        let (who, help) = if Metric::built_in(name).is_some() {
            (
                "a built-in metric",
                "built-in metrics are in docs/metrics.md",
            )
        } else if metrics[..place].iter().any(|other| other.name == *name) {
            ("another metric of the suite", "give each metric one entry")
        } else {
            continue;
        };
        return Err(document.error_expecting(
            &at.key("name"),
            format!("{who} has the name `{name}`"),
            "expected a name of its own",
            Some(help.to_owned()),
        ));
    }
    Ok(metrics.to_vec())
}
