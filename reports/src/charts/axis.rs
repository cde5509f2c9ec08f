//! Axes: what they count, how values lie along them, and where their ticks are.

use crate::words::format::{self, Quantity, whole};

/// How values lie along an axis, and how its ticks are written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    Linear,
    /// Equal steps are equal ratios.
    Logarithmic,
    /// The same for ratios, written as changes: `+5 %`, `× 2`.
    Ratio,
    /// Seconds since 1970, written as days.
    Time,
}

/// An axis: what it counts, and from where to where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) quantity: Quantity,
    pub(crate) form: Form,
    low: f64,
    high: f64,
}

/// A ratio beyond which an axis of ratios ends, and the values beyond it are arrows.
const FARTHEST: f64 = 32.0;

impl Axis {
    /// From `low` to `high`. A range without width is widened, so that there is always something
    /// to draw.
    pub(crate) fn linear(title: &str, quantity: Quantity, (low, high): (f64, f64)) -> Self {
        let (low, high) = widened(low, high);
        Self {
            title: title.to_owned(),
            quantity,
            form: Form::Linear,
            low,
            high,
        }
    }

    /// From 0 to a little beyond the greatest of these, so that lengths compare as values do.
    pub(crate) fn from_zero(title: &str, quantity: Quantity, values: &[f64]) -> Self {
        let (low, high) = extent(values);
        Self::linear(title, quantity, (low.min(0.0), high * 1.05))
    }

    /// As [`Axis::from_zero`]; logarithmic, which its title then says, where the greatest value is
    /// more than `far` times the least.
    pub(crate) fn covering(title: &str, quantity: Quantity, values: &[f64], far: f64) -> Self {
        let (low, high) = extent(values);
        if low <= 0.0 || high / low <= far {
            return Self::from_zero(title, quantity, values);
        }
        let title = match title {
            "" => String::new(),
            title => format!("{title}, logarithmic"),
        };
        Self {
            form: Form::Logarithmic,
            ..Self::linear(&title, quantity, (low / 1.25, high * 1.25))
        }
    }

    /// As [`Axis::covering`]; values that lie close together have the room to themselves, though never
    /// so magnified that a change of `threshold`, which counts as none, fills it.
    pub(crate) fn close(title: &str, quantity: Quantity, values: &[f64], threshold: f64) -> Self {
        const FAR: f64 = 30.0;
        let (low, high) = extent(values);
        if low <= high / 2.0 {
            let axis = Self::covering(title, quantity, values, FAR);
            let high = axis.high * 1.06;
            return Self { high, ..axis };
        }
        let room = ((high - low) * 0.2).max(4.0 * threshold * high);
        Self::linear(title, quantity, (low - room, high + room))
    }

    /// Of ratios: all of `ratios`, at least so far to either side of 1 as `least`, and of `ends`, such as
    /// those of intervals, what does not press the ratios together.
    pub(crate) fn ratios(title: &str, ratios: &[f64], ends: &[f64], least: f64) -> Self {
        let sizes = |values: &[f64]| -> Vec<f64> {
            let all = values.iter().filter(|ratio| **ratio > 0.0);
            all.map(|ratio| ratio.ln()).collect()
        };
        let (ratios, ends) = (sizes(ratios), sizes(ends));
        let widest = ratios.iter().map(|size| size.abs()).fold(least, f64::max);
        let limit = (widest * 3.0).min(FARTHEST.ln());
        let all = ratios.iter().chain(&ends).filter(|size| size.is_finite());
        let (low, high) = all
            .map(|size| size.clamp(-limit, limit))
            .fold((-least, least), |(low, high), size| {
                (low.min(size), high.max(size))
            });
        let room = (high - low).max(1e-6) * 0.06;
        Self {
            form: Form::Ratio,
            ..Self::linear(
                title,
                Quantity::Plain,
                ((low - room).exp(), (high + room).exp()),
            )
        }
    }

    /// Of points in time, in seconds since 1970.
    pub(crate) fn time(seconds: &[f64]) -> Self {
        Self {
            form: Form::Time,
            ..Self::linear("", Quantity::Plain, extent(seconds))
        }
    }

    pub(crate) fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    pub(crate) fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    pub(crate) fn is_logarithmic(&self) -> bool {
        matches!(self.form, Form::Logarithmic | Form::Ratio)
    }

    /// Whether it leaves out 0, so that heights do not compare as values do.
    pub(crate) fn is_cut(&self) -> bool {
        self.form == Form::Linear && self.low > 0.0
    }

    /// What one of its unit is, and the unit's sign.
    pub(crate) fn unit(&self) -> format::Unit {
        self.quantity.unit(self.high.abs().max(self.low.abs()))
    }

    pub(crate) fn titled(&self) -> String {
        let sign = if self.is_in_powers_of_two() {
            ""
        } else {
            self.unit().sign
        };
        match (&*self.title, sign) {
            (title, "") => title.to_owned(),
            ("", unit) => unit.to_owned(),
            (title, unit) => format!("{title} ({unit})"),
        }
    }

    /// Whether each of its ticks has a unit of its own: from 8 B to 1 GiB no unit fits all.
    fn is_in_powers_of_two(&self) -> bool {
        self.form == Form::Logarithmic && self.quantity == Quantity::Bytes
    }

    /// At most about `count` ticks at round values, and how they are written.
    pub(crate) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let size = self.unit().size;
        let (low, high) = (self.low / size, self.high / size);
        let written = |ticks: Vec<(f64, usize)>| {
            let ticks = ticks.into_iter();
            let ticks = ticks.map(|(value, decimals)| (value * size, label(value, decimals)));
            ticks.collect()
        };
        match &self.form {
            Form::Linear => written(steps(low, high, count)),
            _ if self.is_in_powers_of_two() => powers_of_two(self.low, self.high, count),
            Form::Logarithmic => written(decades(low, high, count)),
            Form::Ratio => changes(self.low, self.high, count),
            Form::Time => times(self.low, self.high, count),
        }
    }

    /// Laid over `from..to` on the paper.
    pub(crate) fn on(&self, from: f64, to: f64) -> Scale<'_> {
        Scale {
            axis: self,
            from,
            to,
        }
    }
}

/// An axis on the paper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale<'a> {
    pub(crate) axis: &'a Axis,
    from: f64,
    to: f64,
}

impl Scale<'_> {
    /// Where `value` lies on the paper; beyond the range it lies at the range's end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let Axis { low, high, .. } = *self.axis;
        let share = if self.axis.is_logarithmic() {
            (value.max(low).ln() - low.ln()) / (high.ln() - low.ln())
        } else {
            (value - low) / (high - low)
        };
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from + share * (self.to - self.from)
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
    let samples: Vec<record::Sample> = points.iter().map(|(x, y)| record::Sample(*x, *y)).collect();
    let thinned = record::thinned(&samples, stretches * 2);
    thinned.into_iter().map(|one| (one.0, one.1)).collect()
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
    let decimals = whole(-step.log10().floor()).clamp(0, 12);
    let decimals = usize::try_from(decimals).unwrap_or(0);
    let (first, rounding) = ((low / step).ceil(), step * 1e-9);
    (0..=count * 2 + 2)
        .map(|index| (first + index as f64) * step)
        .take_while(|value| *value <= high + rounding)
        // What rounding left of 0.
        .map(|value| if value.abs() < rounding { 0.0 } else { value })
        .map(|value| (value, decimals))
        .collect()
}

/// 1, 2 and 5 of every power of ten, thinned to powers of ten, or to every few, as needed.
fn decades(low: f64, high: f64, count: usize) -> Vec<(f64, usize)> {
    let ends = [low.log10().floor(), high.log10().ceil()];
    let [first, last] = ends.map(|end| i32::try_from(whole(end)).unwrap_or(0));
    let of = |factors: &[f64], every: usize| -> Vec<(f64, usize)> {
        let of_power = |power| {
            let factors = factors.iter();
            factors.map(move |factor| (factor * 10_f64.powi(power), power))
        };
        (first..=last)
            .step_by(every)
            .flat_map(of_power)
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

/// Powers of two or of every few, as needed, in bytes and what they are multiples of.
fn powers_of_two(low: f64, high: f64, count: usize) -> Vec<(f64, String)> {
    let powers = (high / low).log2() / count.max(1) as f64;
    let mut every = [1.0, 2.0, 5.0, 10.0, 20.0].into_iter();
    let every = every.find(|every| *every >= powers).unwrap_or(40.0);
    let first = (low.log2() / every).ceil();
    let ticks = (0..=count).map(|step| 2_f64.powf((first + step as f64) * every));
    let ticks = ticks.take_while(|value| *value <= high);
    let written = ticks.map(|value| {
        let unit = Quantity::Bytes.unit(value);
        (value, format!("{} {}", value / unit.size, unit.sign))
    });
    written.collect()
}

/// Round changes near none, powers of two far from it.
fn changes(low: f64, high: f64, count: usize) -> Vec<(f64, String)> {
    let ratios: Vec<f64> = if low < 0.3 || high > 3.3 {
        let every = ((high / low).log2() / count.max(1) as f64).ceil().max(1.0);
        let powers = (-10..=10).map(f64::from);
        powers.map(|power| 2_f64.powf(every * power)).collect()
    } else {
        let steps = steps(low - 1.0, high - 1.0, count).into_iter();
        steps.map(|(change, _)| 1.0 + change).collect()
    };
    let shown = ratios.into_iter();
    let shown = shown.filter(|ratio| (low..=high).contains(ratio));
    shown.map(|ratio| (ratio, change(ratio))).collect()
}

/// `+5 %`, `0 %`, `× 1.8`, `÷ 2`.
fn change(ratio: f64) -> String {
    let factor = |ratio: f64| {
        let decimals = usize::from(ratio < 9.95);
        let shown = format!("{ratio:.decimals$}");
        shown.trim_end_matches(".0").to_owned()
    };
    if ratio >= 2.0 {
        return format!("× {}", factor(ratio));
    }
    if ratio <= 0.5 {
        return format!("÷ {}", factor(1.0 / ratio));
    }
    let percent = (ratio - 1.0) * 100.0;
    let decimals = usize::from((percent - percent.round()).abs() > 1e-6);
    if percent.abs() < 1e-6 {
        return "0 %".to_owned();
    }
    format!("{percent:+.decimals$} %")
}

fn label(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e5 || (decimals > 4 && value != 0.0) {
        let text = format::significant(value, 3);
        return text.strip_suffix(".00").map_or(text.clone(), str::to_owned);
    }
    format!("{value:.decimals$}")
}

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// At most about `count` ticks between two points in time, in seconds since 1970.
fn times(low: f64, high: f64, count: usize) -> Vec<(f64, String)> {
    let most = count.max(1);
    // Steps that fall on whole hours and days.
    let days = (0..6).flat_map(|power| [1.0, 2.0, 5.0].map(|days| days * 10_f64.powi(power) * DAY));
    let mut steps = [60.0, 600.0, HOUR, 6.0 * HOUR].into_iter().chain(days);
    let step = steps
        .find(|step| (high - low) / step <= most as f64)
        .unwrap_or((high - low).max(1.0));
    let form = if step < DAY {
        "%m-%d %H:%M"
    } else {
        "%Y-%m-%d"
    };
    let first = (low / step).ceil();
    let ticks = (0..=most + 1).map(|index| (first + index as f64) * step);
    let ticks = ticks.take_while(|tick| *tick <= high);
    ticks.map(|tick| (tick, written(tick, form))).collect()
}

/// Seconds since 1970 in this form of `strftime`, in UTC.
pub(crate) fn written(seconds: f64, form: &str) -> String {
    // An odd time is shown as it is.
    jiff::Timestamp::from_second(whole(seconds)).map_or_else(
        |_| format!("{seconds:.3e} s"),
        |time| time.strftime(form).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(axis: &Axis, count: usize, expect: &str) {
        let ticks = axis.ticks(count).into_iter().map(|(_, label)| label);
        let ticks: Vec<String> = ticks.collect();
        assert_eq!(format!("{} {}", ticks.join(" "), axis.unit().sign), expect);
    }

    #[test]
    fn ticks_are_round_in_their_unit() {
        let gib = 1_073_741_824.0;
        let axis = Axis::linear("", Quantity::Bytes, (0.0, 15.2 * gib));
        check(&axis, 4, "0 5 10 15 GiB");
        let axis = Axis::linear("", Quantity::Seconds, (0.0, 0.0123));
        check(&axis, 5, "0 5 10 ms");
        let axis = Axis::linear("", Quantity::Percent, (-0.8, 0.8));
        check(&axis, 4, "-0.5 0.0 0.5 %");
        let axis = Axis::covering("", Quantity::Plain, &[3.0, 4000.0], 20.0);
        check(&axis, 4, "10 100 1000 ");
        let axis = Axis::covering("", Quantity::Bytes, &[8.0, gib], 20.0);
        check(&axis, 5, "1 KiB 1 MiB 1 GiB GiB");
        assert_eq!(axis.titled(), "");
        let axis = Axis::ratios("", &[0.98, 1.04], &[], 0.01);
        check(&axis, 4, "-2 % 0 % +2 % +4 % ");
        let axis = Axis::ratios("", &[0.25, 4.0], &[], 0.01);
        check(&axis, 5, "÷ 4 ÷ 2 0 % × 2 × 4 ");
    }

    #[test]
    fn any_range_draws() {
        let ends = [0.0, 1e-12, 1.0, 1e15, -5.0, f64::NAN, f64::INFINITY];
        for low in ends {
            for high in ends {
                for axis in [
                    Axis::linear("", Quantity::Plain, (low, high)),
                    Axis::covering("", Quantity::Bytes, &[low, high], 20.0),
                    Axis::ratios("", &[low], &[high], 0.02),
                    Axis::time(&[low, high]),
                ] {
                    for value in ends {
                        let place = axis.on(0.0, 100.0).place(value);
                        assert!((0.0..=100.0).contains(&place), "{axis:?} {value}");
                    }
                    let ticks = axis.ticks(5).len();
                    assert!(ticks <= 12, "{axis:?}: {ticks}");
                }
            }
        }
    }

    #[test]
    fn far_apart_values_go_logarithmic() {
        let axis = |values: &[f64]| Axis::covering("x", Quantity::Plain, values, 20.0);
        let far = axis(&[1.0, 1000.0]);
        assert_eq!(
            (far.is_logarithmic(), &*far.title),
            (true, "x, logarithmic")
        );
        let near = axis(&[100.0, 1000.0]);
        assert_eq!((near.is_logarithmic(), near.range().0), (false, 0.0));
        let close = |values: &[f64]| Axis::close("x", Quantity::Plain, values, 0.005);
        let (low, high) = close(&[3900.0, 4100.0]).range();
        assert!((3800.0..3900.0).contains(&low) && (4100.0..4200.0).contains(&high));
        // Equal to what counts as none: the mark is in the middle of a range of 4 % either way.
        let (low, high) = close(&[1000.0, 1000.1]).range();
        assert!(low < 981.0 && high > 1019.0, "{low} {high}");
        assert!(close(&[1.0, 10.0]).range().0.abs() < 1e-12);
    }
}
