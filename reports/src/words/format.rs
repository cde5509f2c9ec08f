//! Numbers as text: a unit, and as many digits as say something.

/// What stands where a metric is unknown.
pub const UNKNOWN: &str = "–";

pub(crate) fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// `value` with this many significant digits; thousands grouped from 10,000 on.
pub fn significant(value: f64, digits: u32) -> String {
    if !value.is_finite() {
        return "not finite".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-4..1e12).contains(&size) {
        return format!("{value:.*e}", digits.saturating_sub(1) as usize);
    }
    let magnitude = whole(size.log10().floor());
    let decimals = (i64::from(digits) - 1 - magnitude).clamp(0, 12);
    group(&format!(
        "{value:.*}",
        usize::try_from(decimals).unwrap_or(0)
    ))
}

/// The whole part of a number; the least or the largest one where it is beyond them.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
pub(crate) fn whole(number: f64) -> i64 {
    number as i64
}

/// A whole number, thousands grouped from 10,000 on.
pub fn count(value: u64) -> String {
    group(&value.to_string())
}

/// How often something happens on average: whole numbers as such.
pub fn times(count: f64) -> String {
    if count.fract() == 0.0 && count < 1e12 {
        return group(&format!("{count:.0}"));
    }
    significant(count, 3)
}

/// The first few of these, and how many more there are.
pub fn first_few(texts: Vec<String>, most: usize) -> String {
    few(texts, most, "; ", "and ")
}

/// The first few of these with a sign between them, and how many more there are.
pub(crate) fn few(mut texts: Vec<String>, most: usize, sign: &str, and: &str) -> String {
    let more = texts.len().saturating_sub(most);
    texts.truncate(most);
    texts.extend((more > 0).then(|| format!("{and}{more} more")));
    texts.join(sign)
}

/// `1 run`, `2 runs`.
pub fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `Other programs used up to 1.7 of 2 CPUs during`.
pub(crate) fn others_used(used: f64, cpus: u32) -> String {
    format!("Other programs used up to {used:.1} of {cpus} CPUs during")
}

fn group(text: &str) -> String {
    let (sign, rest) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    if whole.len() < 5 {
        return text.to_owned();
    }
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// A unit of a quantity: what one of it is in the base unit, and its sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// One of this unit in base units.
    pub size: f64,
    /// The sign behind the number; empty for a bare number.
    pub sign: &'static str,
}

const BYTES: [Unit; 5] = [
    unit(1.0, "B"),
    unit(1024.0, "KiB"),
    unit(1_048_576.0, "MiB"),
    unit(1_073_741_824.0, "GiB"),
    unit(1_099_511_627_776.0, "TiB"),
];
const BANDWIDTHS: [Unit; 5] = [
    unit(1.0, "B/s"),
    unit(1e3, "kB/s"),
    unit(1e6, "MB/s"),
    unit(1e9, "GB/s"),
    unit(1e12, "TB/s"),
];
const SECONDS: [Unit; 5] = [
    unit(1e-9, "ns"),
    unit(1e-6, "µs"),
    unit(1e-3, "ms"),
    unit(1.0, "s"),
    unit(60.0, "min"),
];

const fn unit(size: f64, sign: &'static str) -> Unit {
    Unit { size, sign }
}

/// What a number counts, and so how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Bytes,
    /// Bytes a second, by thousands, as vendors and nccl-tests give them.
    Bandwidth,
    Seconds,
    /// So many of these a second, by the unit's sign.
    Rate(&'static str),
    /// Percent, already times 100.
    Percent,
    /// A part of a whole, 1: written as percent.
    Share,
    Watts,
    Celsius,
    Megahertz,
    Cores,
    Joules,
    Count,
    Plain,
}

impl From<metrics::Unit> for Quantity {
    fn from(unit: metrics::Unit) -> Self {
        match unit {
            metrics::Unit::Bytes => Self::Bytes,
            metrics::Unit::BytesPerSecond => Self::Bandwidth,
            metrics::Unit::Seconds => Self::Seconds,
            metrics::Unit::SamplesPerSecond
            | metrics::Unit::StepsPerSecond
            | metrics::Unit::TokensPerSecond
            | metrics::Unit::RequestsPerSecond
            | metrics::Unit::OperationsPerSecond => Self::Rate(unit.sign()),
            metrics::Unit::Watts => Self::Watts,
            metrics::Unit::Joules => Self::Joules,
            metrics::Unit::Count => Self::Count,
            metrics::Unit::Ratio => Self::Share,
            metrics::Unit::Plain => Self::Plain,
        }
    }
}

impl Quantity {
    #[expect(non_upper_case_globals, reason = "as the variants are written")]
    pub const Throughput: Self = Self::Rate("samples/s");

    /// How values of the metric of this name are written.
    pub fn of_metric(name: &str) -> Self {
        metrics::Metric::named(name).map_or(Self::Plain, |metric| metric.unit.into())
    }

    /// The unit in which a number of this size reads best.
    pub fn unit(self, value: f64) -> Unit {
        let best = |units: &[Unit]| {
            let fits = units.iter().rfind(|unit| value.abs() >= unit.size);
            *fits.unwrap_or(&units[0])
        };
        match self {
            Self::Bytes => best(&BYTES),
            Self::Bandwidth => best(&BANDWIDTHS),
            // Minutes only from two on: 90 s reads better than 1.5 min.
            Self::Seconds if value.abs() < 120.0 => best(&SECONDS[..4]),
            Self::Seconds => SECONDS[4],
            Self::Rate(sign) => unit(1.0, sign),
            Self::Percent => unit(1.0, "%"),
            Self::Share => unit(0.01, "%"),
            Self::Watts => unit(1.0, "W"),
            Self::Celsius => unit(1.0, "°C"),
            Self::Megahertz => unit(1.0, "MHz"),
            Self::Cores => unit(1.0, "cores"),
            Self::Joules => unit(1.0, "J"),
            Self::Count | Self::Plain => unit(1.0, ""),
        }
    }

    pub fn write(self, value: f64) -> String {
        let digits = match self {
            Self::Bytes | Self::Bandwidth | Self::Rate(_) | Self::Joules => 4,
            Self::Count | Self::Plain => 5,
            Self::Percent | Self::Share => 2,
            _ => 3,
        };
        match self {
            Self::Bytes if value == 0.0 => return "0 B".to_owned(),
            Self::Seconds if value == 0.0 => return "0 s".to_owned(),
            Self::Count if value.fract() == 0.0 => return times(value),
            _ => {}
        }
        let unit = self.unit(value);
        if unit.sign == "B" {
            return format!("{value:.0} B");
        }
        let value = value / unit.size;
        // No digits behind the point that a whole percentage above 100 would not earn.
        let is_long = matches!(self, Self::Percent | Self::Share) && value.abs() >= 10.0;
        let number = significant(value, if is_long { 3 } else { digits });
        match unit.sign {
            "" => number,
            sign => format!("{number} {sign}"),
        }
    }
}

pub fn bytes(value: f64) -> String {
    Quantity::Bytes.write(value)
}

pub fn seconds(value: f64) -> String {
    Quantity::Seconds.write(value)
}

/// A share from 0 to 1 as percent.
pub fn share(value: f64) -> String {
    Quantity::Share.write(value)
}

/// A ratio as a change: `+1.20 %`; `0 %` where it is 1 to the last bit.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let decimals = if percent.abs() < 0.01 { 4 } else { 2 };
    change_with(ratio, decimals)
}

fn change_with(ratio: f64, decimals: usize) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent == 0.0 {
        return "0 %".to_owned();
    }
    if percent.abs() >= 400.0 {
        return format!("× {}", significant(ratio, 3));
    }
    format!("{percent:+.decimals$} %")
}

/// Ratios below and above of which an interval says next to nothing.
const TELLING: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// An interval of ratios as changes: `+0.90 … +1.50 %`; `exact` where the ratio has no error. A
/// narrow one has as many decimals as it takes to see two ends; of one that says next to nothing, the
/// ends are `< -99.9 %` and `> × 1000`.
pub fn interval(low: f64, high: f64) -> String {
    if low.to_bits() == high.to_bits() {
        return "exact".to_owned();
    }
    let ends = |decimals| {
        let low = if low < *TELLING.start() {
            "< -99.9 %".to_owned()
        } else {
            change_with(low, decimals)
        };
        let high = if high > *TELLING.end() {
            "> × 1000".to_owned()
        } else {
            change_with(high, decimals)
        };
        (low, high)
    };
    // `-0.00 %` is no number.
    let is_zero = |end: &str| end != "0 %" && !end.contains(|c| ('1'..='9').contains(&c));
    let apart = (2..=8)
        .map(ends)
        .find(|(low, high)| low != high && !is_zero(low) && !is_zero(high));
    let (low, high) = apart.unwrap_or_else(|| ends(8));
    // One sign is enough for both ends.
    let low = low
        .strip_suffix(" %")
        .filter(|_| high.ends_with(" %"))
        .unwrap_or(&low);
    format!("{low} … {high}")
}

/// A p-value; what no sample can tell from 0 is `< 1e-15`.
pub fn p_value(p: f64) -> String {
    if p < 1e-15 {
        "< 1e-15".to_owned()
    } else {
        format!("{p:.1e}")
    }
}

/// Hours, minutes and seconds of something long.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 120.0 {
        return Quantity::Seconds.write(seconds);
    }
    let whole = whole(seconds.round());
    if whole < 3600 {
        format!("{} min {} s", whole / 60, whole % 60)
    } else {
        format!("{} h {} min", whole / 3600, whole % 3600 / 60)
    }
}

/// The start of a commit, a digest or whatever else is too long for eyes.
pub(crate) fn short(text: &str) -> String {
    const ENOUGH: usize = 12;
    let clean = clean(text);
    let bare = clean.strip_prefix("sha256:").unwrap_or(&clean);
    let is_hash = bare.len() >= 20 && bare.chars().all(|c| c.is_ascii_hexdigit());
    if is_hash || bare.chars().count() > 3 * ENOUGH + 4 {
        bare.chars().take(ENOUGH).collect()
    } else {
        clean
    }
}

/// A text without the characters that no XML or terminal should see: controls, and marks that
/// turn the direction of writing around. Line breaks become spaces.
pub fn clean(text: &str) -> String {
    text.chars().map(clean_char).collect()
}

/// The parts of a text, and whether each is code: what stands between backticks.
pub(crate) fn code(text: &str) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        // A backtick that nothing closes is a character like others.
        let Some((inside, behind)) = after.split_once('`').filter(|(code, _)| !code.is_empty())
        else {
            break;
        };
        parts.extend([(false, before), (true, inside)]);
        rest = behind;
    }
    parts.push((false, rest));
    parts
}

/// The first whole sentences of a text, or else its first whole words, within so many characters;
/// a sign tells that there is more.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= longest {
        return text;
    }
    let cut: String = text.chars().take(longest).collect();
    // A first sentence of a word or two says too little.
    let sentences = cut.rfind(". ").map(|end| &cut[..=end]);
    let words = || cut.rsplit_once(' ').map(|(words, _)| words);
    let whole = sentences
        .filter(|whole| whole.chars().count() * 3 >= longest)
        .or_else(words);
    format!("{} …", whole.unwrap_or(&cut))
}

/// As [`clean`], with line breaks kept.
pub(crate) fn clean_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(clean).collect();
    lines.join("\n")
}

fn clean_char(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_end_with_a_sentence_or_a_word() {
        let check = |text: &str, longest, expect: &str| {
            assert_eq!(shortened(text, longest), expect);
        };
        check("It fits. All of it.", 19, "It fits. All of it.");
        check("It fits. Not all of it.", 20, "It fits. …");
        check(
            "No. Nothing of this fits here.",
            20,
            "No. Nothing of this …",
        );
        check("長い名前がここに一つある。", 5, "長い名前が …");
        check("", 0, "");
    }

    #[test]
    fn digits_follow_the_size() {
        let check = |value: f64, expect: &str| assert_eq!(significant(value, 4), expect, "{value}");
        check(942.712, "942.7");
        check(4960.8, "4961");
        check(12_345.6, "12,346");
        check(1_234_567.0, "1,234,567");
        check(0.031_24, "0.03124");
        check(0.0, "0");
        check(-12_345.0, "-12,345");
        check(3.1e-7, "3.100e-7");
        check(f64::NAN, "not finite");
        check(f64::INFINITY, "not finite");
    }

    #[test]
    fn quantities_choose_their_unit() {
        let check = |quantity: Quantity, value: f64, expect: &str| {
            assert_eq!(quantity.write(value), expect, "{quantity:?} {value}");
        };
        check(Quantity::Bytes, 0.0, "0 B");
        check(Quantity::Bytes, 512.0, "512 B");
        check(Quantity::Bytes, 5736.0 * 1_048_576.0, "5.602 GiB");
        check(Quantity::Bytes, 620.0 * 1_048_576.0, "620.0 MiB");
        check(Quantity::Seconds, 0.0, "0 s");
        check(Quantity::Seconds, 0.0123, "12.3 ms");
        check(Quantity::Seconds, 4.5e-7, "450 ns");
        check(Quantity::Seconds, 90.0, "90.0 s");
        check(Quantity::Seconds, 600.0, "10.0 min");
        check(Quantity::Throughput, 942.71, "942.7 samples/s");
        check(Quantity::Bandwidth, 331_626_937_217.0, "331.6 GB/s");
        check(Quantity::Bandwidth, 305_836.0, "305.8 kB/s");
        check(Quantity::Percent, 0.1734, "0.17 %");
        check(Quantity::Percent, 97.25, "97.2 %");
        check(Quantity::Share, 0.68972, "69.0 %");
        check(Quantity::Watts, 651.3, "651 W");
        assert_eq!(share(0.005), "0.50 %");
        assert_eq!(duration(75.0), "75.0 s");
        assert_eq!(duration(3725.0), "1 h 2 min");
        assert_eq!(duration(130.4), "2 min 10 s");
    }

    #[test]
    fn ratios_read_as_changes() {
        let check = |ratio: f64, expect: &str| assert_eq!(change(ratio), expect);
        check(1.0, "0 %");
        check(1.012, "+1.20 %");
        check(0.5, "-50.00 %");
        check(1.000_05, "+0.0050 %");
        check(40.0, "× 40.0");
        assert_eq!(interval(0.99, 1.01), "-1.00 … +1.00 %");
        assert_eq!(interval(0.99, 0.99), "exact");
        assert_eq!(interval(0.02, 28.1), "-98.00 % … × 28.1");
        assert_eq!(interval(1e-9, 1.6e9), "< -99.9 % … > × 1000");
        assert_eq!(interval(0.9932, 0.993_21), "-0.680 … -0.679 %");
        assert_eq!(interval(0.999_95, 1.03), "-0.005 … +3.000 %");
        assert_eq!(
            (p_value(0.0), p_value(4e-6)),
            ("< 1e-15".into(), "4.0e-6".into())
        );
    }

    #[test]
    fn what_no_reader_should_see_is_replaced() {
        assert_eq!(
            clean("a\u{0}b\u{1b}[31m\u{202e}c\nd"),
            "a\u{fffd}b\u{fffd}[31m\u{fffd}c d"
        );
        assert_eq!(clean_lines("a\nb\r"), "a\nb ");
    }

    #[test]
    fn digests_are_short() {
        assert_eq!(short("sha256:0123456789abcdef0123"), "0123456789ab");
        assert_eq!(short("2.11.0"), "2.11.0");
    }
}
