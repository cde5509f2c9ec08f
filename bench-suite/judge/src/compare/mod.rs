//! Did one metric of one pair of cells change?
//!
//! Runs come in blocks, one of either side close together. An interval of the ratio head ÷ base
//! comes from tests of the logarithms, and its place beside the noise threshold is the verdict.
//! Memory-like metrics that repeat to the byte are compared to the byte.

mod evidence;
mod exact;
mod modes;
mod power;
mod ranks;
mod sample;
mod types;

use std::slice;

pub(crate) use evidence::Evidence;
use evidence::{ratio, ratios};
use modes::Modes;
pub(crate) use sample::{Kin, Sample};
pub use types::{
    BaseOrHead, BetweenSessions, Block, CompareError, Comparison, Direction, Interval, Kind,
    Measurement, Method, Options, Verdict,
};

use crate::family::judge_all;

/// Judges one metric on its own; many at once are for [`judge_all`].
///
/// # Errors
/// [`CompareError`] for values that are not finite or below 0 and for settings out of
/// range. Zero or one block is no error: the verdict is *inconclusive*.
pub fn compare(metric: &Measurement, options: &Options) -> Result<Comparison, CompareError> {
    let mut judged = judge_all(slice::from_ref(metric), options).map_err(|error| error.source)?;
    Ok(judged.swap_remove(0))
}

/// What part chance has in a metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Chance {
    /// None, or nothing is known of it: the verdict stands.
    None,
    /// It chooses one of two values.
    Modes(Modes),
    /// Of a side in either of two values, where those are what there is.
    Sample(Sample, Option<Modes>),
}

impl Chance {
    pub(crate) fn sample(&self) -> Option<&Sample> {
        match self {
            Self::Sample(sample, _) => Some(sample),
            Self::None | Self::Modes(_) => None,
        }
    }
}

/// Everything that is known without chance, and the part that chance has.
pub(crate) fn read(metric: &Measurement, alpha: f64) -> Result<(Comparison, Chance), CompareError> {
    check_settings(metric, alpha)?;
    check_values(&metric.blocks)?;
    let mut pairs = metric
        .blocks
        .iter()
        .filter_map(|block| block.base.zip(block.head));
    let first = pairs.next();
    let alone = |block: &&Block| block.base.is_some() != block.head.is_some();
    let mut blank = Comparison {
        ratio: None,
        interval: None,
        level: None,
        p_value: None,
        q_value: None,
        verdict: Verdict::Inconclusive,
        threshold: metric.threshold,
        minimum_detectable_change: None,
        blocks_needed: None,
        noise: None,
        blocks_used: usize::from(first.is_some()) + pairs.count(),
        blocks_dropped: metric.blocks.iter().filter(alone).count(),
        method: Method::None,
        reason: String::new(),
    };
    let Some((base, head)) = first else {
        blank.reason = String::from("no block has both sides");
        return Ok((blank, Chance::None));
    };
    if let Some(judged) = exact::judge(metric, &blank) {
        return Ok((judged, Chance::None));
    }
    let is_zero = |block: &Block| block.base == Some(0.0) || block.head == Some(0.0);
    if metric.blocks.iter().any(is_zero) {
        blank.reason = String::from("some values are 0, so there is no ratio");
        return Ok((blank, Chance::None));
    }
    let modes = Modes::of(metric);
    if let Some(modes) = modes.filter(Modes::are_mixed) {
        return Ok((blank, Chance::Modes(modes)));
    }
    let Some(sample) = Sample::of(metric) else {
        blank.ratio = Some(ratio(head.ln() - base.ln()));
        blank.reason = String::from("only one block; at least two are needed");
        return Ok((blank, Chance::None));
    };
    Ok((blank, Chance::Sample(sample, modes)))
}

/// Sets the interval and what follows from it: the verdict, its reason, and what such blocks could
/// have shown. `of_all` is how often the intervals of a family may miss the truth, with as many verdicts
/// as it comes to, `of_one` that of the only change in it.
pub(crate) fn conclude(
    comparison: &mut Comparison,
    evidence: &Evidence,
    metric: &Measurement,
    of_all: f64,
    of_one: f64,
) {
    let interval = ratios(evidence.interval(of_all));
    comparison.ratio = Some(ratio(evidence.estimate()));
    comparison.interval = Some(interval);
    comparison.level = Some(of_all);
    comparison.noise = Some(evidence.noise());
    comparison.method = evidence.method();
    comparison.verdict = interval.verdict(metric.threshold, metric.direction);
    let threshold = metric.threshold.ln_1p();
    let detectable = power::detectable(evidence, of_one);
    let change = (threshold + detectable).exp_m1();
    comparison.minimum_detectable_change = change.is_finite().then_some(change);
    comparison.blocks_needed = power::blocks_needed(evidence, detectable, threshold, of_one);
    let percent = 100.0 * metric.threshold;
    comparison.reason = match comparison.verdict {
        Verdict::Unchanged => {
            format!("the interval lies within the noise threshold of {percent} %")
        }
        Verdict::Improved | Verdict::Regressed => {
            format!("the interval lies beyond the noise threshold of {percent} %")
        }
        Verdict::Inconclusive => {
            let detectable = match change {
                change if change > 1.0 => "more than 100 %".to_owned(),
                change => format!("{:.2} %", 100.0 * change),
            };
            let blocks = match comparison.blocks_used {
                1 => "1 block".to_owned(),
                blocks => format!("{blocks} blocks"),
            };
            format!(
                "minimum detectable change with {blocks}: {detectable}; noise threshold: \
                 {percent} %"
            )
        }
    };
}

/// More blocks than this are more than anybody runs for one metric.
pub const WORTHWHILE_BLOCKS: usize = 200;

fn check_values(blocks: &[Block]) -> Result<(), CompareError> {
    for (block, values) in blocks.iter().enumerate() {
        for (side, value) in [("base", values.base), ("head", values.head)] {
            let Some(value) = value else { continue };
            let expected = if !value.is_finite() {
                "a finite number; leave the value out if the run did not yield the metric"
            } else if value < 0.0 {
                "at least 0; a ratio has no meaning for a metric that can be negative"
            } else {
                continue;
            };
            return Err(CompareError(format!(
                "block {block}, {side}: the value is {value}, expected {expected}"
            )));
        }
    }
    Ok(())
}

fn check_settings(metric: &Measurement, alpha: f64) -> Result<(), CompareError> {
    let threshold = metric.threshold;
    let problem = if !(alpha > 0.0 && alpha < 1.0) {
        format!("alpha is {alpha}, expected a number between 0 and 1")
    } else if !(threshold.is_finite() && threshold >= 0.0) {
        format!("threshold is {threshold}, expected a number of at least 0")
    } else {
        return Ok(());
    };
    Err(CompareError(problem))
}
