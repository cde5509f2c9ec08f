//! The panels of versions on paper, all on two scales.

use judge::compare::Interval;

use super::{Panel, Point, Trace};
use crate::{
    format::Quantity,
    measure,
    svg::{
        Anchor, Area, Canvas, LEADING, SMALL, Svg, TEXT,
        ink::Ink,
        scale::{Scale, Tick},
    },
};

const MOST_COLUMNS: f64 = 4.0;
const LEAST_WIDTH: f64 = 240.0;
/// Between panels.
const GAP: f64 = 22.0;
const HEIGHT: f64 = 70.0;
/// A caption above its plot.
const CAPTION: f64 = 20.0;
/// The versions under a panel.
const FOOT: f64 = 20.0;
/// The scales reach at least so many noise thresholds.
const LEAST_THRESHOLDS: f64 = 4.0;
/// Intervals reach at most so many times as far as the marks.
const FARTHEST_INTERVAL: f64 = 1.2;

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// Percent that all panels have in common: their marks, and as much of their intervals as does not
/// press the marks together.
pub(super) fn range(panels: &[Panel], place: usize) -> (f64, f64) {
    let traces = || panels.iter().map(move |panel| &panel.traces[place]);
    let points = || traces().flat_map(|trace| trace.points.iter().flatten());
    let marks = || points().filter_map(|point| point.ratio).map(percent);
    let least = traces().map(|trace| trace.threshold).fold(0.0, f64::max);
    let least = 100.0 * LEAST_THRESHOLDS * least;
    let farthest = marks().map(f64::abs).fold(least, f64::max) * FARTHEST_INTERVAL;
    let ends = points().filter_map(|point| point.interval);
    let ends = ends.flat_map(|ends| [percent(ends.lo), percent(ends.hi)]);
    let ends = ends.map(|end| end.clamp(-farthest, farthest));
    let (low, high) = marks()
        .chain(ends)
        .chain([-least, least])
        .filter(|end| end.is_finite())
        .fold((0.0_f64, 0.0_f64), |(low, high), end| {
            (low.min(end), high.max(end))
        });
    let room = (high - low) * 0.06;
    (low - room, high + room)
}

/// Changes in percent, as many as stand clear of each other, and how they are written.
fn ticks(scale: &Scale) -> Vec<(f64, String)> {
    let of = |count| scale.ticks(Quantity::Percent, count).0;
    let is_clear = |ticks: &Vec<Tick>| {
        let apart = |pair: &[Tick]| scale.place(pair[0].value) - scale.place(pair[1].value);
        ticks.windows(2).all(|pair| apart(pair) >= SMALL * 1.5)
    };
    let clear = (1..=5).rev().map(of).find(is_clear);
    let ticks = clear.unwrap_or_default();
    let label = |tick: Tick| {
        let sign = if tick.value > 0.0 { "+" } else { "" };
        let zero = || "0 %".to_owned();
        let label = format!("{sign}{} %", tick.label);
        (tick.value, if tick.value == 0.0 { zero() } else { label })
    };
    ticks.into_iter().map(label).collect()
}

/// Panels side by side and one below the other.
pub(super) struct Sheet<'a> {
    pub(super) names: &'a [&'a str],
    pub(super) panels: &'a [Panel],
    /// Of throughput and of memory, in percent.
    pub(super) ranges: [(f64, f64); 2],
}

impl Sheet<'_> {
    pub(super) fn draw(&self, width: f64) -> Svg {
        let axis = self.axis_width();
        let slot = self.names.iter().map(|name| measure::width(name, SMALL));
        let slot = slot.fold(0.0, f64::max) + 10.0;
        let wanted = (axis + slot * self.names.len() as f64).max(LEAST_WIDTH) + GAP;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to 4"
        )]
        let columns = ((width + GAP) / wanted).floor().clamp(1.0, MOST_COLUMNS) as usize;
        let each = (width - GAP * (columns - 1) as f64) / columns as f64;
        let label = |panel: &Panel| measure::wrap(&panel.label, TEXT, each - 8.0);
        let labels: Vec<Vec<String>> = self.panels.iter().map(label).collect();
        let heights: Vec<f64> = labels
            .chunks(columns)
            .map(|row| {
                let lines = row.iter().map(Vec::len).max().unwrap_or(1);
                lines as f64 * TEXT * LEADING + 2.0 * (CAPTION + HEIGHT) + FOOT + GAP
            })
            .collect();
        let mut canvas = Canvas::new(width, heights.iter().sum());
        let mut top = 0.0;
        for ((panels, labels), height) in self
            .panels
            .chunks(columns)
            .zip(labels.chunks(columns))
            .zip(heights)
        {
            for (column, (panel, label)) in panels.iter().zip(labels).enumerate() {
                let left = (each + GAP) * column as f64;
                let area = Area::of((left, top), (left + each, top + height - GAP));
                self.panel(&mut canvas, panel, label, area, axis);
            }
            top += height;
        }
        canvas.finish()
    }

    /// What the labels of the left axes take, the same in all panels.
    fn axis_width(&self) -> f64 {
        let scales = self.ranges.map(|range| Scale::linear(range, (HEIGHT, 0.0)));
        let labels = scales.iter().flat_map(ticks);
        let widths = labels.map(|(_, label)| measure::width(&label, SMALL));
        widths.fold(0.0, f64::max) + 8.0
    }

    fn panel(&self, canvas: &mut Canvas, panel: &Panel, label: &[String], area: Area, axis: f64) {
        for (place, trace) in panel.traces.iter().enumerate().rev() {
            let below = (panel.traces.len() - 1 - place) as f64;
            let bottom = area.bottom - FOOT - below * (HEIGHT + CAPTION);
            let paper = Area {
                left: area.left + axis,
                top: bottom - HEIGHT,
                bottom,
                ..area
            };
            let caption = measure::shorten(&trace.caption(), SMALL, area.width());
            let at = (area.left, paper.top - 11.0);
            canvas.small(&caption, at, Anchor::Start);
            let up = Scale::linear(self.ranges[place], (paper.bottom, paper.top));
            self.trace(canvas, trace, &panel.label, &paper, &up);
        }
        self.foot(canvas, &area, axis);
        let middle = area.top + label.len() as f64 * TEXT * LEADING / 2.0;
        canvas.lines(label, (area.left, middle), TEXT, Ink::Text);
    }

    /// Where a version stands on the paper.
    fn along(&self, paper: &Area, place: usize) -> f64 {
        let slots = self.names.len() as f64;
        paper.left + paper.width() * (place as f64 + 0.5) / slots
    }

    fn trace(&self, canvas: &mut Canvas, trace: &Trace, label: &str, paper: &Area, up: &Scale) {
        canvas.fill(*paper, Ink::Band);
        let threshold = 100.0 * trace.threshold;
        let band = Area {
            top: up.place(threshold),
            bottom: up.place(percent(1.0 / (1.0 + trace.threshold))),
            ..*paper
        };
        canvas.fill(band, Ink::Grid);
        for (value, label) in ticks(up) {
            let y = up.place(value);
            let ink = if value == 0.0 { Ink::Axis } else { Ink::Grid };
            canvas.level((paper.left, paper.right), y, ink, 1.0);
            canvas.small(&label, (paper.left - 5.0, y), Anchor::End);
        }
        let spots = trace.points.iter().enumerate();
        let spots = spots.filter_map(|(place, point)| {
            let ratio = point.as_ref()?.ratio?;
            Some((self.along(paper, place), up.place(percent(ratio))))
        });
        let spots: Vec<(f64, f64)> = spots.collect();
        canvas.line(&spots, Ink::Axis, 1.4);
        for (place, point) in trace.points.iter().enumerate() {
            let Some(point) = point else { continue };
            let x = self.along(paper, place);
            let (value, change) = (trace.quantity.write(point.value), point.change());
            let hint = format!(
                "{label}, {} {}: {value}, {change}",
                self.names[place], trace.word
            );
            canvas.hinted(&hint, |canvas| draw_point(canvas, point, x, up));
        }
    }

    /// The versions, as many as stand clear of each other, the oldest and the newest before the
    /// others.
    fn foot(&self, canvas: &mut Canvas, area: &Area, axis: f64) {
        let paper = Area {
            left: area.left + axis,
            ..*area
        };
        let last = self.names.len() - 1;
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for place in [0, last].into_iter().chain(1..last) {
            let half = measure::width(self.names[place], SMALL) / 2.0;
            let x = self.along(&paper, place);
            let x = x.min(area.right - half).max(area.left + half);
            let is_clear =
                |other: &(f64, f64)| x + half + 4.0 < other.0 || other.1 < x - half - 4.0;
            if taken.iter().all(is_clear) {
                let at = (x, area.bottom - FOOT + 11.0);
                canvas.small(self.names[place], at, Anchor::Middle);
                taken.push((x - half, x + half));
            }
        }
    }
}

fn draw_point(canvas: &mut Canvas, point: &Point, x: f64, up: &Scale) {
    let Some(ratio) = point.ratio else { return };
    let (ink, shape, is_hollow) = point.look();
    if let Some(Interval { lo, hi }) = point.interval {
        let ends = [lo, hi].map(percent);
        let (low, high) = up.range();
        let [bottom, top] = ends.map(|end| up.place(end));
        canvas.upright(x, (bottom, top), ink, 1.6);
        for (end, y) in ends.into_iter().zip([bottom, top]) {
            if (low..=high).contains(&end) {
                canvas.level((x - 3.5, x + 3.5), y, ink, 1.6);
            }
        }
    }
    canvas.mark((x, up.place(percent(ratio))), shape, 8.0, ink, is_hollow);
}
