//! Step times over the run: one small picture a variant, one line a run.

use metrics::catalogue;
use record::Record;

use super::plot::{Drawing, Plot, by_group, entries};
use crate::{
    charts::{Axis, Chart, Entry, Layer, Panel, Reading, Spot, extremes},
    model::{Group, Row, View},
    svg::{Dashes, Look},
    words::format::{self, Quantity},
};

pub(super) const PLOT: Plot = Plot {
    id: "steps",
    title: "Step times over the run",
    about: "One line for each successful run, from its first measured step to its last. A slope \
            means warm-up that was too short or clocks that fall; a comb means something periodic. \
            Each picture has its own scale, logarithmic where steps lie very far apart; two strokes \
            across the axis mark one that does not begin at 0.",
    answers: &["step_median_seconds", "step_p99_seconds"],
    is_detail: true,
    draw,
};

const HEIGHT: f64 = 96.0;

const MOST_POINTS: usize = 300;
const STEPS: &str = "step_seconds";

type Run<'a> = (usize, &'a Record);

fn draw(view: &View) -> Drawing {
    by_group(view, |group| {
        let rows = group.rows.iter().map(|row| (&row.label, runs(view, row)));
        let rows = rows.filter(|(_, runs)| !runs.is_empty());
        let panels: Vec<Panel> = rows.map(|(label, runs)| panel(label, &runs)).collect();
        (!panels.is_empty()).then(|| Chart::panels(told(view, group), (2, HEIGHT), panels))
    })
}

fn told(view: &View, group: &Group) -> Vec<Entry> {
    const QUANTILES: [(&str, f64); 6] = [
        ("least", 0.0),
        ("p10", 0.1),
        ("p50", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("greatest", 1.0),
    ];
    entries(view, group, |cell, entry| {
        let runs = view.good_runs(cell);
        let steps = runs.iter().map(|run| run.series(STEPS).count()).max();
        let times = runs.iter().flat_map(|run| run.series(STEPS));
        let mut times: Vec<f64> = times.filter(|time| time.is_finite()).collect();
        times.sort_by(f64::total_cmp);
        let of = |share| Some(format::seconds(quantile(&times, share)?));
        let value = format!("median step {}, 99 % below {}", of(0.5)?, of(0.99)?);
        let steps = ("steps of a run", steps.map(|steps| steps.to_string()));
        let numbers = [steps].into_iter();
        let numbers = numbers.chain(QUANTILES.map(|(head, share)| (head, of(share))));
        Some(Entry { value, ..entry }.numbers(numbers))
    })
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (share * sorted.len().checked_sub(1)? as f64).round();
    sorted
        .get(usize::try_from(format::whole(place)).ok()?)
        .copied()
}

fn runs<'a>(view: &View<'a>, row: &Row) -> Vec<Run<'a>> {
    let cells = row.cells.iter();
    let runs = cells.flat_map(|&cell| {
        let contender = view.contender_of(cell);
        view.good_runs(cell)
            .into_iter()
            .map(move |run| (contender, run))
    });
    runs.filter(|(_, run)| run.series(STEPS).next().is_some())
        .collect()
}

fn panel(label: &str, runs: &[Run]) -> Panel {
    let times: Vec<f64> = runs.iter().flat_map(|(_, run)| run.series(STEPS)).collect();
    let steps = runs.iter().map(|(_, run)| run.series(STEPS).count());
    let last = steps.max().unwrap_or(1).saturating_sub(1).max(1);
    let threshold = catalogue::STEP_MEDIAN.threshold;
    let is_several = runs.iter().any(|(contender, _)| *contender != runs[0].0);
    let layers = runs.iter().flat_map(|&(contender, run)| {
        let look = Look::series(contender);
        let points = (0_u32..).zip(run.series(STEPS));
        let points: Vec<(f64, f64)> = points.map(|(x, y)| (f64::from(x), y)).collect();
        let steps = format::plural(points.len(), "step", "steps");
        let end = points.last().copied().filter(|_| is_several);
        let points = extremes(&points, MOST_POINTS / 2);
        let line = Layer::line(Some(&run.run), points, (look.ink, 1.3, Dashes::None));
        let line = line.hinted(format!("{}: {steps}", run.run));
        let end = end.map(|at| Layer::mark(Spot::of(at, 6.0, look)));
        [line].into_iter().chain(end)
    });
    Panel {
        title: label.to_owned(),
        reading: Some(Reading(label.to_owned(), "step")),
        ..Panel::of(
            Axis::linear("step", Quantity::Plain, (0.0, last as f64)),
            Axis::close("step time", Quantity::Seconds, &times, threshold),
            layers.collect(),
        )
    }
}
