//! The other yardstick: E-divisive means with a t test, the idea behind Hunter and
//! Apache Otava (Matteson and James 2014; Fleming et al. 2023), written anew for this
//! comparison: windows of 50 points, a lenient first pass, then the weakest change
//! points are dropped until every one has p ≤ 0.001 against its neighbours.

use judge::dist::t_two_sided;

const WINDOW: usize = 50;
const P_FIRST: f64 = 0.01;
const P_LAST: f64 = 0.001;
const SHORTEST: usize = 2;

/// Student's t for two samples of equal variance.
fn p_value(left: &[f64], right: &[f64]) -> f64 {
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>())
    };
    let ((l, l_squares), (r, r_squares)) = (moments(left), moments(right));
    let df = (left.len() + right.len()) as f64 - 2.0;
    if df <= 0.0 {
        return 1.0;
    }
    let variance = (l_squares + r_squares) / df;
    let spread = variance * (1.0 / left.len() as f64 + 1.0 / right.len() as f64);
    t_two_sided((l - r) / spread.sqrt(), df)
}

/// The split with the largest energy distance between its sides.
fn best_split(values: &[f64]) -> Option<usize> {
    let n = values.len();
    let distance = |i: usize, j: usize| (values[i] - values[j]).abs();
    let mut within_left = 0.0;
    let mut between = 0.0;
    let mut within_right: f64 = (0..n)
        .flat_map(|i| (i + 1..n).map(move |j| (i, j)))
        .map(|(i, j)| distance(i, j))
        .sum();
    let mut best = None;
    for split in 1..n {
        // The point split - 1 moves from the right side to the left.
        let moved = split - 1;
        let to_left: f64 = (0..moved).map(|i| distance(i, moved)).sum();
        let to_right: f64 = (split..n).map(|j| distance(moved, j)).sum();
        within_left += to_left;
        within_right -= to_right;
        between += to_right - to_left;
        if split < SHORTEST || n - split < SHORTEST {
            continue;
        }
        let (l, r) = (split as f64, (n - split) as f64);
        let energy = 2.0 * between / (l * r)
            - 2.0 * within_left / (l * (l - 1.0))
            - 2.0 * within_right / (r * (r - 1.0));
        let weighted = energy * l * r / (l + r);
        if best.is_none_or(|(_, most)| weighted > most) {
            best = Some((split, weighted));
        }
    }
    best.map(|(split, _)| split)
}

fn split(values: &[f64], offset: usize, found: &mut Vec<usize>) {
    let Some(at) = best_split(values) else { return };
    if p_value(&values[..at], &values[at..]) <= P_FIRST {
        found.push(offset + at);
        split(&values[..at], offset, found);
        split(&values[at..], offset + at, found);
    }
}

/// First points of the new levels.
pub(crate) fn change_points(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let end = (start + WINDOW).min(n);
        split(&values[start..end], start, &mut found);
        if end == n {
            break;
        }
        start += WINDOW / 2;
    }
    found.sort_unstable();
    found.dedup();
    loop {
        let p_at = |i: usize| {
            let lo = if i == 0 { 0 } else { found[i - 1] };
            let hi = found.get(i + 1).copied().unwrap_or(n);
            p_value(&values[lo..found[i]], &values[found[i]..hi])
        };
        let weakest = (0..found.len()).max_by(|&a, &b| p_at(a).total_cmp(&p_at(b)));
        match weakest {
            Some(i) if p_at(i) > P_LAST => found.remove(i),
            _ => return found,
        };
    }
}
