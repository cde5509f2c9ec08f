//! Did one metric of one pair of cells change?
//!
//! Runs are paired by block, so that drift hits both sides alike. The effect is the mean
//! of ln(head ÷ base) over the blocks, its interval Student's t on the n − 1 degrees of
//! freedom that pairing leaves. A verdict asks for p ≤ 0.02, both directions together,
//! which is stricter than the 95 % interval. Memory-like metrics that repeat to the byte
//! are compared to the byte.

mod exact;
mod power;
mod statistic;
mod types;

use statistic::Estimate;
pub use types::{
    BaseOrHead, Block, CompareError, Comparison, Direction, Interval, Kind, Measurement, Method,
    Options, Verdict,
};

/// Judges one metric on its own.
///
/// The verdict, in this order: *unchanged* if the whole interval lies within the noise threshold;
/// *improved* or *regressed* if p is at most [`Options::alpha`]; else *inconclusive*. For many
/// metrics at once use [`family::judge_all`](crate::family::judge_all).
///
/// # Errors
/// [`CompareError`] for values that are not finite or below 0 and for settings out of
/// range. Zero or one block is no error: the verdict is *inconclusive*.
pub fn compare(metric: &Measurement, options: &Options) -> Result<Comparison, CompareError> {
    check_settings(metric, options)?;
    let (pairs, dropped) = usable_pairs(&metric.blocks)?;
    let mut blank = Comparison {
        ratio: None,
        interval: None,
        p_value: None,
        q_value: None,
        verdict: Verdict::Inconclusive,
        threshold: metric.threshold,
        minimum_detectable_change: None,
        blocks_needed: None,
        noise: None,
        blocks_used: pairs.len(),
        blocks_dropped: dropped,
        method: Method::None,
        reason: String::new(),
    };
    if pairs.is_empty() {
        blank.reason = String::from("no block has both sides");
        return Ok(blank);
    }
    if metric.kind == Kind::MemoryLike
        && let Some(judged) = exact::judge(&pairs, metric, &blank)
    {
        return Ok(judged);
    }
    if pairs.iter().any(|&(base, head)| base == 0.0 || head == 0.0) {
        blank.reason = String::from("some values are 0, so there is no ratio");
        return Ok(blank);
    }
    let logs: Vec<f64> = pairs.iter().map(|&(b, h)| h.ln() - b.ln()).collect();
    let estimate = Estimate::of(&logs, options);
    blank.ratio = Some(estimate.ratio());
    let Some(interval) = estimate.interval(1.0 - options.confidence) else {
        blank.reason = String::from("only one block; at least two are needed");
        return Ok(blank);
    };
    blank.interval = Some(interval);
    blank.p_value = estimate.p_value();
    blank.method = Method::PairedT;
    blank.noise = Some(estimate.noise());
    blank.minimum_detectable_change = power::detectable(&estimate, pairs.len(), options);
    blank.blocks_needed = power::blocks_needed(&estimate, metric.threshold, options);
    decide(&mut blank, metric.direction, options.alpha);
    Ok(blank)
}

/// Sets the verdict and its reason from the interval and the p (q where there is one).
pub(crate) fn decide(comparison: &mut Comparison, direction: Direction, alpha: f64) {
    if comparison.method == Method::Exact {
        return;
    }
    let (Some(ratio), Some(interval), Some(p)) = (
        comparison.ratio,
        comparison.interval,
        comparison.q_value.or(comparison.p_value),
    ) else {
        return;
    };
    let percent = 100.0 * comparison.threshold;
    if interval.within_threshold(comparison.threshold) {
        comparison.verdict = Verdict::Unchanged;
        comparison.reason = format!("the interval lies within the noise threshold of {percent} %");
    } else if p <= alpha {
        comparison.verdict = Verdict::of_change(ratio.ln(), direction);
        comparison.reason = format!("p = {p:.1e}, significant at {alpha}");
    } else {
        comparison.verdict = Verdict::Inconclusive;
        let detectable = comparison.minimum_detectable_change.map_or_else(
            || "unknown".to_owned(),
            |change| match change {
                change if change > 1.0 => "more than 100 %".to_owned(),
                change => format!("{:.2} %", 100.0 * change),
            },
        );
        comparison.reason = format!(
            "minimum detectable change with {} {}: {detectable}; noise threshold: {percent} %",
            comparison.blocks_used,
            if comparison.blocks_used == 1 {
                "block"
            } else {
                "blocks"
            }
        );
    }
}

/// More blocks than this are more than anybody runs for one metric.
pub const WORTHWHILE_BLOCKS: usize = 200;

type Pairs = Vec<(f64, f64)>;

fn usable_pairs(blocks: &[Block]) -> Result<(Pairs, usize), CompareError> {
    let mut pairs = Vec::with_capacity(blocks.len());
    for (block, values) in blocks.iter().enumerate() {
        for (side, value) in [
            (BaseOrHead::Base, values.base),
            (BaseOrHead::Head, values.head),
        ] {
            match value {
                Some(value) if !value.is_finite() => {
                    return Err(CompareError::NotFinite { block, side, value });
                }
                Some(value) if value < 0.0 => {
                    return Err(CompareError::Negative { block, side, value });
                }
                _ => {}
            }
        }
        if let (Some(base), Some(head)) = (values.base, values.head) {
            pairs.push((base, head));
        }
    }
    let dropped = blocks.len() - pairs.len();
    Ok((pairs, dropped))
}

fn check_settings(metric: &Measurement, options: &Options) -> Result<(), CompareError> {
    let open_unit = "a number between 0 and 1";
    let settings = [
        ("confidence", options.confidence, open_unit),
        ("alpha", options.alpha, open_unit),
        ("power", options.power, open_unit),
    ];
    for (setting, value, expected) in settings {
        if !(value > 0.0 && value < 1.0) {
            return Err(CompareError::Setting {
                setting,
                value,
                expected,
            });
        }
    }
    for (setting, value) in [
        ("threshold", metric.threshold),
        ("noise_floor", options.noise_floor),
    ] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(CompareError::Setting {
                setting,
                value,
                expected: "a number of at least 0",
            });
        }
    }
    Ok(())
}
