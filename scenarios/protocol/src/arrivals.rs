//! When the requests of an open loop arrive.

use std::{fmt, time::Duration};

use crate::text::{read_by, text_form};

/// The process that requests arrive by. The times between them are independent draws, whose mean
/// the arrival rate says, or those of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Arrivals {
    /// Exponential times: many users who know nothing of each other.
    #[default]
    Poisson,
    /// Gamma-distributed times of this shape: below 1 in bursts, above 1 evenly.
    Gamma(f64),
    /// As the scenario's `trace` has them, again and again: at its own rate, or stretched to the
    /// arrival rate.
    Trace,
}

impl Arrivals {
    /// The shape of the gamma distribution that the times between drawn requests have.
    pub fn shape(self) -> f64 {
        match self {
            Self::Poisson | Self::Trace => 1.0,
            Self::Gamma(shape) => shape,
        }
    }
}

read_by!(
    Arrivals,
    "unknown arrivals `{}`; expected poisson, gamma:BURSTINESS with the shape of the times between \
     requests from 0.01 (bursts) to 100 (even), such as gamma:0.5, or trace",
    |text| match text {
        "poisson" => Some(Self::Poisson),
        "trace" => Some(Self::Trace),
        _ => {
            let shape = text.strip_prefix("gamma:")?;
            let is_plain = shape.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            match shape.parse().ok().filter(|_| is_plain)? {
                // The same process has one name.
                1.0 => Some(Self::Poisson),
                shape @ 0.01..=100.0 => Some(Self::Gamma(shape)),
                _ => None,
            }
        }
    }
);

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("poisson"),
            Self::Gamma(shape) => write!(f, "gamma:{shape}"),
            Self::Trace => f.write_str("trace"),
        }
    }
}

text_form!(
    Arrivals,
    "When requests arrive: poisson, gamma:BURSTINESS, or trace",
    r"^(poisson|gamma:[0-9.]+|trace)$"
);

/// The quantile of the latencies that a search keeps within the objective.
pub const SEARCHED_QUANTILE: f64 = 0.99;

/// Rates that a search tries, more or less.
const TRIES: u32 = 10;

/// How long requests arrive at least at a rate that a search tries. At one that is 5 % above what
/// the server can do, the last of them then wait as long as the objective allows.
pub fn search_window(objective: Duration) -> Duration {
    20 * objective
}

/// How long a search takes at least.
pub(crate) fn least_search(objective: Duration) -> Duration {
    TRIES * search_window(objective)
}

/// The fewest requests that a quantile of their latencies is given for, so that with 99 %
/// confidence one of them at least lies above it besides the longest: the «early stopping» of
/// `MLPerf`'s inference rules, which allows one request above.
pub fn requests_needed(quantile: f64) -> u32 {
    let mut none_above = 1.0;
    for requests in 1..u32::MAX {
        let one_above = f64::from(requests) * (1.0 - quantile) * none_above;
        none_above *= quantile;
        if none_above + one_above <= 0.01 {
            return requests;
        }
    }
    u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_read_and_write() {
        for (text, shape) in [
            ("poisson", 1.0),
            ("trace", 1.0),
            ("gamma:0.25", 0.25),
            ("gamma:100", 100.0),
        ] {
            let arrivals: Arrivals = text.parse().unwrap();
            assert_eq!(arrivals.to_string(), text);
            assert!((arrivals.shape() - shape).abs() < 1e-12, "{text}");
        }
        assert_eq!("gamma:1.0".parse(), Ok(Arrivals::Poisson));
        for text in [
            "",
            "gamma",
            "gamma:",
            "gamma:0",
            "gamma:-1",
            "gamma:1e1",
            "gamma:nan",
            "gamma:101",
            "uniform",
        ] {
            let error = text.parse::<Arrivals>().unwrap_err().to_string();
            let expect = format!(
                "unknown arrivals `{text}`; expected poisson, gamma:BURSTINESS with the shape of \
                 the times between requests from 0.01 (bursts) to 100 (even), such as gamma:0.5, \
                 or trace"
            );
            assert_eq!(error, expect);
        }
    }

    /// 662 and 6,636 are the numbers of `MLPerf`'s rules.
    #[test]
    fn quantiles_need_as_many_requests_as_mlperf_says() {
        let needed = [0.5, 0.9, 0.99, 0.999].map(requests_needed);
        assert_eq!(needed, [11, 64, 662, 6636]);
    }
}
