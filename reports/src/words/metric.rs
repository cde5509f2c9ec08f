//! A metric in words for people.

use metrics::Metric;

use crate::words::format::{self, Quantity};

/// Its label; its name where nobody knows it.
pub(crate) fn label(name: &str) -> String {
    Metric::named(name)
        .map_or(name, |metric| metric.label)
        .to_owned()
}

pub(crate) fn value(name: &str, value: f64) -> String {
    Quantity::of_metric(name).write(value)
}

/// The same, where there is one.
pub(crate) fn known(name: &str, known: Option<f64>) -> String {
    format::known(known.map(|known| value(name, known)))
}
