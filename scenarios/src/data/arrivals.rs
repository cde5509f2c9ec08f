//! When the requests of an open loop arrive.

use std::{f64::consts::TAU, time::Duration};

use protocol::Arrivals;

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

    fn draw(arrivals: Arrivals, seed: u64, purpose: Purpose, count: usize) -> Self {
        let mut stream = Stream::new(seed, purpose, 0);
        let shape = arrivals.shape();
        let mut time = 0.0;
        let unit = (0..count).map(|_| {
            time += match arrivals {
                Arrivals::Poisson => -stream.uniform().ln(),
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
