//! What was seen from outside while a run went on: small panels over time.

mod chosen;
mod traces;

pub(super) use chosen::middle_run;

use protocol::Phase;
use record::{Record, Sample, Series, thinned};

use self::{
    chosen::Chosen,
    traces::{PANELS, Panel, Trace},
};
use super::{Drawing, Key, Picture, Plot};
use crate::{
    format, measure,
    model::{Group, View, time},
    svg::{
        Anchor, Area, Canvas, Panel as Frame, SMALL, Shape, Svg, axis, ink::Ink, rows::WIDTH,
        scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "monitor",
    title: "Monitors",
    about: "The run with the median throughput of each cell, sampled from outside the workload. \
            Warm-up and measured steps are shaded, as near as the phases' lengths tell. Where many \
            samples fall on one place, the least and the greatest are drawn. Panels of one \
            quantity in a scenario share a scale; of very many cells one of each scenario is drawn. Contaminated attempts follow their cell; no \
            metric and no verdict uses them.",
    answers: &[],
    is_detail: false,
    draw,
};

/// Panels side by side, and on narrow paper.
const COLUMNS: usize = 5;
const NARROW_COLUMNS: usize = 2;
const GUTTER: f64 = 16.0;
const TITLE: f64 = 16.0;
const PANEL: f64 = 46.0;
/// Between the rows of panels.
const BETWEEN: f64 = 10.0;
/// Under the last row: its axis of time.
const UNDER: f64 = 16.0;
/// Samples drawn of one trace, and of all traces of the page together as far as that leaves
/// [`FEWEST`] for each: about ten bytes of the page a sample.
const MOST: usize = 120;
const IN_ALL: usize = 300_000;
const FEWEST: usize = 16;
/// Width of a stretch that held at one sample alone.
const NARROWEST: f64 = 2.0;

fn draw(view: &View) -> Picture {
    let groups = view.groups.iter();
    let most = if view.is_large() { 1 } else { usize::MAX };
    let all: Vec<(&Group, Vec<Chosen>)> = groups
        .map(|group| (group, chosen::of(view, group)))
        .map(|(group, chosen)| (group, chosen.into_iter().take(most).collect()))
        .collect();
    let runs = || all.iter().flat_map(|(_, chosen)| chosen);
    let traces: usize = runs()
        .map(|one| {
            PANELS
                .iter()
                .map(|panel| panel.of(one.run).count())
                .sum::<usize>()
        })
        .sum();
    // Each is drawn twice: for the page and for a telephone.
    let most = (IN_ALL / (2 * traces).max(1)).clamp(FEWEST, MOST);
    let drawings: Vec<Drawing> = all
        .iter()
        .flat_map(|(group, chosen)| drawings(view, group, chosen, most))
        .collect();
    let mut keys = vec![
        Key::area(Ink::Band, "warm-up, roughly"),
        Key::area(Ink::Grid, "measured steps, roughly"),
    ];
    if runs().any(|one| !one.run.monitor.gpu_intervals.is_empty()) {
        let label = "along the top: the GPU was throttled or shared; hover for the reason";
        keys.push(Key::area(Ink::Rule, label));
    }
    if runs().any(Chosen::is_contaminated) {
        keys.push(Key::area(Ink::Danger, "the same in a contaminated attempt"));
    }
    Picture {
        legend: keys,
        drawings,
    }
}

/// One drawing for each run of a scenario.
fn drawings(view: &View, group: &Group, chosen: &[Chosen], most: usize) -> Vec<Drawing> {
    let is_known = |panel: &&'static Panel| chosen.iter().any(|one| panel.is_known(one.run));
    // Where the scale of a panel ends, with room above the greatest, so that its line is whole.
    let end = |panel: &'static Panel| {
        let series = chosen.iter().flat_map(|one| panel.of(one.run));
        let end = series
            .map(|(_, series)| series.maximum)
            .fold(panel.at_least, f64::max);
        if end > 0.0 { end * 1.04 } else { 1.0 }
    };
    let known = PANELS.iter().filter(is_known);
    let panels: Vec<(&Panel, f64)> = known.map(|panel| (panel, end(panel))).collect();
    if panels.is_empty() {
        return Vec::new();
    }
    chosen
        .iter()
        .map(|one| drawing(view, group, one, &panels, most))
        .collect()
}

fn drawing(
    view: &View,
    group: &Group,
    one: &Chosen,
    panels: &[(&'static Panel, f64)],
    most: usize,
) -> Drawing {
    let told = panels.iter().flat_map(|(panel, _)| {
        panel
            .of(one.run)
            .map(|(trace, series)| panel.say(trace, series))
    });
    let told = told.collect::<Vec<_>>().join("; ");
    Drawing {
        heading: if one.label == group.scenario {
            one.label.clone()
        } else {
            format!("{} {}", group.scenario, one.label)
        },
        subtitle: one.details.clone(),
        remark: one.contamination(),
        ..Drawing::of(view, group, told, |width| {
            sheet(one.run, panels, most, width)
        })
    }
}

fn sheet(run: &Record, panels: &[(&'static Panel, f64)], most: usize, width: f64) -> Svg {
    let columns = if width < WIDTH {
        NARROW_COLUMNS
    } else {
        COLUMNS
    };
    let columns = panels.len().min(columns);
    let rows = panels.len().div_ceil(columns);
    let each = (width - 8.0 + GUTTER) / columns as f64;
    let height = TITLE + PANEL + BETWEEN;
    let mut canvas = Canvas::new(width, rows as f64 * height - BETWEEN + UNDER);
    for (index, (panel, end)) in panels.iter().enumerate() {
        let (left, top) = (
            4.0 + (index % columns) as f64 * each,
            (index / columns) as f64 * height,
        );
        let (right, bottom) = (left + each - GUTTER, top + TITLE + PANEL);
        let has_axis = index + columns >= panels.len();
        let drawn = Drawn {
            panel,
            run,
            end: *end,
            most,
        };
        drawn.draw(
            &mut canvas,
            &Area::of((left, top), (right, bottom)),
            has_axis,
        );
    }
    canvas.finish()
}

/// One panel of one run.
struct Drawn<'a> {
    panel: &'static Panel,
    run: &'a Record,
    end: f64,
    /// Samples of each trace.
    most: usize,
}

impl Drawn<'_> {
    fn draw(&self, canvas: &mut Canvas, area: &Area, has_axis: bool) {
        let quantity = self.panel.quantity;
        let upright = Area {
            top: area.top + TITLE,
            ..*area
        };
        let scale = Scale::linear((0.0, self.end), (upright.bottom, upright.top));
        let labels = axis::left_width(&scale, quantity, &upright);
        let paper = Area {
            left: area.left + labels,
            right: area.right - 4.0,
            ..upright
        };
        self.draw_title(canvas, area, axis::unit_of(&scale, quantity));
        if !self.panel.is_known(self.run) {
            canvas.small("not known", paper.middle(), Anchor::Middle);
            return;
        }
        let seconds = length(self.run);
        let along = Scale::linear((0.0, seconds), (paper.left, paper.right));
        let frame = Frame {
            name: self.panel.title,
            paper,
            along: (&along, "s"),
            up: (&scale, quantity),
        };
        canvas.panel(&frame, |canvas| self.draw_lines(canvas, &frame));
        if has_axis {
            let y = paper.bottom + 9.0;
            canvas.ticks(|canvas| {
                canvas.small("0", (paper.left, y), Anchor::Middle);
                let end = format::seconds(seconds);
                canvas.small(&end, (paper.right, y), Anchor::End);
            });
        }
    }

    /// What moves with the time, behind and before the left axis.
    fn draw_lines(&self, canvas: &mut Canvas, frame: &Frame) {
        let (Frame { paper, .. }, (along, _)) = (frame, frame.along);
        let (scale, quantity) = frame.up;
        for (phase, ink) in [(Phase::Warmup, Ink::Band), (Phase::Measure, Ink::Grid)] {
            if let Some((begin, finish)) = stretch_of(self.run, phase) {
                let (left, right) = (along.place(begin), along.place(finish));
                canvas.fill(
                    Area {
                        left,
                        right,
                        ..*paper
                    },
                    ink,
                );
            }
        }
        canvas.fixed(|canvas| {
            axis::left(canvas, paper, scale, quantity);
            axis::base(canvas, paper);
        });
        for (trace, series) in self.panel.of(self.run) {
            let points = points(&series.samples, along, scale, self.most);
            let hint = self.panel.say(trace, series);
            let line = |canvas: &mut Canvas| match points[..] {
                [] => {}
                [point] => canvas.mark(point, Shape::Disc, 5.0, trace.ink, false),
                _ => canvas.dashed(trace.dashes, |canvas| canvas.line(&points, trace.ink, 1.3)),
            };
            canvas.series(trace.name, |canvas| canvas.hinted(&hint, line));
        }
        self.draw_stretches(canvas, along, paper);
    }

    /// The title with its unit, then the names of the traces in their colours, each over a stroke
    /// of its line: colours are not all that tells them apart.
    fn draw_title(&self, canvas: &mut Canvas, area: &Area, unit: &str) {
        let y = area.top + 6.0;
        let title = axis::with_unit(self.panel.title, unit);
        canvas.bold(&title, (area.left, y), Anchor::Start, SMALL, Ink::Text);
        let mut left = area.left + measure::bold_width(&title, SMALL) + 8.0;
        let traces: Vec<&Trace> = self.panel.of(self.run).map(|(trace, _)| trace).collect();
        for trace in traces.iter().rev().filter(|trace| !trace.name.is_empty()) {
            canvas.text(trace.name, (left, y), Anchor::Start, SMALL, trace.ink);
            let right = left + measure::width(trace.name, SMALL);
            canvas.dashed(trace.dashes, |canvas| {
                canvas.level((left, right), y + 7.5, trace.ink, 1.3);
            });
            left = right + 7.0;
        }
    }

    fn draw_stretches(&self, canvas: &mut Canvas, along: &Scale, paper: &Area) {
        let is_contaminated = !self.run.validity.contamination.is_empty();
        let ink = if is_contaminated {
            Ink::Danger
        } else {
            Ink::Rule
        };
        for stretch in &self.run.monitor.gpu_intervals {
            let (from, to) = (stretch.from_seconds, stretch.to_seconds);
            let left = along.place(from);
            let right = along.place(to).max(left + NARROWEST);
            let (top, bottom) = (paper.top - 1.0, paper.top + 3.0);
            let hint = format!("{}, from {from:.1} s to {to:.1} s", stretch.reason);
            canvas.hinted(&hint, |canvas| {
                canvas.fill(Area::of((left, top), (right, bottom)), ink);
            });
        }
    }
}

/// Places of the samples, those left out that lie on a level line between their neighbours.
fn points(samples: &[Sample], along: &Scale, scale: &Scale, most: usize) -> Vec<(f64, f64)> {
    let place = |sample: &Sample| (along.place(sample.0), scale.place(sample.1));
    let all: Vec<(f64, f64)> = thinned(samples, most).iter().map(place).collect();
    let is_level = |a: usize, b: usize| (all[a].1 - all[b].1).abs() < 0.05;
    let is_between = |index: usize| index > 0 && index + 1 < all.len();
    let is_needed = |&index: &usize| {
        !(is_between(index) && is_level(index - 1, index) && is_level(index, index + 1))
    };
    (0..all.len())
        .filter(is_needed)
        .map(|index| all[index])
        .collect()
}

/// How long the axis of time is: the run, or its last sample where that came later.
fn length(run: &Record) -> f64 {
    let series = PANELS.iter().flat_map(|panel| panel.of(run));
    let ends = series.filter_map(|(_, series)| series.samples.last());
    let sampled = ends.map(|sample| sample.0).fold(0.0, f64::max);
    run.wall_seconds.max(sampled).max(1e-3)
}

/// From when to when a phase went on, in seconds since the run's start; in records of version 1 by
/// adding up what went before.
pub(super) fn stretch_of(run: &Record, phase: Phase) -> Option<(f64, f64)> {
    if let Some(window) = run.window(phase) {
        return Some((window.from, window.to));
    }
    let seconds = time::seconds(run, phase);
    let earlier = run
        .phase_seconds
        .iter()
        .filter(|(other, _)| **other < phase);
    let before: f64 = earlier.map(|(_, seconds)| seconds).sum();
    let begin = run.harness.create_seconds + run.harness.start_seconds + before;
    (seconds > 0.0).then_some((begin, begin + seconds))
}

impl Panel {
    /// A trace in words: `GPU memory (run) mean 5.9 GiB, at most 6.2 GiB`.
    fn say(&self, trace: &Trace, series: &Series) -> String {
        let (mean, most) = (
            self.quantity.write(series.mean),
            self.quantity.write(series.maximum),
        );
        let name = match trace.name {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        format!("{}{name} mean {mean}, at most {most}", self.title)
    }
}
