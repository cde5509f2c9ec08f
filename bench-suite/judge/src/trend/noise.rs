//! Whether the noise grew: a series of its own, and it may have levels too.

use super::constants::CLIP;
use super::history::changes;
use super::robust;
use super::series::Series;

/// Distances below this share of the noise say no more: without it a value that happens to equal
/// its level would be an outlier of the logarithm.
const LEAST: f64 = 0.1;

/// From where on the noise is larger than before, if it still is at the newest end.
pub(super) fn louder_since(series: &Series, starts: &[usize], alpha: f64) -> Option<usize> {
    let residuals = series.residuals(starts);
    let scale = robust::scale(&residuals, series.y.first().copied()?);
    if scale <= robust::rounding(series.y[0]) {
        return None;
    }
    let sizes = residuals.iter().map(|r| (r.abs() + LEAST * scale).ln());
    let sizes = Series::searched_everywhere(sizes.collect());
    let last = changes(&sizes, alpha).pop()?;
    (last.step() > 0.0).then_some(last.start)
}

/// Marks runs of fewer points than a level has that lie far out, where they are few: where such
/// glitches are common they are the noise.
pub(super) fn glitches(residuals: &[f64], scale: f64, longest: usize) -> Vec<bool> {
    /// In units of the noise: twice as far as a point counts for.
    const FAR: f64 = 2.0 * CLIP;
    /// Points for each glitch: as rare as a false alarm.
    const RARE: usize = 50;
    // Where most values are equal, the others are no glitches: the values are coarse.
    let typical = robust::median(&residuals.iter().map(|r| r.abs()).collect::<Vec<_>>());
    let scale = if typical < 0.5 * scale {
        f64::INFINITY
    } else {
        scale
    };
    let far: Vec<bool> = residuals.iter().map(|r| r.abs() > FAR * scale).collect();
    let mut runs = Vec::new();
    let mut place = 0;
    for run in far.chunk_by(|a, b| a == b) {
        if run[0] {
            runs.push(place..place + run.len());
        }
        place += run.len();
    }
    let rare = runs.len() <= (residuals.len() / RARE).max(1);
    let mut marked = vec![false; residuals.len()];
    for run in runs.into_iter().filter(|run| rare && run.len() <= longest) {
        marked[run].fill(true);
    }
    marked
}
