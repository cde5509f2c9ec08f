//! What leaves no room for chance: memory that repeats to the byte, and nothing at all against
//! something.

use super::types::{Comparison, Interval, Kind, Measurement, Method, Verdict};

/// Judges exactly if each side of a memory-like metric repeats one value, or if a side is 0
/// throughout and the other is so too, or never; `None` if not, or if a single block leaves open
/// whether it would.
#[expect(
    clippy::float_cmp,
    reason = "bytes are counted, and compared to the byte"
)]
pub(super) fn judge(metric: &Measurement, blank: &Comparison) -> Option<Comparison> {
    let of_base = || metric.blocks.iter().filter_map(|block| block.base);
    let of_head = || metric.blocks.iter().filter_map(|block| block.head);
    let (base, head) = (of_base().next()?, of_head().next()?);
    let repeats = metric.kind == Kind::MemoryLike
        && of_base().all(|value| value == base)
        && of_head().all(|value| value == head);
    // Zeros repeat by themselves.
    let zeros = (base == 0.0 || head == 0.0)
        && of_base().all(|value| (value == 0.0) == (base == 0.0))
        && of_head().all(|value| (value == 0.0) == (head == 0.0));
    let blocks = blank.blocks_used;
    if blocks < 2 || !(repeats || zeros) {
        return None;
    }
    let mut judged = Comparison {
        p_value: Some(0.0),
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
            judged.verdict = interval.verdict(metric.threshold, metric.direction);
            return Some(judged);
        }
    }
    judged.verdict = Verdict::of_change(head - base, metric.direction);
    Some(judged)
}
