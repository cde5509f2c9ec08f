//! Seeded noise for the bars and the tests: heavy tails, outliers, autocorrelation.

use judge::compare::{Block, Direction, Kind, Measurement};
use judge::trend::Point;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The range of run-to-run noise on GPUs, relative standard deviation.
pub(crate) const GPU_NOISE: (f64, f64) = (0.0003, 0.03);

/// A generator of its own for every (bar, index), so that results depend neither on
/// order nor on threads.
pub(crate) fn rng(bar: u64, index: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(0x746f_7263_6867_6175 ^ bar);
    rng.set_stream(index);
    rng
}

/// Standard normal, by Box and Muller.
pub(crate) fn gauss(rng: &mut impl Rng) -> f64 {
    let u: f64 = 1.0 - rng.random::<f64>();
    let v: f64 = rng.random();
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn exponential(rng: &mut impl Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

/// The shapes that run-to-run noise takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Normal.
    Gauss,
    /// Student's t with 3 degrees of freedom.
    StudentT3,
    /// Normal, but one run in twenty is slow by an exponential with mean 4 σ.
    SlowRuns,
    /// Laplace.
    Laplace,
    /// Skewed: an exponential above a floor.
    Skewed,
    /// Two modes 2.5 σ apart, 70 : 30, as from clock states or memory placement.
    TwoModes,
}

impl Shape {
    pub(crate) const ALL: [Self; 6] = [
        Self::Gauss,
        Self::StudentT3,
        Self::SlowRuns,
        Self::Laplace,
        Self::Skewed,
        Self::TwoModes,
    ];

    /// Every shape in turn.
    pub(crate) fn of(index: u64) -> Self {
        let count = Self::ALL.len() as u64;
        Self::ALL[usize::try_from(index % count).unwrap_or(0)]
    }

    /// One value, mean 0 and standard deviation 1.
    pub(crate) fn draw(self, rng: &mut impl Rng) -> f64 {
        match self {
            Self::Gauss => gauss(rng),
            Self::StudentT3 => {
                let chi2: f64 = (0..3).map(|_| gauss(rng).powi(2)).sum();
                gauss(rng) / (chi2 / 3.0).sqrt() / 3f64.sqrt()
            }
            Self::SlowRuns => {
                let slow = if rng.random::<f64>() < 0.05 {
                    4.0 * exponential(rng)
                } else {
                    0.0
                };
                // Var = 1 + E[slow²] - E[slow]² = 1 + 0.05 * 32 - 0.2²
                (gauss(rng) + slow - 0.2) / 2.56f64.sqrt()
            }
            Self::Laplace => {
                let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
                sign * exponential(rng) / 2f64.sqrt()
            }
            Self::Skewed => exponential(rng) - 1.0,
            Self::TwoModes => {
                let mode = if rng.random::<f64>() < 0.3 { 2.5 } else { 0.0 };
                (gauss(rng) + mode - 0.75) / (1.0 + 0.21 * 6.25f64).sqrt()
            }
        }
    }
}

/// A relative noise, log-uniform over the range seen on GPUs.
pub(crate) fn gpu_noise(rng: &mut impl Rng) -> f64 {
    let (lo, hi) = GPU_NOISE;
    lo * (hi / lo).powf(rng.random())
}

/// `n` values around 100: relative noise `cv` of a shape.
pub(crate) fn stationary(rng: &mut impl Rng, n: usize, cv: f64, shape: Shape) -> Vec<f64> {
    (0..n)
        .map(|_| 100.0 * (cv * shape.draw(rng)).exp())
        .collect()
}

/// `n` values around 100: AR(1) noise of 1 % with autocorrelation `rho`.
pub(crate) fn autocorrelated(rng: &mut impl Rng, n: usize, rho: f64) -> Vec<f64> {
    let mut state = gauss(rng);
    let fresh = (1.0 - rho * rho).sqrt();
    (0..n)
        .map(|_| {
            state = rho * state + fresh * gauss(rng);
            100.0 * (0.01 * state).exp()
        })
        .collect()
}

/// `n` values around 100 with normal noise of 1 %, this share of them 10 σ off on either side.
pub(crate) fn with_outliers(rng: &mut impl Rng, n: usize, share: f64) -> Vec<f64> {
    (0..n)
        .map(|_| {
            let off = match rng.random::<f64>() {
                low if low < share / 2.0 => -10.0,
                high if high < share => 10.0,
                _ => 0.0,
            };
            100.0 * (0.01 * (gauss(rng) + off)).exp()
        })
        .collect()
}

/// A series with a revision of its own for every value, an hour apart.
pub(crate) fn series(values: &[f64]) -> Vec<Point> {
    let points = values.iter().enumerate();
    points
        .map(|(i, &value)| Point {
            timestamp: 1_700_000_000.0 + 3600.0 * i as f64,
            revision: format!("r{i}"),
            value,
        })
        .collect()
}

/// The same, a night apart.
pub(crate) fn nightly(values: &[f64]) -> Vec<Point> {
    let mut points = series(values);
    for (night, point) in points.iter_mut().enumerate() {
        point.timestamp = 1_700_000_000.0 + 86_400.0 * night as f64;
    }
    points
}

/// `blocks` blocks of a time metric: base around 1, head around `ratio`, noise as on
/// GPUs, and block effects of `drift` times the noise.
pub(crate) fn blocks(
    rng: &mut impl Rng,
    blocks: usize,
    ratio: f64,
    shape: Shape,
    drift: f64,
) -> Measurement {
    let cv = gpu_noise(rng);
    let blocks = (0..blocks)
        .map(|_| {
            let block = drift * cv * gauss(rng);
            let mut run = |level: f64| level * (block + cv * shape.draw(rng)).exp();
            Block::pair(run(1.0), run(ratio))
        })
        .collect();
    Measurement {
        blocks,
        direction: Direction::LowerIsBetter,
        kind: Kind::TimeLike,
        threshold: 0.005,
        between: None,
        metric: 0,
        past: None,
    }
}
