//! Memory that repeats to the byte is compared to the byte.

use super::types::{Comparison, Interval, Measurement, Method, Verdict};

/// Judges the pairs exactly if each side repeats one value; `None` if it does not, or if
/// a single block leaves open whether it would.
#[expect(
    clippy::float_cmp,
    reason = "bytes are counted, and compared to the byte"
)]
pub(super) fn judge(
    pairs: &[(f64, f64)],
    metric: &Measurement,
    blank: &Comparison,
) -> Option<Comparison> {
    let (&(base, head), rest) = pairs.split_first()?;
    if rest.is_empty() || rest.iter().any(|&pair| pair != (base, head)) {
        return None;
    }
    let blocks = pairs.len();
    let mut judged = Comparison {
        p_value: Some(if base == head { 1.0 } else { 0.0 }),
        minimum_detectable_change: Some(0.0),
        noise: Some(0.0),
        blocks_needed: Some(2),
        method: Method::Exact,
        ..blank.clone()
    };
    if base == head {
        judged.ratio = Some(1.0);
        judged.interval = Some(Interval { lo: 1.0, hi: 1.0 });
        judged.verdict = Verdict::Unchanged;
        judged.reason = format!("{base} on both sides in all {blocks} blocks");
        return Some(judged);
    }
    judged.reason = format!("{base} became {head}, the same in all {blocks} blocks");
    let change = if base == 0.0 {
        f64::INFINITY
    } else {
        head / base
    };
    if change.is_finite() && change > 0.0 {
        let interval = Interval {
            lo: change,
            hi: change,
        };
        judged.ratio = Some(change);
        judged.interval = Some(interval);
        if interval.within_threshold(metric.threshold) {
            judged.verdict = Verdict::Unchanged;
            return Some(judged);
        }
    } else if change == 0.0 {
        judged.ratio = Some(0.0);
    }
    judged.verdict = Verdict::of_change(head - base, metric.direction);
    Some(judged)
}
