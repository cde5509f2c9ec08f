//! Named numbers: what a run yields, whoever ran it.

use std::collections::BTreeMap;

/// Named numbers, each finite. A name carries its unit (`peak_allocated_bytes`); what cannot be
/// known has no entry, and is never 0.
pub type Values = BTreeMap<String, f64>;

/// Most values that a run may yield.
pub const MOST_VALUES: usize = 1_000;

/// Most letters of a value's name.
const LONGEST_NAME: usize = 64;

/// Why a name cannot be a value's, a series' or a metric's; `None` where it can.
pub fn bad_name(name: &str) -> Option<&'static str> {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.as_bytes()[0].is_ascii_lowercase()
        && name.bytes().all(is_fit);
    (!is_name).then_some("expected up to 64 of a-z, 0-9 and _, a letter first")
}

/// Why these values cannot be a run's; `None` where they can.
pub fn bad_values(values: &Values) -> Option<String> {
    if values.len() > MOST_VALUES {
        return Some(format!("{} values; at most {MOST_VALUES}", values.len()));
    }
    values.iter().find_map(|(name, value)| {
        let name_problem = bad_name(name).map(|why| format!("the name `{name}`: {why}"));
        name_problem.or_else(|| (!value.is_finite()).then(|| format!("{name} is {value}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_checked() {
        for good in ["loss", "peak_allocated_bytes", "p99_ttft_seconds"] {
            assert_eq!(bad_name(good), None, "{good}");
        }
        for bad in ["", "_a", "9a", "Loss", "a b", "a\u{1b}", &"a".repeat(65)] {
            assert!(bad_name(bad).is_some(), "{bad}");
        }
        let of = |value: f64| Values::from([("loss".to_owned(), value)]);
        assert_eq!(bad_values(&of(1.0)), None);
        assert_eq!(bad_values(&of(f64::NAN)).unwrap(), "loss is NaN");
        let many: Values = (0..=MOST_VALUES).map(|i| (format!("v{i}"), 0.0)).collect();
        assert_eq!(bad_values(&many).unwrap(), "1001 values; at most 1000");
    }
}
