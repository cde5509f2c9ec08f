//! The yardstick for change points: the idea of asv's step detector (airspeed velocity,
//! `step_detect`, Virtanen 2015 onwards), written anew for this comparison.
//!
//! A piecewise constant L1 fit with a price γ for every level; γ itself is chosen by an
//! information criterion, 4 ln(n)/n for every level plus the log of the L1 size of the
//! residuals after a lag-1 correlation has been taken out.

/// Sum of absolute deviations from the median, for every start to one end.
struct Costs {
    n: usize,
    /// `cost[end * n + start]` for the points start..=end.
    cost: Vec<f64>,
    middle: Vec<f64>,
}

impl Costs {
    fn of(y: &[f64]) -> Self {
        let n = y.len();
        let (mut cost, mut middle) = (vec![0.0; n * n], vec![0.0; n * n]);
        for start in 0..n {
            let mut sorted: Vec<f64> = Vec::with_capacity(n - start);
            for end in start..n {
                let place = sorted.partition_point(|&v| v < y[end]);
                sorted.insert(place, y[end]);
                let m = sorted.len();
                let median = f64::midpoint(sorted[(m - 1) / 2], sorted[m / 2]);
                middle[end * n + start] = median;
                cost[end * n + start] = sorted.iter().map(|v| (v - median).abs()).sum();
            }
        }
        Self { n, cost, middle }
    }

    /// Starts of the levels of the cheapest fit at price `gamma` a level.
    fn fit(&self, gamma: f64) -> Vec<usize> {
        let n = self.n;
        let mut best = vec![0.0; n + 1];
        let mut from = vec![0; n + 1];
        for end in 1..=n {
            best[end] = f64::INFINITY;
            for start in 0..end {
                let cost = best[start] + gamma + self.cost[(end - 1) * n + start];
                if cost < best[end] {
                    best[end] = cost;
                    from[end] = start;
                }
            }
        }
        let mut starts = vec![];
        let mut end = n;
        while end > 0 {
            end = from[end];
            starts.push(end);
        }
        starts.reverse();
        starts
    }

    fn levels(&self, starts: &[usize]) -> Vec<f64> {
        let ends = starts[1..].iter().copied().chain([self.n]);
        starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| self.middle[(end - 1) * self.n + start])
            .collect()
    }
}

/// Smallest value of `f` on a grid with a golden-section refinement around the best.
fn minimise(lo: f64, hi: f64, steps: u32, value: impl Fn(f64) -> f64) -> f64 {
    let at = |i: u32| lo + (hi - lo) * f64::from(i) / f64::from(steps);
    let best = (0..=steps)
        .min_by(|&i, &j| value(at(i)).total_cmp(&value(at(j))))
        .unwrap_or(0);
    let (mut left, mut right) = (at(best.saturating_sub(1)), at((best + 1).min(steps)));
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..20 {
        let step = golden * (right - left);
        if value(right - step) <= value(left + step) {
            right = left + step;
        } else {
            left = right - step;
        }
    }
    let middle = f64::midpoint(left, right);
    if value(middle) <= value(at(best)) {
        middle
    } else {
        at(best)
    }
}

/// First points of the new levels.
pub(crate) fn change_points(y: &[f64]) -> Vec<usize> {
    let n = y.len();
    if n < 2 {
        return vec![];
    }
    let costs = Costs::of(y);
    let whole = costs.cost[(n - 1) * n];
    if whole == 0.0 {
        return vec![];
    }
    let price = 4.0 * (n as f64).ln() / n as f64;
    let objective = |log_gamma: f64| {
        let starts = costs.fit(whole * log_gamma.exp());
        let levels = costs.levels(&starts);
        let mut residuals = Vec::with_capacity(n);
        for (i, &start) in starts.iter().enumerate() {
            let end = starts.get(i + 1).copied().unwrap_or(n);
            residuals.extend(y[start..end].iter().map(|v| v - levels[i]));
        }
        let size = |rho: f64| {
            residuals[0].abs()
                + residuals
                    .windows(2)
                    .map(|w| (w[1] - rho * w[0]).abs())
                    .sum::<f64>()
        };
        let rho = minimise(-1.0, 1.0, 20, size);
        let steps = levels.windows(2).map(|w| (w[1] - w[0]).abs());
        let floor = if levels.len() > 2 {
            0.1 * steps.fold(f64::INFINITY, f64::min)
        } else {
            0.001 * levels.iter().fold(f64::INFINITY, |m, v| m.min(v.abs()))
        };
        price * starts.len() as f64 + (floor.max(1e-300) + size(rho)).ln()
    };
    let log_gamma = minimise((0.1 / n as f64).ln(), 0.0, 30, objective);
    costs.fit(whole * log_gamma.exp())[1..].to_vec()
}
