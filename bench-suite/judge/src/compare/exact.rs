//! What leaves no room for chance: memory that repeats to the byte, and nothing at all against
//! something.

use super::types::{Comparison, Interval, Kind, Measurement, Method, Verdict};

/// Judges the pairs exactly if each side of a memory-like metric repeats one value, or if a side is
/// 0 throughout and the other is so too, or never; `None` if not, or if a single block leaves open
/// whether it would.
#[expect(
    clippy::float_cmp,
    reason = "bytes are counted, and compared to the byte"
)]
pub(super) fn judge(
    pairs: &[(f64, f64)],
    metric: &Measurement,
    blank: &Comparison,
) -> Option<Comparison> {
    let &(base, head) = pairs.first()?;
    let all = |fits: &dyn Fn(f64, f64) -> bool| pairs.iter().all(|&(b, h)| fits(b, h));
    let repeats = metric.kind == Kind::MemoryLike && all(&|b, h| (b, h) == (base, head));
    // Zeros repeat by themselves.
    let zeros = (base == 0.0 || head == 0.0)
        && all(&|b, h| (b == 0.0, h == 0.0) == (base == 0.0, head == 0.0));
    let blocks = pairs.len();
    if blocks < 2 || !(repeats || zeros) {
        return None;
    }
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
    judged.reason = match (repeats, base == 0.0) {
        (true, _) => format!("{base} became {head}, the same in all {blocks} blocks"),
        (false, true) => format!("0 in the base and above 0 in the head in all {blocks} blocks"),
        (false, false) => format!("above 0 in the base and 0 in the head in all {blocks} blocks"),
    };
    if base > 0.0 {
        let change = head / base;
        judged.ratio = change.is_finite().then_some(change);
        let interval = Interval {
            lo: change,
            hi: change,
        };
        if change > 0.0 && change.is_finite() {
            judged.interval = Some(interval);
            if interval.within_threshold(metric.threshold) {
                judged.verdict = Verdict::Unchanged;
                return Some(judged);
            }
        }
    }
    judged.verdict = Verdict::of_change(head - base, metric.direction);
    Some(judged)
}
