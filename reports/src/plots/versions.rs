//! Small multiples: what each version of an image did to throughput and memory, a panel a cell.

use judge::compare::Interval;
use metrics::{Metric, catalogue};

use super::{
    Drawing, Key, Picture, Plot,
    forest::{self, NARROW},
};
use crate::{
    document::{self, Cell, Kind, Mark, Table, known},
    format::{self, Quantity},
    measure,
    model::{
        View,
        versions::{self, Versions},
    },
    svg::{
        Anchor, Area, Canvas, LEADING, SMALL, Shape, Svg, TEXT,
        ink::Ink,
        rows::WIDTH,
        scale::{Scale, Tick},
    },
};

pub(super) const PLOT: Plot = Plot {
    id: "versions",
    title: "From version to version",
    about: "Where a session ran three or more versions of an image: one panel a cell, throughput \
            above and peak memory below, the estimated change of each version against the oldest \
            one with its 95 % interval. Above it stand the medians of the oldest and the newest \
            version, which may say otherwise where runs vary widely. All panels have the same two \
            scales. The shaded band is the noise threshold: what lies in it counts as unchanged. A \
            mark without an interval is exact, or rests on one block alone, which shows nothing. An \
            interval that leaves its panel goes on.",
    answers: &[],
    is_detail: false,
    draw,
};

/// Panels of one drawing; the table has the others.
const MOST: usize = 60;
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

/// One cell over the versions.
struct Panel {
    label: String,
    /// Throughput, then memory.
    traces: [Trace; 2],
}

struct Trace {
    word: &'static str,
    quantity: Quantity,
    threshold: f64,
    /// One a version; `None` where it was not measured.
    points: Vec<Option<Point>>,
}

/// A version against the oldest that was measured.
struct Point {
    value: f64,
    ratio: Option<f64>,
    interval: Option<Interval>,
    /// `None`: it is what the others are held against.
    verdict: Option<judge::compare::Verdict>,
}

fn draw(view: &View) -> Picture {
    let drawings = versions::of(view).into_iter().filter_map(|versions| {
        let panels = panels(view, &versions);
        (!panels.is_empty()).then(|| drawing(&versions, &panels))
    });
    let oldest = Key {
        ink: Ink::Text,
        sign: Shape::Disc.sign(),
        label: "oldest version".to_owned(),
    };
    Picture {
        drawings: drawings.collect(),
        legend: [oldest].into_iter().chain(forest::legend(false)).collect(),
    }
}

fn drawing(versions: &Versions, panels: &[Panel]) -> Drawing {
    let names: Vec<&str> = versions.images.iter().map(|(name, _)| &**name).collect();
    let said = panels.iter().map(|panel| panel.describe(&names));
    let shown = &panels[..panels.len().min(MOST)];
    let more = panels.len() - shown.len();
    let sheet = Sheet {
        names: &names,
        panels: shown,
        ranges: [0, 1].map(|place| range(shown, place)),
    };
    Drawing {
        heading: versions.track.clone(),
        subtitle: format!("{} against {}", names[1..].join(", "), names[0]),
        remark: None,
        note: (more > 0).then(|| format!("{more} more cells stand in the table.")),
        description: said.collect::<Vec<_>>().join(" "),
        svg: sheet.draw(WIDTH),
        narrow: Some(sheet.draw(NARROW)),
        table: Some(table(&names, panels)),
        open: false,
    }
}

/// Every cell that at least two of the versions measured.
fn panels(view: &View, versions: &Versions) -> Vec<Panel> {
    let mut found = Vec::new();
    for group in &view.groups {
        let memory = group.footprint(view);
        for row in &group.rows {
            let of_version = |(_, contender): &(String, usize)| {
                let mut cells = row.cells.iter().copied();
                cells.find(|&cell| view.contender_of(cell) == *contender)
            };
            let cells: Vec<Option<usize>> = versions.images.iter().map(of_version).collect();
            let Some(first) = cells.iter().flatten().next() else {
                continue;
            };
            let trace = |word, metric: &'static Metric| Trace::of(view, &cells, word, metric);
            let panel = Panel {
                label: view.short_name(*first),
                traces: [
                    trace("throughput", &catalogue::THROUGHPUT),
                    trace(memory.metric.label, memory.metric),
                ],
            };
            let judged = |trace: &Trace| trace.points.iter().flatten().count() > 1;
            if panel.traces.iter().any(judged) {
                found.push(panel);
            }
        }
    }
    found
}

impl Trace {
    fn of(
        view: &View,
        cells: &[Option<usize>],
        word: &'static str,
        metric: &'static Metric,
    ) -> Self {
        let median = |cell: usize| view.report.cells[cell].metrics.median(metric);
        let mut measured = cells.iter().flatten().copied();
        let base = measured.find(|cell| median(*cell).is_some());
        let mut threshold = metric.threshold;
        let points = cells.iter().map(|cell| {
            let (cell, base) = ((*cell)?, base?);
            let value = median(cell)?;
            let found = view.standings.between(base, cell, metric);
            if let Some(found) = found.filter(|_| cell != base) {
                threshold = found.threshold;
                return Some(Point {
                    value,
                    ratio: found.ratio,
                    interval: found.interval.filter(|_| !found.is_exact),
                    verdict: Some(found.verdict),
                });
            }
            Some(Point {
                value,
                ratio: (cell == base).then_some(1.0),
                interval: None,
                verdict: None,
            })
        });
        Self {
            word,
            quantity: metric.unit.into(),
            points: points.collect(),
            threshold,
        }
    }

    /// The medians of the oldest and the newest version: `throughput: 3863 → 4164 samples/s`.
    fn caption(&self) -> String {
        let mut values = self.points.iter().flatten().map(|point| point.value);
        let first = values.next().map(|value| self.quantity.write(value));
        let last = values.next_back().map(|value| self.quantity.write(value));
        match (first, last) {
            (Some(first), Some(last)) => {
                let unit = first.rsplit(' ').next().unwrap_or_default();
                let is_same = last.ends_with(&format!(" {unit}"));
                let first = first
                    .strip_suffix(unit)
                    .filter(|_| is_same)
                    .map_or(&*first, str::trim);
                format!("{}: {first} → {last}", self.word)
            }
            (Some(only), None) => format!("{}: {only}", self.word),
            _ => format!("{}: not measured", self.word),
        }
    }
}

impl Point {
    fn look(&self) -> (Ink, Shape, bool) {
        match self.verdict {
            None => (Ink::Text, Shape::Disc, false),
            Some(verdict) => forest::sign(verdict.into()),
        }
    }

    fn change(&self) -> String {
        match (self.verdict, self.ratio, self.interval) {
            (None, ..) => "what the others are held against".to_owned(),
            (Some(verdict), Some(ratio), Some(Interval { lo, hi })) => format!(
                "{} ({}), {verdict}",
                format::change(ratio),
                format::interval(lo, hi)
            ),
            (Some(verdict), Some(ratio), None) => format!("{}, {verdict}", format::change(ratio)),
            (Some(verdict), None, _) => verdict.to_string(),
        }
    }
}

impl Panel {
    fn describe(&self, names: &[&str]) -> String {
        let traces = self.traces.iter().map(|trace| {
            let points = trace.points.iter().zip(names);
            let told = points.filter_map(|(point, name)| {
                let point = point.as_ref()?;
                let (value, change) = (trace.quantity.write(point.value), point.change());
                Some(format!("{name} {value}, {change}"))
            });
            let told: Vec<String> = told.collect();
            format!("{}: {}", trace.word, told.join("; "))
        });
        let traces: Vec<String> = traces.collect();
        format!("{}: {}.", self.label, traces.join(". "))
    }
}

fn table(names: &[&str], panels: &[Panel]) -> Table {
    let mut columns = document::columns(Kind::Name, &["cell", "version"]);
    for heads in [
        ["throughput", "change", "95 % interval"],
        ["peak memory", "change of memory", "95 % interval of memory"],
    ] {
        columns.extend(document::columns(Kind::Number, &heads));
        columns.push(Kind::Word.column("verdict"));
    }
    let row = |panel: &Panel, place: usize| {
        let mut row: Vec<Cell> = vec![panel.label.as_str().into(), names[place].into()];
        for trace in &panel.traces {
            let point = trace.points[place].as_ref();
            let change = point.filter(|point| point.verdict.is_some());
            let ratio = change.and_then(|point| point.ratio);
            let ends = change.and_then(|point| point.interval);
            row.extend([
                known(point.map(|point| trace.quantity.write(point.value))),
                known(ratio.map(format::change)),
                known(ends.map(|ends| format::interval(ends.lo, ends.hi))),
            ]);
            let verdict = change.and_then(|point| point.verdict);
            row.push(verdict.map_or_else(Cell::default, |verdict| {
                Cell::from(verdict.to_string()).marked(Mark::from(verdict))
            }));
        }
        row
    };
    let rows = panels
        .iter()
        .flat_map(|panel| (0..names.len()).map(move |place| row(panel, place)));
    Table::new(columns, rows.collect())
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// Percent that all panels have in common: their marks, and as much of their intervals as does not
/// press the marks together.
fn range(panels: &[Panel], place: usize) -> (f64, f64) {
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
struct Sheet<'a> {
    names: &'a [&'a str],
    panels: &'a [Panel],
    /// Of throughput and of memory, in percent.
    ranges: [(f64, f64); 2],
}

impl Sheet<'_> {
    fn draw(&self, width: f64) -> Svg {
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
