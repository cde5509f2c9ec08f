//! Every number of the trend that is no level of error: eight that were chosen, each with what it comes
//! from, and what follows from them. `docs/statistics.md` has them in a table.

/// Fewest points of a level inside a series. Spikes of up to three nights are common and are no levels:
/// of five points a median outvotes two, and three of four others are beside it.
pub(super) const MIN_SEGMENT: usize = 5;
/// Huber's ψ is linear up to this many scales; 95 % efficient would be 1.345, this is nearly the mean for
/// normal noise (1 point in 80 lies beyond) and still bounds every point.
pub(super) const CLIP: f64 = 2.5;
/// Beyond what was seen, tails are taken to fall like those of Student's t with so many degrees of
/// freedom: as heavy as they come while the noise still has a variance.
pub(super) const TAIL_DF: i32 = 3;
/// Price of a candidate, in ln(n) noise variances. Yao (1988) asks for more than 1 so that none is false
/// in the end; what is proposed here has to pass a test, so that little more will do.
pub(super) const PRICE: f64 = 1.5;
/// p of a single point is multiplied by this, for two kinds of evidence are tried. They mostly
/// agree: together they alarm 1.1 times as often as ranks alone over all noises that
/// `cargo bench -p judge` draws, and 1.3 times in the worst of them. Bonferroni's 2 would find a
/// drop of 5 % in noise of 1.5 % after one point in 58 % of the series instead of 74.
pub(super) const PRICE_OF_ONE: f64 = 1.3;
/// A point counts for at most this normal score. With 3 recall of a step of 5 σ after three points of
/// AR(1) noise falls from 97 to 88 %; without it one series in 15 with outliers alarms.
pub(super) const MOST_SCORE: f64 = 4.0;
/// … and for at most so many units of noise: with 2.5 recall after two points on an H200 falls by
/// 4 points, with 4 skewed noise alarms more often.
pub(super) const MOST_DISTANCE: f64 = 3.0;
/// A slope between corners has to be closer than steps by so many places more. With one, the step at
/// 131 of `tigerbeetle-load_accepted` is part of a slope; from 1.4 on it is not.
pub(super) const CORNERS: usize = 2;

/// A majority of the points of the shortest level; the newest level, which may still grow, has no fewer.
pub(super) const FEW: usize = MIN_SEGMENT / 2 + 1;
/// Fewest points, distances or differences that tell of noise: two levels of them.
pub(super) const SOME: usize = 2 * MIN_SEGMENT;
/// p of the ranks is multiplied by this inside the series: each candidate was the best by ranks of the
/// places that the shortest two levels around it have (Bonferroni).
pub(super) const PRICE_OF_RANKS: f64 = SOME as f64;
/// Most points that are tried as a new level, for longer ones are found inside the series. Every length
/// is tried, so that this is also the price of several points (Bonferroni).
pub(super) const LONGEST: usize = 4 * MIN_SEGMENT;
/// A month of nights: of a level with so many points the noise is its own, and that of the last so many
/// counts where it is larger than that of all of them.
pub(super) const RECENT: usize = 30;
/// Series of up to a year of nights are searched without their newest points as well: that takes four
/// more searches.
pub(super) const A_YEAR: usize = 366;
/// A point lies as far out as another from this share of its distance on, for spikes vary in height:
/// where the tail beyond it is no more likely than [`PRICE_OF_ONE`] allows.
pub(super) fn as_far() -> f64 {
    PRICE_OF_ONE.powf(-1.0 / f64::from(TAIL_DF))
}
/// Where a change began: the square of noise by which the misfit of places may exceed the best one's
/// (Hansen 2000, 95 %).
pub(super) const PLACE_CRITICAL: f64 = 7.35;
/// What is to be known of noise that grew before the newest points are held against it alone: this
/// is caution, and nothing is told by it.
pub(super) const ALPHA_LOUDER: f64 = 0.05;

/// How many times the true noise the MAD of so many points is at most, but for chance: its standard
/// error is 1.17 ÷ √n of it.
pub(super) fn louder_than(points: usize, standard_errors: f64) -> f64 {
    1.0 + standard_errors * 1.17 / (points as f64).sqrt()
}

/// The same of a standard deviation, whose standard error is 1 ÷ √(2 n), and twice that.
pub(super) fn noisier_than(points: usize) -> f64 {
    1.0 + 2.0 / (2.0 * points as f64).sqrt()
}
