//! Many metrics at once: the false discovery rate is controlled.
//!
//! Benjamini and Hochberg (1995), "Controlling the false discovery rate": of all the
//! *improved* and *regressed* in a family, at most the share `each.alpha` is false,
//! on average. It holds for independent and for positively dependent metrics (Benjamini
//! and Yekutieli 2001), as those of one session are; [`Dependence::Any`] pays the factor
//! Σ 1/i for arbitrary dependence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{
    CompareError, Comparison, Direction, Method, Metric, Options, compare, decide,
};

/// How the metrics of a family may hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dependence {
    /// Independent or positively dependent: Benjamini–Hochberg.
    #[default]
    Positive,
    /// Anything: Benjamini–Yekutieli.
    Any,
}

/// How a family is judged.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FamilyOptions {
    /// How each metric is judged. [`Options::alpha`] is the false discovery rate.
    pub each: Options,
    /// How the metrics may hang together.
    pub dependence: Dependence,
}

/// What of a family could not be judged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("metric {index} of the family: {source}")]
pub struct FamilyError {
    /// Position in the family, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub source: CompareError,
}

/// Judges every metric, then adjusts p to q over the family and decides by q.
///
/// Exact comparisons carry no chance and so are not part of the family; neither are
/// metrics with no p. Results are in the order of `metrics`.
///
/// # Errors
/// The first metric that [`compare`] refuses, with its position.
pub fn judge_all(
    metrics: &[Metric],
    options: &FamilyOptions,
) -> Result<Vec<Comparison>, FamilyError> {
    let mut judged = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            compare(metric, &options.each).map_err(|source| FamilyError { index, source })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let directions: Vec<Direction> = metrics.iter().map(|metric| metric.direction).collect();
    adjust(&mut judged, &directions, options);
    Ok(judged)
}

/// Adjusts comparisons that were made elsewhere; `directions` in the same order.
///
/// # Panics
/// If the two slices differ in length.
pub fn adjust(judged: &mut [Comparison], directions: &[Direction], options: &FamilyOptions) {
    assert_eq!(
        judged.len(),
        directions.len(),
        "one direction for each comparison"
    );
    let members: Vec<usize> = (0..judged.len())
        .filter(|&i| judged[i].method != Method::Exact && judged[i].p_value.is_some())
        .collect();
    let p: Vec<f64> = members.iter().filter_map(|&i| judged[i].p_value).collect();
    for (&i, q) in members.iter().zip(q_values(&p, options.dependence)) {
        judged[i].q_value = Some(q);
        decide(&mut judged[i], directions[i], options.each.alpha);
    }
}

/// q of each p: the smallest false discovery rate at which it would count.
#[must_use]
pub fn q_values(p: &[f64], dependence: Dependence) -> Vec<f64> {
    let m = p.len();
    let factor = match dependence {
        Dependence::Positive => 1.0,
        Dependence::Any => (1..=m).map(|i| 1.0 / i as f64).sum(),
    };
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut q = vec![1.0; m];
    let mut smallest = 1.0_f64;
    for (position, &i) in order.iter().enumerate() {
        let rank = (m - position) as f64;
        smallest = smallest.min(p[i] * factor * m as f64 / rank);
        q[i] = smallest;
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 15 p values of Benjamini and Hochberg (1995), section 3.2: at rate 0.05 the
    /// first four are rejected.
    #[test]
    fn the_example_of_the_paper() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let q = q_values(&p, Dependence::Positive);
        assert_eq!(q.iter().filter(|&&q| q <= 0.05).count(), 4);
        assert!((q[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
        let any = q_values(&p, Dependence::Any);
        assert!(any.iter().zip(&q).all(|(any, q)| any >= q));
    }

    #[test]
    fn an_empty_family_is_empty() {
        assert!(q_values(&[], Dependence::Any).is_empty());
        assert!(
            judge_all(&[], &FamilyOptions::default())
                .unwrap()
                .is_empty()
        );
    }
}
