//! GPUs whose rank holds the others up.

use metrics::catalogue;
use record::{Place, Rank, Record};

use super::view::View;
use crate::words::{
    format::{self, plural},
    lists::grouped,
};

/// Fewer runs may have the same rank last by chance.
const FEWEST: usize = 3;
const NAMED: usize = 4;

/// A sentence for each place at which a rank is slower than the others in every run of a cell.
pub(super) fn of(view: &View) -> Vec<String> {
    let cells = 0..view.report.cells.len();
    let found = cells.flat_map(|cell| {
        let slow = slow(&view.good_runs(cell)).into_iter();
        slow.map(move |(place, lags)| (place, (cell, lags)))
    });
    let hosts = view.report.sessions.iter().flat_map(|one| one.hosts.keys());
    let is_one_host = hosts.count() < 2;
    let sentence = |(place, cells): (Place, Vec<(usize, Vec<f64>)>)| {
        let lags = || cells.iter().flat_map(|(_, lags)| lags);
        let [low, high] = [f64::min, f64::max].map(|pick| lags().copied().reduce(pick));
        let [low, high] = [low, high].map(|end| format::change(1.0 + end.unwrap_or(0.0)));
        let place = if is_one_host {
            place.device.to_string()
        } else {
            place.to_string()
        };
        let names = cells.iter().map(|(cell, _)| view.name_of(*cell));
        format!(
            "Slow GPU: {place} takes longer than the other ranks for its own part of a step, in each \
             of {} of {}: {low} to {high} of their median.",
            plural(lags().count(), "run", "runs"),
            format::first_few(names.collect(), NAMED),
        )
    };
    grouped(found).into_iter().map(sentence).collect()
}

/// The ranks that are slower than the median of the others in each of a cell's runs, by more than counts
/// as none, with by how much.
fn slow(runs: &[&Record]) -> Vec<(Place, Vec<f64>)> {
    let first = runs.first().filter(|first| {
        // The stages of a pipeline differ in what they do.
        let way = first.axes.get("parallel").map(String::as_str);
        runs.len() >= FEWEST && way != Some("pipeline")
    });
    let ranks = first.into_iter().flat_map(|first| &first.ranks);
    let slow = ranks.filter_map(|rank| {
        let lag = |run: &&Record| {
            let mut own = run.ranks.iter();
            let own = own.find(|one| one.place == rank.place)?;
            let others = run.ranks.iter().filter(|one| one.rank != own.rank);
            let others = judge::median(others.filter_map(step))?;
            Some(step(own)? / others - 1.0)
        };
        let lags: Option<Vec<f64>> = runs.iter().map(lag).collect();
        let lags = lags?;
        let least = lags.iter().copied().reduce(f64::min)?;
        (least > catalogue::STEP_MEDIAN.threshold).then(|| (rank.place.clone(), lags))
    });
    slow.collect()
}

/// A rank's median step, without the exchange in which it waits for the others.
fn step(rank: &Rank) -> Option<f64> {
    let of = |metric: &metrics::Metric| rank.values.get(metric.name).copied();
    let step = of(&catalogue::STEP_MEDIAN).filter(|step| *step > 0.0)?;
    Some(step * (1.0 - of(&catalogue::EXPOSED_EXCHANGE).unwrap_or(0.0)))
}
