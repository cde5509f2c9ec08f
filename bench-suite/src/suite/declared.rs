//! The metrics that a suite declares.

use metrics::Metric;
use record::{DeclaredMetric, MOST_DECLARED};
use strict_yaml::{Document, YamlError};

/// Checks names, labels and thresholds, and that no name means something already.
pub(super) fn read(
    document: &Document,
    metrics: &[DeclaredMetric],
) -> Result<Vec<DeclaredMetric>, YamlError> {
    let at = document.top().key("metrics");
    if metrics.len() > MOST_DECLARED {
        let got = format!("{} metrics", metrics.len());
        let expected = format!("expected at most {MOST_DECLARED}");
        return Err(at.expecting(got, expected, None));
    }
    for (place, metric) in metrics.iter().enumerate() {
        let at = at.index(place);
        if let Some((key, expected)) = metric.problem() {
            let got = match key {
                "name" => format!("`{}` is no name", metric.name),
                "label" => "a label that cannot be shown".to_owned(),
                _ => format!("a value out of range: {}", metric.threshold),
            };
            return Err(at.key(key).expecting(got, expected, None));
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
        let message = format!("{who} has the name `{name}`");
        let help = Some(help.to_owned());
        return Err(at
            .key("name")
            .expecting(message, "expected a name of its own", help));
    }
    Ok(metrics.to_vec())
}
