//! The logarithms that a comparison is made from, and what the cells of one metric say together.

use std::borrow::Cow;

use super::types::{BetweenSessions, Measurement, NOISE_FLOOR};
use crate::dist::normal_critical;
use crate::moderation::{FEWEST, Variance, trigamma};

/// Sides of one cell are unlike where sides alike would differ as much in one of a thousand cells.
const UNLIKE: f64 = 0.001;

/// What all cells of a metric show together counts where chance would show it in one of fifty
/// sessions.
const SHOWN: f64 = 0.02;

/// Fewer cells than this do not show noise that grew by half since the sessions before: of five with
/// 1.6 times the noise 3.6 % of comparisons would be false, of twelve 1.1 %.
const MANY: usize = 10;

/// Pairing costs half of the degrees of freedom, and is worth them where blocks share half of a
/// run's variance: the variance of sums is then (1 + ½) ÷ (1 - ½) times that of differences.
const SHARED: f64 = 3.0;

/// The logarithms of one metric, each list ascending, so that the order of blocks cannot matter
/// even in the last bit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Every run of the base, with a partner in its block or not.
    pub(super) base: Vec<f64>,
    pub(super) head: Vec<f64>,
    /// Head less base, of each block that has both.
    pub(super) ratios: Vec<f64>,
    /// Head and base, of the same blocks.
    sums: Vec<f64>,
    /// The least variance of a run that is believed.
    pub(super) floor: f64,
    pub(super) between: Option<BetweenSessions>,
    /// The variance of a run in sessions before.
    pub(super) past: Option<Variance>,
}

impl Sample {
    /// Of values above 0; `None` where a side has fewer than two runs, which show no noise.
    pub(super) fn of(metric: &Measurement) -> Option<Self> {
        let sorted = |logs: &mut dyn Iterator<Item = f64>| {
            let mut logs: Vec<f64> = logs.collect();
            logs.sort_by(f64::total_cmp);
            logs
        };
        let blocks = || metric.blocks.iter();
        let pairs = || blocks().filter_map(|block| Some((block.base?.ln(), block.head?.ln())));
        let sample = Self {
            base: sorted(&mut blocks().filter_map(|block| block.base).map(f64::ln)),
            head: sorted(&mut blocks().filter_map(|block| block.head).map(f64::ln)),
            ratios: sorted(&mut pairs().map(|(base, head)| head - base)),
            sums: sorted(&mut pairs().map(|(base, head)| head + base)),
            floor: NOISE_FLOOR.powi(2),
            between: metric.between,
            past: metric.past,
        };
        (sample.base.len() > 1 && sample.head.len() > 1).then_some(sample)
    }

    /// The runs of base and head. Where their noise is known from before, one that lies far from its
    /// side's median is brought in, as it was there; several are noise that grew.
    pub(super) fn sides(&self, past: Option<Variance>) -> (Cow<'_, [f64]>, Cow<'_, [f64]>) {
        if let Some(past) = past.filter(|_| self.between.is_none()) {
            let (base, of_base) = past.brought_in(&self.base);
            let (head, of_head) = past.brought_in(&self.head);
            if of_base + of_head == 1 {
                return (base.into(), head.into());
            }
        }
        ((&self.base).into(), (&self.head).into())
    }

    /// The variances of a run of the base and of the head.
    pub(super) fn of_sides(&self) -> (Variance, Variance) {
        (
            variance(&self.base, self.floor),
            variance(&self.head, self.floor),
        )
    }

    /// The variance of a run where both sides have the same.
    pub(super) fn of_runs(&self) -> Variance {
        let (base, head) = self.of_sides();
        base.and(head)
    }

    /// The variance of a block's ratio, which holds two runs; `None` of fewer than two blocks.
    pub(super) fn of_ratios(&self) -> Option<Variance> {
        (self.ratios.len() > 1).then(|| variance(&self.ratios, 2.0 * self.floor))
    }

    /// Whether one side scatters so much more than the other that they cannot share a variance.
    pub(super) fn is_unlike(&self) -> bool {
        let (base, head) = self.of_sides();
        base.is_above(head, UNLIKE) || head.is_above(base, UNLIKE)
    }
}

/// What the cells of one metric say of each other's noise.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kin {
    pub(super) runs: Variance,
    pub(super) ratios: Option<Variance>,
    /// Whether runs of one block share so much that it pays to pair them.
    pub(super) is_paired: bool,
    /// Whether the sides scatter alike.
    pub(super) is_alike: bool,
    /// Whether runs scatter no more than in the sessions before.
    pub(super) is_as_before: bool,
}

impl Kin {
    /// `None` where the cells are too few to say anything.
    pub(crate) fn of(cells: &[&Sample]) -> Option<Self> {
        // What never varies knows no noise, and what lies between sessions is another one.
        let cells: Vec<&&Sample> = cells
            .iter()
            .filter(|cell| cell.between.is_none() && cell.of_runs().value > cell.floor)
            .collect();
        let runs: Vec<Variance> = cells.iter().map(|cell| cell.of_runs()).collect();
        let sides: Vec<_> = cells.iter().map(|cell| cell.of_sides()).collect();
        let ratios: Vec<Variance> = cells.iter().filter_map(|cell| cell.of_ratios()).collect();
        let in_blocks: Vec<_> = cells
            .iter()
            .filter_map(|cell| Some((variance(&cell.sums, 2.0 * cell.floor), cell.of_ratios()?)))
            .collect();
        let before: Vec<_> = cells
            .iter()
            .filter_map(|cell| Some((cell.of_runs(), cell.past?)))
            .collect();
        let (louder, louder_by_chance) = typical_ratio(&before);
        let (shared, by_chance) = typical_ratio(&in_blocks);
        let (unlike, unlike_by_chance) = typical_ratio(&sides);
        Some(Self {
            runs: Variance::prior(&runs)?,
            is_paired: in_blocks.len() >= FEWEST && shared.abs() > by_chance.max(SHARED.ln()),
            ratios: Variance::prior(&ratios),
            is_alike: unlike.abs() <= unlike_by_chance,
            is_as_before: before.len() >= MANY && louder <= louder_by_chance,
        })
    }
}

/// The mean of ln(first ÷ second), and how far from 0 chance would bring it in one of fifty
/// sessions.
fn typical_ratio(pairs: &[(Variance, Variance)]) -> (f64, f64) {
    let count = pairs.len() as f64;
    let logs = pairs
        .iter()
        .map(|(one, other)| one.typical_log() - other.typical_log());
    let by_chance = |one: &Variance| trigamma(one.df / 2.0);
    let variance: f64 = pairs
        .iter()
        .map(|(one, other)| by_chance(one) + by_chance(other))
        .sum();
    let chance = normal_critical(SHOWN) * variance.sqrt() / count;
    (logs.sum::<f64>() / count, chance)
}

/// Of at least two sorted values, at least `floor`.
pub(super) fn variance(sorted: &[f64], floor: f64) -> Variance {
    let df = sorted.len() as f64 - 1.0;
    let centre = mean(sorted);
    let squares: f64 = sorted.iter().map(|v| (v - centre).powi(2)).sum();
    Variance {
        value: (squares / df).max(floor),
        df,
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
