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

pub(crate) use evidence::Evidence;
use evidence::{ratio, ratios};
use modes::Modes;
pub(crate) use sample::{Kin, Sample};
pub use types::{
    BaseOrHead, BetweenSessions, Block, CompareError, Comparison, Direction, Interval, Kind,
    Measurement, Method, Options, Verdict,
};

/// Judges one metric on its own; many at once are for
/// [`family::judge_all`](crate::family::judge_all).
///
/// # Errors
/// [`CompareError`] for values that are not finite or below 0 and for settings out of
/// range. Zero or one block is no error: the verdict is *inconclusive*.
pub fn compare(metric: &Measurement, options: &Options) -> Result<Comparison, CompareError> {
    let (mut judged, chance) = read(metric, options)?;
    match chance {
        Chance::None => {}
        Chance::Modes(modes) => modes.conclude(&mut judged, metric, options.alpha),
        Chance::Sample(sample) => {
            let evidence = Evidence::of(&sample, None, options.alpha);
            judged.p_value = Some(evidence.p_value(metric.threshold.ln_1p()));
            let levels = Levels {
                of_all: options.alpha,
                of_one: options.alpha,
            };
            conclude(&mut judged, &evidence, metric, levels, options);
        }
    }
    Ok(judged)
}

/// What part chance has in a metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Chance {
    /// None, or nothing is known of it: the verdict stands.
    None,
    /// It chooses one of two values.
    Modes(Modes),
    Sample(Sample),
}

impl Chance {
    pub(crate) fn sample(&self) -> Option<&Sample> {
        match self {
            Self::Sample(sample) => Some(sample),
            Self::None | Self::Modes(_) => None,
        }
    }
}

/// Everything that is known without chance, and the part that chance has.
pub(crate) fn read(
    metric: &Measurement,
    options: &Options,
) -> Result<(Comparison, Chance), CompareError> {
    check_settings(metric, options)?;
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
    if let Some(modes) = Modes::of(metric) {
        return Ok((blank, Chance::Modes(modes)));
    }
    let Some(sample) = Sample::of(metric, options) else {
        blank.ratio = Some(ratio(head.ln() - base.ln()));
        blank.reason = String::from("only one block; at least two are needed");
        return Ok((blank, Chance::None));
    };
    Ok((blank, Chance::Sample(sample)))
}

/// How often an interval may miss the truth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Levels {
    /// The intervals of a family, with as many verdicts as it comes to.
    pub(crate) of_all: f64,
    /// That of the only change in a family.
    pub(crate) of_one: f64,
}

/// Sets the interval and what follows from it: the verdict, its reason, and what such blocks could
/// have shown.
pub(crate) fn conclude(
    comparison: &mut Comparison,
    evidence: &Evidence,
    metric: &Measurement,
    levels: Levels,
    options: &Options,
) {
    let interval = ratios(evidence.interval(levels.of_all));
    comparison.ratio = Some(ratio(evidence.estimate()));
    comparison.interval = Some(interval);
    comparison.level = Some(levels.of_all);
    comparison.noise = Some(evidence.noise());
    comparison.method = evidence.method();
    comparison.verdict = interval.verdict(metric.threshold, metric.direction);
    let threshold = metric.threshold.ln_1p();
    let detectable = power::detectable(evidence, levels.of_one, options);
    let change = (threshold + detectable).exp_m1();
    comparison.minimum_detectable_change = change.is_finite().then_some(change);
    comparison.blocks_needed =
        power::blocks_needed(evidence, detectable, threshold, levels.of_one, options);
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
                "at least 0; a ratio says nothing about a metric that can be negative"
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

fn check_settings(metric: &Measurement, options: &Options) -> Result<(), CompareError> {
    for (setting, value) in [("alpha", options.alpha), ("power", options.power)] {
        if !(value > 0.0 && value < 1.0) {
            return Err(CompareError(format!(
                "{setting} is {value}, expected a number between 0 and 1"
            )));
        }
    }
    for (setting, value) in [
        ("threshold", metric.threshold),
        ("noise_floor", options.noise_floor),
    ] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(CompareError(format!(
                "{setting} is {value}, expected a number of at least 0"
            )));
        }
    }
    Ok(())
}
