//! Many metrics at once: the false discovery rate is controlled.
//!
//! Benjamini and Hochberg (1995), "Controlling the false discovery rate": of all the verdicts
//! that a family comes to, at most the share [`Options::alpha`] is wrong, on average. It holds for
//! independent and for positively dependent metrics (Benjamini and Yekutieli 2001), as those of
//! one session are. Benjamini and Yekutieli (2005) give the intervals that go with it: with R
//! verdicts among m comparisons every interval is made at α R ÷ m, and those that lie on one side
//! of an end of the noise threshold are just those R.

use std::collections::BTreeMap;

use crate::compare::{
    Chance, CompareError, Comparison, Evidence, Kin, Measurement, Options, Sample, conclude, read,
};

/// What of a family could not be judged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("metric {index} of the family: {source}")]
pub struct FamilyError {
    /// Position in the family, from 0.
    pub index: usize,
    pub source: CompareError,
}

/// Judges every metric: cells of one metric by the noise that they know together, and all of them
/// at the level that keeps the family's false discovery rate.
///
/// Exact comparisons carry no chance and so are not part of the family; neither are
/// metrics with no p. Results are in the order of `metrics`.
///
/// # Errors
/// The first metric that [`compare`](crate::compare::compare) refuses, with its position.
pub fn judge_all(
    metrics: &[Measurement],
    options: &Options,
) -> Result<Vec<Comparison>, FamilyError> {
    let (mut judged, mut chances): (Vec<Comparison>, Vec<Chance>) = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            read(metric, options.alpha).map_err(|source| FamilyError { index, source })
        })
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .unzip();
    jump_with_others(metrics, &mut chances);
    let members = chances.iter().filter(|one| **one != Chance::None).count();
    let of_one = options.alpha / members.max(1) as f64;
    let open = || {
        let samples = chances.iter().map(Chance::sample);
        samples
            .enumerate()
            .filter_map(|(i, sample)| Some((i, sample?)))
    };
    let mut cells: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
    for (i, sample) in open() {
        cells.entry(metrics[i].metric).or_default().push(sample);
    }
    let kin: BTreeMap<usize, Option<Kin>> = cells
        .iter()
        .map(|(metric, cells)| (*metric, Kin::of(cells)))
        .collect();
    let found: Vec<(usize, Evidence)> = open()
        .map(|(i, one)| {
            (
                i,
                Evidence::of(one, kin[&metrics[i].metric].as_ref(), of_one),
            )
        })
        .collect();
    let p: Vec<f64> = found
        .iter()
        .map(|(i, evidence)| evidence.p_value(metrics[*i].threshold.ln_1p()))
        .collect();
    // What jumps takes part with the p of none, and is judged as the only change would be.
    let jumping = (found.len()..members).map(|_| 1.0);
    let q = q_values(&p.iter().copied().chain(jumping).collect::<Vec<f64>>());
    let verdicts = q.iter().filter(|q| **q <= options.alpha).count();
    let of_all = of_one * verdicts.max(1) as f64;
    for ((i, evidence), (p, q)) in found.iter().zip(p.iter().zip(q)) {
        (judged[*i].p_value, judged[*i].q_value) = (Some(*p), Some(q));
        conclude(&mut judged[*i], evidence, &metrics[*i], of_all, of_one);
    }
    for (i, chance) in chances.iter().enumerate() {
        if let Chance::Modes(modes) = chance {
            modes.conclude(&mut judged[i], &metrics[i], of_one);
        }
    }
    Ok(judged)
}

/// Where one cell of a metric in ten jumps between two values, one whose sides have a value each, no
/// more than twice as far apart, may do so too: of three runs a side one session in 32 divides them so.
fn jump_with_others(metrics: &[Measurement], chances: &mut [Chance]) {
    const SHARE: usize = 10;
    let mut cells = BTreeMap::<usize, (usize, usize, f64)>::new();
    for (metric, chance) in metrics.iter().zip(&*chances) {
        let (all, jumping, farthest) = cells.entry(metric.metric).or_default();
        *all += 1;
        if let Chance::Modes(modes) = chance {
            *jumping += 1;
            *farthest = farthest.max(modes.step());
        }
    }
    for (metric, chance) in metrics.iter().zip(chances) {
        let (all, jumping, farthest) = cells[&metric.metric];
        if let Chance::Sample(_, Some(modes)) = chance
            && jumping * SHARE >= all
            && modes.step() <= 2.0 * farthest
        {
            *chance = Chance::Modes(*modes);
        }
    }
}

/// q of each p: the smallest false discovery rate at which it would count.
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
