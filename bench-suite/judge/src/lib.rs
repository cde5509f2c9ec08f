//! What the numbers say: comparisons, change points and claims.
//!
//! Pure statistics on numbers handed in. Nothing here knows of sessions, containers,
//! files or plots.
//!
//! - [`compare`]: did one metric of one pair of cells change? An effect as a ratio with
//!   its interval, and a [`Verdict`](compare::Verdict).
//! - [`family`]: the same for many metrics at once, with the false discovery rate
//!   controlled.
//! - [`moderation`]: what cells of one metric know of each other's noise.
//! - [`sequential`]: looking again after every block, with the price of looking paid.
//! - [`sessions`]: how far sessions lie apart though nothing changed.
//! - [`trend`]: change points in a series over time, its CSV form, and missing data.
//! - [`counts`]: do runs of one side fail more often?
//! - [`claims`]: does an interval bear out what somebody claimed?
//!
//! `docs/statistics.md` gives every formula, its source and a worked example; the README
//! beside this crate has the measured error rates.

pub mod claims;
pub mod compare;
pub mod counts;
pub mod dist;
pub mod family;
pub mod moderation;
pub mod sequential;
pub mod sessions;
pub mod trend;

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp);
    Some(match lower.filter(|_| even) {
        Some(lower) => f64::midpoint(lower, upper),
        None => upper,
    })
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians_by_hand() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([10.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median([10.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
