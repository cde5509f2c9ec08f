//! The pictures. A new one is a file here with a `PLOT`, its `mod` line and its place in [`ALL`].

pub(crate) mod batches;
pub(crate) mod card;
pub(crate) mod forest;
mod held;
mod judged;
mod memory;
mod modules;
mod monitor;
mod pareto;
mod plot;
mod stacked;
mod steps;
mod sweep;
mod throughput;
mod time;
mod timeline;

use crate::model::View;
pub use modules::attribution;
use plot::Drawing;
pub(crate) use plot::Plot;

/// Every picture, in the order of the report.
pub(crate) const ALL: &[Plot] = &[
    forest::PLOT,
    throughput::PLOT,
    memory::PLOT,
    pareto::PLOT,
    timeline::PLOT,
    held::PLOT,
    sweep::PLOT,
    modules::PLOT,
    steps::PLOT,
    time::STEP,
    monitor::PLOT,
    time::RUN,
    time::HARNESS,
];

/// Which of the metrics that the suites ask for a picture shows best, by their order.
pub(crate) fn place_asked(view: &View, plot: &Plot) -> Option<usize> {
    let mut asked = view.asked().into_iter();
    asked.position(|metric| plot.answers.contains(&metric.name))
}

/// Every picture, those first that answer what the suites ask.
pub(crate) fn in_order(view: &View) -> Vec<&'static Plot> {
    let asked = |plot: &Plot| place_asked(view, plot);
    let mut plots: Vec<&Plot> = ALL.iter().collect();
    plots.retain(|plot| !view.is_large() || !plot.is_detail || asked(plot).is_some());
    let place = |plot: &Plot| asked(plot).unwrap_or(usize::MAX);
    plots.sort_by_key(|plot| (plot.id != forest::PLOT.id, place(plot)));
    plots
}
