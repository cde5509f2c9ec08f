//! Many metrics at once: the false discovery rate is controlled.
//!
//! Benjamini and Hochberg (1995), "Controlling the false discovery rate": of all the
//! *improved* and *regressed* in a family, at most the share [`Options::alpha`] is false,
//! on average. It holds for independent and for positively dependent metrics (Benjamini
//! and Yekutieli 2001), as those of one session are.

use crate::compare::{CompareError, Comparison, Evidence, Measurement, Options, decide, weigh};

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
    metrics: &[Measurement],
    options: &Options,
) -> Result<Vec<Comparison>, FamilyError> {
    let mut judged = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            weigh(metric, options).map_err(|source| FamilyError { index, source })
        })
        .collect::<Result<Vec<(Comparison, Option<Evidence>)>, _>>()?;
    let (members, p): (Vec<usize>, Vec<f64>) = judged
        .iter()
        .enumerate()
        .filter(|(_, (_, evidence))| evidence.is_some())
        .filter_map(|(i, (one, _))| Some((i, one.p_value?)))
        .unzip();
    let family = members.len();
    for (i, q) in members.into_iter().zip(q_values(&p)) {
        let (one, evidence) = &mut judged[i];
        one.q_value = Some(q);
        decide(one, evidence.as_ref(), &metrics[i], family, options);
    }
    Ok(judged.into_iter().map(|(one, _)| one).collect())
}

/// q of each p: the smallest false discovery rate at which it would count.
#[must_use]
pub fn q_values(p: &[f64]) -> Vec<f64> {
    let m = p.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut q = vec![1.0; m];
    let mut smallest = 1.0_f64;
    for (position, &i) in order.iter().enumerate() {
        let rank = (m - position) as f64;
        smallest = smallest.min(p[i] * m as f64 / rank);
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
        let q = q_values(&p);
        assert_eq!(q.iter().filter(|&&q| q <= 0.05).count(), 4);
        assert!((q[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
    }

    #[test]
    fn an_empty_family_is_empty() {
        assert!(q_values(&[]).is_empty());
        assert!(judge_all(&[], &Options::default()).unwrap().is_empty());
    }
}
