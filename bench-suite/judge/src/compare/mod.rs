//! Did one metric of one pair of cells change?
//!
//! Runs come in blocks, one of either side close together. Three tests of the logarithms share one
//! error budget of 0.02, both directions together: Student's paired t, Welch's t and an exact rank
//! test. The interval holds the ratios that the same combination does not reject at 5 %, so that
//! what is called changed never has an interval that includes no change. Memory-like metrics that
//! repeat to the byte are compared to the byte.

mod evidence;
mod exact;
mod power;
mod ranks;
mod types;

pub(crate) use evidence::Evidence;
use evidence::{ratio, ratios};
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
    let (mut judged, evidence) = weigh(metric, options)?;
    decide(&mut judged, evidence.as_ref(), metric, 1, options);
    Ok(judged)
}

/// Everything but the verdict and what depends on how many metrics are judged together. Without
/// evidence there is nothing to decide.
pub(crate) fn weigh(
    metric: &Measurement,
    options: &Options,
) -> Result<(Comparison, Option<Evidence>), CompareError> {
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
    let Some(&(base, head)) = pairs.first() else {
        blank.reason = String::from("no block has both sides");
        return Ok((blank, None));
    };
    if let Some(judged) = exact::judge(&pairs, metric, &blank) {
        return Ok((judged, None));
    }
    if pairs.iter().any(|&(base, head)| base == 0.0 || head == 0.0) {
        blank.reason = String::from("some values are 0, so there is no ratio");
        return Ok((blank, None));
    }
    let logs: Vec<(f64, f64)> = pairs.iter().map(|&(b, h)| (b.ln(), h.ln())).collect();
    let Some(evidence) = Evidence::of(&logs, metric.between, options) else {
        blank.ratio = Some(ratio(head.ln() - base.ln()));
        blank.reason = String::from("only one block; at least two are needed");
        return Ok((blank, None));
    };
    blank.ratio = Some(ratio(evidence.estimate()));
    blank.interval = Some(ratios(evidence.interval(1.0 - options.confidence)));
    blank.p_value = Some(evidence.p_value(0.0));
    blank.method = match metric.between {
        Some(_) => Method::BetweenSessions,
        None => Method::Combined,
    };
    blank.noise = Some(evidence.noise());
    Ok((blank, Some(evidence)))
}

/// Sets the verdict and its reason from the interval and the p (q where there is one), and what a
/// family of `family` metrics could have shown.
pub(crate) fn decide(
    comparison: &mut Comparison,
    evidence: Option<&Evidence>,
    metric: &Measurement,
    family: usize,
    options: &Options,
) {
    let (Some(evidence), Some(ratio), Some(interval), Some(p)) = (
        evidence,
        comparison.ratio,
        comparison.interval,
        comparison.q_value.or(comparison.p_value),
    ) else {
        return;
    };
    // A single change among m metrics has to have p ≤ α ÷ m.
    let alpha = options.alpha / family.max(1) as f64;
    let detectable = power::detectable(evidence, alpha, options);
    let change = detectable.exp_m1();
    comparison.minimum_detectable_change = change.is_finite().then_some(change);
    let enough = metric.threshold.ln_1p();
    comparison.blocks_needed = power::blocks_needed(evidence, detectable, enough, alpha, options);
    let percent = 100.0 * comparison.threshold;
    if interval.within_threshold(comparison.threshold) {
        comparison.verdict = Verdict::Unchanged;
        comparison.reason = format!("the interval lies within the noise threshold of {percent} %");
    } else if p <= options.alpha {
        comparison.verdict = Verdict::of_change(ratio.ln(), metric.direction);
        comparison.reason = format!("p = {p:.1e}, significant at {}", options.alpha);
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
