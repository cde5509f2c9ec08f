//! From metrics to places on the paper, and where the ticks stand.

use crate::format::{self, Quantity, Unit};

/// One axis: a range of metrics laid over a range of the paper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

/// A tick: its metric and how it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    /// The metric as text, without unit.
    pub(crate) label: String,
}

impl Scale {
    /// `low..high` over `from..to` on the paper. A range without width is widened around its
    /// metric, so that there is always something to draw.
    pub(crate) fn linear((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let (low, high) = widened(low, high);
        Self {
            low,
            high,
            from,
            to,
            logarithmic: false,
        }
    }

    /// As [`Scale::linear`] in powers of ten; both ends must be above 0, or it stays linear.
    pub(crate) fn logarithmic((low, high): (f64, f64), paper: (f64, f64)) -> Self {
        let linear = Self::linear((low, high), paper);
        let able = linear.low > 0.0;
        Self {
            logarithmic: able,
            ..linear
        }
    }

    /// Linear from 0, so that lengths compare as values do; where the least is far below the
    /// greatest, logarithmic.
    pub(crate) fn from_zero(values: &[f64], paper: (f64, f64), far: f64) -> Self {
        let (low, high) = extent(values);
        if low > 0.0 && high / low > far {
            Self::logarithmic((low / 1.25, high * 1.25), paper)
        } else {
            Self::linear((low.min(0.0), high * 1.08), paper)
        }
    }

    /// Whether equal steps are equal ratios, which the axis then says.
    pub(crate) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// Where `value` lies on the paper; beyond the range it lies at the range's end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from + share * (self.to - self.from)
    }

    /// The range of metrics.
    pub(crate) fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// At most about `count` ticks at round metrics in the unit that fits, and that unit.
    pub(crate) fn ticks(&self, quantity: Quantity, count: usize) -> (Vec<Tick>, Unit) {
        let unit = quantity.unit(self.high.abs().max(self.low.abs()));
        let (low, high) = (self.low / unit.size, self.high / unit.size);
        let values = if self.logarithmic {
            decades(low, high, count)
        } else {
            steps(low, high, count)
        };
        let ticks = values
            .into_iter()
            .map(|(value, decimals)| Tick {
                value: value * unit.size,
                label: tick_label(value, decimals),
            })
            .collect();
        (ticks, unit)
    }
}

/// Least and greatest of the finite values; `(0, 1)` where there is none.
pub(crate) fn extent(values: &[f64]) -> (f64, f64) {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    if low > high { (0.0, 1.0) } else { (low, high) }
}

/// A line of few points that looks like one of many: of each of `stretches` stretches its lowest
/// and its highest, in the order in which they came.
pub(crate) fn extremes(points: &[(f64, f64)], stretches: usize) -> Vec<(f64, f64)> {
    if points.len() <= stretches * 2 {
        return points.to_vec();
    }
    let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
    let of_stretch = |stretch: &[(f64, f64)]| {
        let mut ends: Vec<(f64, f64)> = [
            stretch.iter().min_by(by_height),
            stretch.iter().max_by(by_height),
        ]
        .into_iter()
        .flatten()
        .copied()
        .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    };
    points
        .chunks(points.len().div_ceil(stretches))
        .flat_map(of_stretch)
        .collect()
}

fn widened(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = if low.is_finite() && high.is_finite() {
        (low.min(high), low.max(high))
    } else {
        (0.0, 1.0)
    };
    if high - low > f64::EPSILON * high.abs() * 16.0 {
        return (low, high);
    }
    let room = if high == 0.0 { 1.0 } else { high.abs() * 0.1 };
    (low - room, high + room)
}

/// Round steps of 1, 2 or 5 times a power of ten, each with the decimals that it needs.
fn steps(low: f64, high: f64, count: usize) -> Vec<(f64, usize)> {
    let raw = (high - low) / count.max(1) as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= raw * 0.999)
        .unwrap_or(10.0);
    let step = factor * power;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0 to 12 before"
    )]
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let first = (low / step).ceil();
    (0..=count * 2 + 2)
        .map(|index| (first + index as f64) * step)
        .take_while(|value| *value <= high + step * 1e-9)
        .map(|value| {
            (
                if value.abs() < step * 1e-9 {
                    0.0
                } else {
                    value
                },
                decimals,
            )
        })
        .collect()
}

/// 1, 2 and 5 of every power of ten, thinned to powers of ten, or to every few, as needed.
fn decades(low: f64, high: f64, count: usize) -> Vec<(f64, usize)> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a logarithm of a finite number"
    )]
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let of = |factors: &[f64], every: usize| -> Vec<(f64, usize)> {
        (first..=last)
            .step_by(every)
            .flat_map(|power| {
                factors
                    .iter()
                    .map(move |factor| (factor * 10_f64.powi(power), power))
            })
            .filter(|(value, _)| (low..=high).contains(value))
            .map(|(value, power)| (value, usize::try_from(-power).unwrap_or(0)))
            .collect()
    };
    let span = usize::try_from(last - first).unwrap_or(1);
    let choices = [
        of(&[1.0, 2.0, 5.0], 1),
        of(&[1.0, 3.0], 1),
        of(&[1.0], 1),
        of(&[1.0], span.div_ceil(count.max(1)).max(1)),
    ];
    let [.., fewest] = &choices;
    choices
        .iter()
        .find(|ticks| ticks.len() <= count + 2 && ticks.len() >= 2)
        .unwrap_or(fewest)
        .clone()
}

fn tick_label(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e5 || (decimals > 4 && value != 0.0) {
        let text = format::significant(value, 3);
        return text.strip_suffix(".00").map_or(text.clone(), str::to_owned);
    }
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, quantity: Quantity, count: usize) -> (Vec<String>, &'static str) {
        let (ticks, unit) = scale.ticks(quantity, count);
        (
            ticks.into_iter().map(|tick| tick.label).collect(),
            unit.sign,
        )
    }

    #[test]
    fn ticks_are_round_in_their_unit() {
        let gib = 1_073_741_824.0;
        let scale = Scale::linear((0.0, 15.2 * gib), (0.0, 100.0));
        let (ticks, unit) = labels(scale, Quantity::Bytes, 4);
        assert_eq!((ticks.join(" "), unit), ("0 5 10 15".to_owned(), "GiB"));
        let scale = Scale::linear((0.0, 0.0123), (0.0, 100.0));
        let (ticks, unit) = labels(scale, Quantity::Seconds, 5);
        assert_eq!((ticks.join(" "), unit), ("0 5 10".to_owned(), "ms"));
        let scale = Scale::linear((-0.8, 0.8), (0.0, 100.0));
        assert_eq!(
            labels(scale, Quantity::Percent, 4).0.join(" "),
            "-0.5 0.0 0.5"
        );
        let scale = Scale::logarithmic((3.0, 4000.0), (0.0, 100.0));
        assert_eq!(
            labels(scale, Quantity::Throughput, 4).0.join(" "),
            "10 100 1000"
        );
    }

    #[test]
    fn any_range_draws() {
        let ends = [0.0, 1e-12, 1.0, 1e15, -5.0, f64::NAN, f64::INFINITY];
        for low in ends {
            for high in ends {
                for scale in [
                    Scale::linear((low, high), (0.0, 100.0)),
                    Scale::logarithmic((low, high), (0.0, 100.0)),
                    Scale::from_zero(&[low, high], (0.0, 100.0), 20.0),
                ] {
                    for value in ends {
                        let place = scale.place(value);
                        assert!((0.0..=100.0).contains(&place), "{scale:?} {value}");
                    }
                    let (ticks, _) = scale.ticks(Quantity::Throughput, 5);
                    assert!(ticks.len() <= 12, "{scale:?}: {}", ticks.len());
                }
            }
        }
    }

    #[test]
    fn far_apart_metrics_go_logarithmic() {
        assert!(Scale::from_zero(&[1.0, 1000.0], (0.0, 1.0), 20.0).logarithmic);
        let near = Scale::from_zero(&[100.0, 1000.0], (0.0, 1.0), 20.0);
        assert_eq!((near.logarithmic, near.range().0), (false, 0.0));
    }
}
