//! What was seen from outside while a run went on: small panels over time.

mod chosen;
mod traces;

use protocol::Phase;
use record::{Record, Sample, Series, thinned};

use self::{
    chosen::Chosen,
    traces::{PANELS, Panel},
};
use super::{Key, Legend, Picture, Plot, group_drawing};
use crate::{
    model::{View, time},
    svg::{
        Anchor, Canvas, DrawError, SMALL, Shape, TEXT, axis, ink::Ink, measure, place::Area,
        rows::WIDTH, scale::Scale,
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "monitor",
    title: "Seen from outside",
    about: "The run with the median throughput of each cell, sampled by the harness from outside: \
            not what the workload says of itself. Warm-up and measured steps are shaded, as near \
            as the phases' lengths tell. Where many samples fall on one place, the least and the \
            greatest of them are drawn. Panels of one quantity in a scenario share a scale. Tries \
            that something else on the machine contaminated follow their cell; no metric and no \
            verdict rests on them.",
    draw,
};

/// Panels side by side.
const COLUMNS: usize = 5;
const GUTTER: f64 = 16.0;
const TITLE: f64 = 16.0;
const PANEL: f64 = 46.0;
/// Between the rows of panels of one run.
const BETWEEN: f64 = 10.0;
/// Under a run, its axis of time included.
const UNDER: f64 = 34.0;
/// Samples drawn of one trace, and of all traces of the page together as far as that leaves
/// [`FEWEST`] for each: about ten bytes of the page a sample.
const MOST: usize = 120;
const IN_ALL: usize = 300_000;
const FEWEST: usize = 16;
/// Width of a stretch that held at one sample alone.
const NARROWEST: f64 = 2.0;

/// A run with its place.
struct Line<'a> {
    chosen: Chosen<'a>,
    heading: Vec<String>,
    top: f64,
}

/// What all runs of a scenario have in common.
struct Sheet<'a> {
    lines: Vec<Line<'a>>,
    panels: Vec<&'static Panel>,
    columns: usize,
    height: f64,
}

fn draw(view: &View) -> Result<Picture, DrawError> {
    let sheets: Vec<Sheet> = view.groups.iter().map(|group| sheet(chosen::of(view, group))).collect();
    let traces: usize = sheets
        .iter()
        .map(|sheet| sheet.lines.len() * sheet.panels.iter().map(|panel| panel.traces.len()).sum::<usize>())
        .sum();
    let most = (IN_ALL / traces.max(1)).clamp(FEWEST, MOST);
    let mut drawings = Vec::new();
    for (index, (group, sheet)) in view.groups.iter().zip(&sheets).enumerate() {
        if sheet.panels.is_empty() {
            continue;
        }
        let description = describe(sheet);
        let size = (WIDTH, sheet.height);
        drawings.push(group_drawing(&PLOT, group, index, size, &description, |canvas| {
            sheet.draw(canvas, most);
        })?);
    }
    let legends = if drawings.is_empty() { Vec::new() } else { legends(&sheets) };
    Ok(Picture { legends, drawings })
}

fn legends(sheets: &[Sheet]) -> Vec<Legend> {
    let mut keys = vec![
        Key::area(Ink::Band, "about where it warmed up"),
        Key::area(Ink::Grid, "about where steps were measured"),
    ];
    let runs = || sheets.iter().flat_map(|sheet| &sheet.lines).map(|line| &line.chosen);
    if runs().any(|chosen| !chosen.run.monitor.gpu_stretches.is_empty()) {
        keys.push(Key::area(
            Ink::Rule,
            "along the top: the GPU's clocks were held back, or others used it; the pointer says which",
        ));
    }
    if runs().any(Chosen::is_contaminated) {
        keys.push(Key::area(Ink::Danger, "the same in a try that was contaminated"));
    }
    vec![Legend { title: "", keys }]
}

/// Lays the runs out from the top down.
fn sheet(chosen: Vec<Chosen<'_>>) -> Sheet<'_> {
    let is_known = |panel: &&'static Panel| chosen.iter().any(|one| panel.is_known(&one.run.monitor));
    let panels: Vec<&'static Panel> = PANELS.iter().filter(|panel| is_known(panel)).collect();
    let columns = panels.len().clamp(1, COLUMNS);
    let rows = panels.len().div_ceil(columns) as f64;
    let mut top = 4.0;
    let mut lines = Vec::new();
    for one in chosen {
        let room = WIDTH - measure::bold_width(&one.label, TEXT) - 24.0;
        let heading = if room > measure::width(&one.details, SMALL) {
            Vec::new()
        } else {
            measure::wrap(&one.details, SMALL, WIDTH - 16.0)
        };
        let height = TEXT * 1.8 + heading.len() as f64 * SMALL * 1.3
            + rows * (TITLE + PANEL) + (rows - 1.0) * BETWEEN + UNDER;
        lines.push(Line { chosen: one, heading, top });
        top += height;
    }
    Sheet { lines, panels, columns, height: top }
}

impl Sheet<'_> {
    fn draw(&self, canvas: &mut Canvas, most: usize) {
        let columns = self.columns as f64;
        let width = (WIDTH - 8.0 - GUTTER * (columns - 1.0)) / columns;
        // Every panel of a quantity has the same scale, and room for the same labels.
        let ends: Vec<f64> = self.panels.iter().map(|panel| self.end(panel)).collect();
        for line in &self.lines {
            let top = line.draw_heading(canvas);
            let last_row = self.panels.len() - self.columns.min(self.panels.len());
            for (place, (panel, end)) in self.panels.iter().zip(&ends).enumerate() {
                let row = (place / self.columns) as f64;
                let left = 4.0 + (place % self.columns) as f64 * (width + GUTTER);
                let upper = top + row * (TITLE + PANEL + BETWEEN);
                let area = Area { left, top: upper, right: left + width, bottom: upper + TITLE + PANEL };
                let drawn = Drawn { panel, run: line.chosen.run, end: *end, most };
                drawn.draw(canvas, &area, place >= last_row);
            }
        }
    }

    /// Where the scale of a panel ends.
    fn end(&self, panel: &'static Panel) -> f64 {
        let greatest = |line: &Line| {
            let series = panel.of(&line.chosen.run.monitor);
            series.map(|(_, series)| series.maximum).fold(0.0, f64::max)
        };
        let end = self.lines.iter().map(greatest).fold(panel.at_least, f64::max);
        // Room above the greatest, so that its line is whole.
        if end > 0.0 { end * 1.04 } else { 1.0 }
    }
}

impl Line<'_> {
    /// Writes what it is; gives the height at which its panels begin.
    fn draw_heading(&self, canvas: &mut Canvas) -> f64 {
        let Chosen { label, details, .. } = &self.chosen;
        let ink = if self.chosen.is_contaminated() { Ink::Danger } else { Ink::Text };
        let mut y = self.top + TEXT * 0.6;
        canvas.bold(label, (4.0, y), Anchor::Start, TEXT, ink);
        if self.heading.is_empty() {
            let left = measure::bold_width(label, TEXT) + 16.0;
            canvas.text(details, (left, y), Anchor::Start, SMALL, Ink::Muted);
        }
        for words in &self.heading {
            y += SMALL * 1.3;
            canvas.text(words, (4.0, y), Anchor::Start, SMALL, Ink::Muted);
        }
        y + TEXT * 1.2
    }
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
        let upright = Area { top: area.top + TITLE, ..*area };
        let scale = Scale::linear((0.0, self.end), (upright.bottom, upright.top));
        let labels = axis::left_width(&scale, quantity, &upright);
        let paper = Area { left: area.left + labels, right: area.right - 4.0, ..upright };
        self.draw_title(canvas, area, axis::unit_of(&scale, quantity));
        let series: Vec<_> = self.panel.of(&self.run.monitor).collect();
        if series.is_empty() {
            canvas.text("not known", paper.middle(), Anchor::Middle, SMALL, Ink::Muted);
            return;
        }
        let seconds = length(self.run);
        let along = Scale::linear((0.0, seconds), (paper.left, paper.right));
        for (phase, ink) in [(Phase::Warmup, Ink::Band), (Phase::Measure, Ink::Grid)] {
            if let Some((begin, finish)) = stretch_of(self.run, phase) {
                let stretch = Area { left: along.place(begin), right: along.place(finish), ..paper };
                canvas.fill(stretch, ink);
            }
        }
        axis::left(canvas, &paper, &scale, quantity);
        canvas.line(&[(paper.left, paper.bottom), (paper.right, paper.bottom)], Ink::Axis, 1.0);
        if has_axis {
            let y = paper.bottom + 9.0;
            canvas.text("0", (paper.left, y), Anchor::Middle, SMALL, Ink::Muted);
            let end = crate::format::Quantity::Seconds.write(seconds);
            canvas.text(&end, (paper.right, y), Anchor::End, SMALL, Ink::Muted);
        }
        for (trace, series) in series {
            let points = points(&series.samples, &along, &scale, self.most);
            let hint = self.hint(trace.name, series);
            canvas.hinted(&hint, |canvas| match points[..] {
                [] => {}
                [point] => canvas.mark(point, Shape::Disc, 5.0, trace.ink, false),
                _ => canvas.line(&points, trace.ink, 1.3),
            });
        }
        self.draw_stretches(canvas, &along, &paper);
    }

    /// The title with its unit, then the names of the traces in their colours.
    fn draw_title(&self, canvas: &mut Canvas, area: &Area, unit: &str) {
        let y = area.top + 5.0;
        let title = axis::with_unit(self.panel.title, unit);
        canvas.bold(&title, (area.left, y), Anchor::Start, SMALL, Ink::Text);
        let mut left = area.left + measure::bold_width(&title, SMALL) + 8.0;
        for trace in self.panel.traces.iter().rev() {
            let known = (trace.read)(&self.run.monitor).is_some();
            if known && !trace.name.is_empty() {
                canvas.text(trace.name, (left, y), Anchor::Start, SMALL, trace.ink);
                left += measure::width(trace.name, SMALL) + 7.0;
            }
        }
    }

    fn draw_stretches(&self, canvas: &mut Canvas, along: &Scale, paper: &Area) {
        let is_contaminated = !self.run.validity.contamination.is_empty();
        let ink = if is_contaminated { Ink::Danger } else { Ink::Rule };
        for stretch in &self.run.monitor.gpu_stretches {
            let left = along.place(stretch.from_seconds);
            let right = along.place(stretch.to_seconds).max(left + NARROWEST);
            let strip = Area { left, right, top: paper.top - 1.0, bottom: paper.top + 3.0 };
            let hint = format!(
                "{}, from {:.1} s to {:.1} s",
                stretch.reason, stretch.from_seconds, stretch.to_seconds
            );
            canvas.hinted(&hint, |canvas| canvas.fill(strip, ink));
        }
    }

    fn hint(&self, trace: &str, series: &Series) -> String {
        let Panel { title, quantity, .. } = self.panel;
        let name = if trace.is_empty() { String::new() } else { format!(" ({trace})") };
        format!(
            "{}, {title}{name}: {} to {}, mean {}",
            self.run.run,
            quantity.write(series.minimum),
            quantity.write(series.maximum),
            quantity.write(series.mean)
        )
    }
}

/// Places of the samples, those left out that lie on a level line between their neighbours.
fn points(samples: &[Sample], along: &Scale, scale: &Scale, most: usize) -> Vec<(f64, f64)> {
    let all: Vec<(f64, f64)> = thinned(samples, most)
        .iter()
        .map(|sample| (along.place(sample.0), scale.place(sample.1)))
        .collect();
    let level = |a: f64, b: f64| (a - b).abs() < 0.05;
    let is_needed = |place: &usize| {
        let place = *place;
        place == 0
            || place + 1 == all.len()
            || !level(all[place - 1].1, all[place].1)
            || !level(all[place].1, all[place + 1].1)
    };
    (0..all.len()).filter(is_needed).map(|place| all[place]).collect()
}

/// How long the axis of time is: the run, or its last sample where that came later.
fn length(run: &Record) -> f64 {
    let last = |series: &Series| series.samples.last().map_or(0.0, |sample| sample.0);
    let panels = PANELS.iter().flat_map(|panel| panel.of(&run.monitor));
    let sampled = panels.map(|(_, series)| last(series)).fold(0.0, f64::max);
    run.wall_seconds.max(sampled).max(1e-3)
}

/// From when to when a phase went on, in seconds since the run's start, by adding up what went
/// before.
fn stretch_of(run: &Record, phase: Phase) -> Option<(f64, f64)> {
    let seconds = time::seconds(run, phase);
    let earlier = run.phase_seconds.iter().filter(|(other, _)| **other < phase);
    let before: f64 = earlier.map(|(_, seconds)| seconds).sum();
    let begin = run.harness.create_seconds + run.harness.start_seconds + before;
    (seconds > 0.0).then_some((begin, begin + seconds))
}

fn describe(sheet: &Sheet) -> String {
    let of_line = |line: &Line| {
        let of_panel = |panel: &&'static Panel| {
            let told = panel.of(&line.chosen.run.monitor).map(|(trace, series)| {
                let name = if trace.name.is_empty() { String::new() } else { format!(" ({})", trace.name) };
                format!(
                    "{}{name} mean {}, at most {}",
                    panel.title,
                    panel.quantity.write(series.mean),
                    panel.quantity.write(series.maximum)
                )
            });
            told.collect::<Vec<_>>()
        };
        let metrics: Vec<String> = sheet.panels.iter().flat_map(of_panel).collect();
        let contaminated = if line.chosen.is_contaminated() { " (contaminated)" } else { "" };
        format!("{}{contaminated}: {}.", line.chosen.label, metrics.join("; "))
    };
    let told: Vec<String> = sheet.lines.iter().map(of_line).collect();
    told.join(" ")
}
