//! When the requests of an open loop arrive.

use std::{f64::consts::TAU, time::Duration};

use protocol::{Arrivals, TracedRequest};

use super::random::{Purpose, Stream};

/// When requests arrive: the same times for the same seed on every machine, and for every rate the
/// same times stretched, so that two rates are compared by the same requests.
#[derive(Debug, Clone)]
pub struct ArrivalTimes {
    /// At one request a second on average.
    unit: Vec<f64>,
}

impl ArrivalTimes {
    /// Of so many requests of the warm-up.
    pub fn in_warmup(arrivals: Arrivals, seed: u64, count: usize) -> Self {
        Self::draw(arrivals, seed, Purpose::WarmupArrivals, count)
    }

    /// Of so many measured requests.
    pub fn measured(arrivals: Arrivals, seed: u64, count: usize) -> Self {
        Self::draw(arrivals, seed, Purpose::MeasuredArrivals, count)
    }

    /// Of so many requests of a trace, of which there are two at least, from its beginning and again
    /// from there.
    pub fn traced(requests: &[TracedRequest], count: usize) -> Self {
        let rate = traced_rate(requests);
        let first = requests.first().map_or(0.0, |first| first.seconds);
        let rounds = (0_u32..).flat_map(|round| requests.iter().map(move |one| (round, one)));
        let unit = rounds.take(count).map(|(round, one)| {
            f64::from(round) * requests.len() as f64 + (one.seconds - first) * rate
        });
        Self {
            unit: unit.collect(),
        }
    }

    fn draw(arrivals: Arrivals, seed: u64, purpose: Purpose, count: usize) -> Self {
        let mut stream = Stream::new(seed, purpose, 0);
        let shape = arrivals.shape();
        let mut time = 0.0;
        let unit = (0..count).map(|_| {
            time += match arrivals {
                Arrivals::Poisson | Arrivals::Trace => -stream.uniform().ln(),
                Arrivals::Gamma(_) => gamma(&mut stream, shape) / shape,
            };
            time
        });
        Self {
            unit: unit.collect(),
        }
    }

    /// At so many requests a second on average.
    pub fn at_rate(&self, rate: f64) -> Vec<Duration> {
        let times = self.unit.iter();
        times
            .map(|time| Duration::from_secs_f64(time / rate))
            .collect()
    }
}

/// Requests a second of a trace that takes some time.
pub fn traced_rate(requests: &[TracedRequest]) -> f64 {
    let seconds = |one: Option<&TracedRequest>| one.map_or(0.0, |one| one.seconds);
    requests.len().saturating_sub(1) as f64 / (seconds(requests.last()) - seconds(requests.first()))
}

/// Gamma-distributed with this shape and scale 1 (Marsaglia and Tsang, «A Simple Method for
/// Generating Gamma Variables», 2000).
fn gamma(stream: &mut Stream, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = stream.uniform().powf(1.0 / shape);
        return gamma(stream, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        // Box and Muller.
        let radius = (-2.0 * stream.uniform().ln()).sqrt();
        let normal = radius * (TAU * stream.uniform()).cos();
        let v = (1.0 + c * normal).powi(3);
        let accepts =
            |v: f64, uniform: f64| uniform.ln() < 0.5 * normal * normal + d - d * v + d * v.ln();
        if v > 0.0 && accepts(v, stream.uniform()) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_requests_have_the_moments_asked_for() {
        const COUNT: usize = 200_000;
        for (arrivals, shape) in [
            (Arrivals::Poisson, 1.0_f64),
            (Arrivals::Gamma(0.25), 0.25),
            (Arrivals::Gamma(4.0), 4.0),
        ] {
            let times = ArrivalTimes::measured(arrivals, 9, COUNT).unit;
            let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
            let gaps: Vec<f64> = gaps.collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let variance = squares / gaps.len() as f64;
            // Five standard errors of the mean, and of the variance by its kurtosis of 6 ÷ shape.
            let error = 5.0 / (shape * COUNT as f64).sqrt();
            assert!((mean - 1.0).abs() < error, "{arrivals}: mean {mean}");
            let error = 5.0 * ((2.0 + 6.0 / shape) / COUNT as f64).sqrt() / shape;
            let expected = 1.0 / shape;
            assert!(
                (variance - expected).abs() < error,
                "{arrivals}: {variance}"
            );
        }
    }

    #[test]
    fn a_trace_comes_as_it_was_and_then_again() {
        let trace: protocol::Trace = "2\n2.5\n6".parse().unwrap();
        let requests = trace.requests();
        assert!((traced_rate(requests) - 0.5).abs() < 1e-12);
        let times = ArrivalTimes::traced(requests, 7);
        let seconds = |rate| {
            times
                .at_rate(rate)
                .iter()
                .map(Duration::as_secs_f64)
                .collect::<Vec<_>>()
        };
        // The gap between two rounds is the mean one.
        assert_eq!(seconds(0.5), [0.0, 0.5, 4.0, 6.0, 6.5, 10.0, 12.0]);
        assert_eq!(seconds(1.0), [0.0, 0.25, 2.0, 3.0, 3.25, 5.0, 6.0]);
    }

    #[test]
    fn times_depend_on_the_seed_and_are_stretched_by_the_rate() {
        let of = |seed| ArrivalTimes::measured(Arrivals::Gamma(0.5), seed, 100);
        assert_eq!(of(1).unit, of(1).unit);
        assert_ne!(of(1).unit, of(2).unit);
        let warmup = ArrivalTimes::in_warmup(Arrivals::Gamma(0.5), 1, 100);
        assert_ne!(warmup.unit, of(1).unit);
        let (slow, fast) = (of(1).at_rate(1.0), of(1).at_rate(10.0));
        assert!(slow.is_sorted() && fast.is_sorted());
        let stretched = fast[99].as_secs_f64() * 10.0;
        assert!((slow[99].as_secs_f64() - stretched).abs() < 1e-6);
    }
}
