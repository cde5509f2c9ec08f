//! Random numbers that depend on the seed and on nothing else.
//!
//! `ChaCha8` in counter mode gives every sample a stream of its own, so sample *i* is the
//! same whatever the batch, the number of threads, the device or the version of libtorch.

use std::sync::LazyLock;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};

/// What a stream is drawn for. Two purposes of one sample never share numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Pixels = 1,
    Labels = 2,
    Tokens = 3,
    Masks = 4,
    WarmupLength = 5,
    MeasuredLength = 6,
    WarmupArrivals = 7,
    MeasuredArrivals = 8,
    Allocations = 9,
    Pictures = 10,
    Order = 11,
    Crops = 12,
    WarmupAnswer = 13,
    MeasuredAnswer = 14,
    Patches = 15,
}

/// The random numbers of one sample for one purpose.
#[derive(Debug)]
pub(super) struct Stream(ChaCha8Rng);

impl Stream {
    pub(super) fn new(seed: u64, purpose: Purpose, sample: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream((purpose as u64) << 48 | sample);
        Self(generator)
    }

    /// Uniform over `0..bound`, without the bias of a plain remainder (Lemire, «Fast Random
    /// Integer Generation in an Interval», 2019).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            // The low half says how far into its bucket the number fell.
            let low = product & u128::from(u64::MAX);
            if low >= u128::from(bound.wrapping_neg() % bound) {
                return u64::try_from(product >> 64).unwrap_or_default();
            }
        }
    }

    /// Uniform between 0 and 1, neither of which it is.
    pub(super) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Fills with standard normal values, 16 random bits for each.
    pub(super) fn normal(&mut self, values: &mut [f32]) {
        let mut bytes = [0; 4096];
        for chunk in values.chunks_mut(bytes.len() / 2) {
            let bytes = &mut bytes[..chunk.len() * 2];
            self.0.fill_bytes(bytes);
            for (value, pair) in chunk.iter_mut().zip(bytes.chunks_exact(2)) {
                *value = QUANTILES[usize::from(u16::from_le_bytes([pair[0], pair[1]]))];
            }
        }
    }
}

/// The standard normal quantile in the middle of each of 65536 equal slices: drawing one
/// at random is a normal draw up to ±4.27 in steps far below what training notices, and
/// takes a look-up instead of logarithms and sines.
static QUANTILES: LazyLock<Vec<f32>> = LazyLock::new(|| {
    (0..=u16::MAX)
        .map(|slice| {
            let share = (f64::from(slice) + 0.5) / 65536.0;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "pixels are single precision"
            )]
            let quantile = (std::f64::consts::SQRT_2
                * statrs::function::erf::erf_inv(2.0 * share - 1.0))
                as f32;
            quantile
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_values_have_the_moments_of_the_normal() {
        let mut values = vec![0.0; 400_000];
        Stream::new(5, Purpose::Pixels, 0).normal(&mut values);
        let moment = |power: i32| {
            values
                .iter()
                .map(|&value| f64::from(value).powi(power))
                .sum::<f64>()
                / values.len() as f64
        };
        // Standard errors at this size: 0.0016, 0.0022, 0.006, 0.016.
        for (power, expected, tolerance) in [
            (1, 0.0, 0.007),
            (2, 1.0, 0.01),
            (3, 0.0, 0.025),
            (4, 3.0, 0.07),
        ] {
            let got = moment(power);
            assert!((got - expected).abs() < tolerance, "moment {power}: {got}");
        }
    }

    #[test]
    fn quantiles_are_symmetric_and_rise() {
        assert!(QUANTILES.windows(2).all(|pair| pair[0] < pair[1]));
        for slice in 0..32768 {
            let (low, high) = (QUANTILES[slice], QUANTILES[65535 - slice]);
            assert!((low + high).abs() < 1e-5, "{low} {high}");
        }
        // scipy.stats.norm.ppf(0.975 rounded to a slice's middle)
        assert!((QUANTILES[63897] - 1.959_95).abs() < 1e-3);
    }

    #[test]
    fn draws_below_a_bound_are_uniform() {
        let mut counts = [0_u32; 7];
        let mut stream = Stream::new(1, Purpose::Labels, 3);
        for _ in 0..70_000 {
            counts[usize::try_from(stream.below(7)).unwrap()] += 1;
        }
        // Five deviations of a count of 10 000 at 1/7: 463.
        assert!(
            counts.iter().all(|&count| count.abs_diff(10_000) < 463),
            "{counts:?}"
        );
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_sample() {
        let first = |seed, purpose, sample| Stream::new(seed, purpose, sample).0.next_u64();
        let base = first(1, Purpose::Pixels, 0);
        assert_eq!(base, first(1, Purpose::Pixels, 0));
        assert_ne!(base, first(2, Purpose::Pixels, 0));
        assert_ne!(base, first(1, Purpose::Labels, 0));
        assert_ne!(base, first(1, Purpose::Pixels, 1));
    }
}
