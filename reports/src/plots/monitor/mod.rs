//! What was seen from outside while a run went on: small panels over time.

mod chosen;
mod traces;

use protocol::Phase;
use record::{Record, Series, thinned};

use self::traces::{Panel, Trace, panels};
use super::{Drawing, Plot};
use crate::{
    charts::{self, Axis, Chart, Entry, Key, Layer, Reading},
    facets,
    model::{View, is_contaminated, time},
    svg::{Dashes, ink::Ink},
    words::format::{self, Quantity},
};

pub(super) const PLOT: Plot = Plot {
    id: "monitor",
    title: "Monitors",
    about: "The run with the median throughput of each cell, sampled from outside the workload. \
            Warm-up and measured steps are shaded, as near as the phases' lengths allow. Where many \
            samples fall on one place, the least and the greatest are drawn. Panels of one \
            quantity in a scenario share a scale; of very many cells one of each scenario is drawn. Contaminated attempts follow their cell; no \
            metric and no verdict uses them.",
    answers: &[],
    is_detail: false,
    draw,
};

const HEIGHT: f64 = 46.0;
/// Samples drawn of one trace, and of all traces of the page together as far as that leaves
/// [`FEWEST`] for each: about ten bytes of the page a sample.
const MOST: usize = 120;
const IN_ALL: usize = 300_000;
const FEWEST: usize = 16;

/// What a cell is called, its place in the report, and a run of it.
type Run<'a> = (String, usize, &'a Record);

fn draw(view: &View) -> Drawing {
    let most = if view.is_large() { 1 } else { usize::MAX };
    let chosen = |group| chosen::of(view, group).into_iter().take(most).collect();
    let all: Vec<Vec<Run>> = view.groups.iter().map(chosen).collect();
    let runs = || all.iter().flatten().map(|(.., run)| *run);
    let traces = panels().flat_map(|panel| runs().flat_map(move |run| panel.of(run)));
    let most = (IN_ALL / traces.count().max(1)).clamp(FEWEST, MOST);
    let mut keys = vec![
        Key::area(Ink::Axis, "warm-up, roughly"),
        Key::area(Ink::Grid, "measured steps, roughly"),
    ];
    if runs().any(|run| run.monitor.gpus.iter().any(|gpu| !gpu.intervals.is_empty())) {
        let label = "along the top: the GPU was throttled or shared; hover for the reason";
        keys.push(Key::area(Ink::Rule, label));
    }
    if runs().any(is_contaminated) {
        keys.push(Key::area(Ink::Danger, "the same in a contaminated attempt"));
    }
    let charts = all.iter().flat_map(|runs| charts_of(view, runs, most));
    (keys, charts.collect())
}

/// A chart for each of these runs of a scenario, each trace with so many samples.
fn charts_of(view: &View, runs: &[Run], most: usize) -> Vec<Chart> {
    let is_known = |panel: &Panel| runs.iter().any(|(.., run)| panel.is_known(run));
    let known = panels().filter(is_known);
    let panels: Vec<(Panel, Axis)> = known.map(|panel| (panel, panel.axis(runs))).collect();
    let chart = |(label, cell, run): &Run| {
        let entries = panels.iter().flat_map(|(panel, _)| {
            let traces = panel.of(run);
            traces.map(|(trace, series)| panel.entry(trace, series))
        });
        let drawn = panels.iter();
        let drawn = drawn.map(|(panel, up)| panel.draw(run, up.clone(), most));
        let reasons = run.validity.contamination.join("; ");
        let remark = format::clean(&format!("contaminated: {reasons}"));
        Chart {
            heading: label.clone(),
            row: facets::row_of(view, *cell),
            subtitle: chosen::details(run),
            remark: Some(remark).filter(|_| !reasons.is_empty()),
            ..Chart::panels(entries.collect(), (2, HEIGHT), drawn.collect())
        }
    };
    let runs = runs.iter().filter(|_| !panels.is_empty());
    runs.map(chart).collect()
}

impl Panel {
    fn axis(self, runs: &[Run]) -> Axis {
        let series = runs.iter().flat_map(|(.., run)| self.of(run));
        let most = series.map(|(_, series)| series.maximum);
        let at_least = match self.quantity() {
            Quantity::Percent => 100.0,
            Quantity::Cores | Quantity::Plain => 1.0,
            _ => 0.0,
        };
        let most: Vec<f64> = most.chain([at_least]).collect();
        Axis::from_zero("", self.quantity(), &most)
    }

    /// What a run has of it, each trace with so many samples.
    fn draw(self, run: &Record, up: Axis, most: usize) -> charts::Panel {
        let phases = [
            (Phase::Warmup, Ink::Axis, 0.25),
            (Phase::Measure, Ink::Grid, 1.0),
        ];
        let phases = phases.into_iter().filter_map(|(phase, ink, opacity)| {
            let along = stretch_of(run, phase)?;
            Some(Layer::area(Some(along), None, (ink, opacity)))
        });
        let traces = || self.of(run);
        let lines = traces().map(|(one, series)| {
            let line = trace(one.name, series, most, (one.ink, 1.3, one.dashes));
            line.hinted(self.entry(one, series).hint())
        });
        let named: Vec<&Trace> = traces().map(|(trace, _)| trace).collect();
        let named = named.iter().rev().filter(|trace| !trace.name.is_empty());
        let keys = named.map(|trace| (trace.name, trace.ink, trace.dashes));
        let layers = phases.chain(lines).chain(strips(run));
        let seconds = Axis::linear("", Quantity::Seconds, (0.0, length(run)));
        charts::Panel {
            title: self.title().to_owned(),
            caption: if self.is_known(run) {
                String::new()
            } else {
                "not known".to_owned()
            },
            keys: keys.collect(),
            reading: Some(Reading(self.title().to_owned(), "s")),
            ..charts::Panel::of(seconds, up, layers.collect())
        }
    }

    /// A trace in words: `GPU memory (run): mean 5.9 GiB, at most 6.2 GiB`.
    fn entry(self, trace: &Trace, series: &Series) -> Entry {
        let [mean, most] = [series.mean, series.maximum].map(|value| self.quantity().write(value));
        let name = match trace.name {
            "" => self.title().to_owned(),
            name => format!("{} ({name})", self.title()),
        };
        Entry::new(name, format!("mean {mean}, at most {most}"))
    }
}

fn strips(run: &Record) -> impl Iterator<Item = Layer> {
    let is_contaminated = !run.validity.contamination.is_empty();
    let ink = if is_contaminated {
        Ink::Danger
    } else {
        Ink::Rule
    };
    let stretches = run.monitor.gpus.iter().flat_map(|gpu| &gpu.intervals);
    stretches.map(move |stretch| {
        let (from, to) = (stretch.from_seconds, stretch.to_seconds);
        let hint = format!("{}, from {from:.1} s to {to:.1} s", stretch.reason);
        Layer::strip((from, to), ink).hinted(hint)
    })
}

/// How long the axis of time is: the run, or its last sample where that came later.
fn length(run: &Record) -> f64 {
    let series = panels().flat_map(|panel| panel.of(run));
    let ends = series.filter_map(|(_, series)| series.samples.last());
    let sampled = ends.map(|sample| sample.0).fold(0.0, f64::max);
    run.wall_seconds.max(sampled).max(1e-3)
}

/// What was sampled, as a line of at most so many samples.
pub(super) fn trace(name: &str, series: &Series, most: usize, look: (Ink, f64, Dashes)) -> Layer {
    let samples = thinned(&series.samples, most);
    let points = samples.iter().map(|sample| (sample.0, sample.1));
    Layer::line(Some(name), points.collect(), look)
}

/// From when to when a phase went on, in seconds since the run's start; by adding up what went
/// before where a phase does not say when it began.
pub(super) fn stretch_of(run: &Record, phase: Phase) -> Option<(f64, f64)> {
    if let Some(window) = run.window(phase) {
        return Some((window.from, window.to));
    }
    let seconds = time::seconds(run, phase);
    let before: f64 = run
        .phase_seconds
        .range(..phase)
        .map(|(_, seconds)| seconds)
        .sum();
    let begin = run.harness.create_seconds + run.harness.start_seconds + before;
    (seconds > 0.0).then_some((begin, begin + seconds))
}
