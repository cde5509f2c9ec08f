//! One series drawn: its points, its levels, and where they change.

use judge::{
    compare::Verdict,
    trend::{ChangePoint, Point},
};

use super::{Series, axis, interval, ratio, revision, time};
use crate::{
    format::{self, Quantity},
    measure,
    model::Spread,
    svg::{
        Anchor, Area, Canvas, SMALL, Shape, Svg,
        axis::{left, left_width, mark_break, unit_of},
        ink::Ink,
        scale::{self, Scale},
    },
};

const HEIGHT: f64 = 250.0;
const LABELS: f64 = 20.0;
const LOWER: f64 = 22.0;
/// More points than this are a line, not marks.
const MOST_MARKS: usize = 400;

/// What the picture shows, for those who cannot see it.
pub(super) fn describe(series: &Series) -> String {
    let told = series.changes().iter().map(|change| hint(series, change));
    let changes = match told.collect::<Vec<_>>() {
        told if told.is_empty() => "no change".to_owned(),
        told => told.join("; "),
    };
    format::clean(&format!("{} points; {changes}.", series.points.len()))
}

fn hint(series: &Series, change: &ChangePoint) -> String {
    format!(
        "{} at {}: {} to {}, {} (95 % interval {}, p {})",
        time(change.timestamp),
        change.revision,
        series.value(change.before),
        series.value(change.after),
        ratio(change),
        interval(change),
        format::p_value(change.p)
    )
}

/// The series as a drawing.
pub(super) fn draw(series: &Series, width: f64) -> Svg {
    let upright = Area::of((0.0, LABELS), (width, HEIGHT - LOWER));
    let up = value_scale(series, (upright.bottom - 4.0, upright.top + 4.0));
    let quantity = if series.unit.is_empty() {
        series.quantity
    } else {
        Quantity::Plain
    };
    let left_edge = left_width(&up, quantity, &upright);
    let paper = Area {
        left: left_edge,
        right: width - 8.0,
        ..upright
    };
    let times: Vec<f64> = series.points.iter().map(|point| point.timestamp).collect();
    let along = Scale::linear(scale::extent(&times), (paper.left + 6.0, paper.right - 6.0));
    let mut canvas = Canvas::new(width, HEIGHT);
    canvas.fill(paper, Ink::Band);
    left(&mut canvas, &paper, &up, quantity);
    mark_break(&mut canvas, &paper, &up);
    axis::lower(&mut canvas, &paper, &along);
    let unit = if series.unit.is_empty() {
        unit_of(&up, quantity)
    } else {
        &series.unit
    };
    let unit = measure::shorten(unit, SMALL, 160.0);
    let unit_width = measure::width(&unit, SMALL);
    canvas.small(&unit, (0.0, 8.0), Anchor::Start);
    let sheet = Sheet {
        series,
        along,
        up,
        paper,
    };
    sheet.intervals(&mut canvas);
    sheet.points(&mut canvas);
    sheet.levels(&mut canvas);
    sheet.labels(&mut canvas, (unit_width + 10.0, width));
    canvas.finish()
}

/// All values and the levels, and never so magnified that what counts as none fills the picture.
pub(crate) fn value_scale(series: &Series, paper: (f64, f64)) -> Scale {
    let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    let (low, high) = scale::extent(&values);
    let least = 4.0 * series.threshold.max(0.00125) * high.abs().max(low.abs());
    let room = ((high - low) * 0.06).max((least - (high - low)) / 2.0);
    Scale::linear((low - room, high + room), paper)
}

/// A series on its paper.
struct Sheet<'a> {
    series: &'a Series,
    along: Scale,
    up: Scale,
    paper: Area,
}

impl Sheet<'_> {
    fn place(&self, point: &Point) -> (f64, f64) {
        (
            self.along.place(point.timestamp),
            self.up.place(point.value),
        )
    }

    fn points(&self, canvas: &mut Canvas) {
        let points = &self.series.points;
        if points.len() <= MOST_MARKS {
            for point in points {
                let hint = format!(
                    "{}, {}: {}",
                    time(point.timestamp),
                    point.revision,
                    self.series.value(point.value)
                );
                canvas.hinted(&hint, |canvas| {
                    canvas.mark(self.place(point), Shape::Disc, 4.4, Ink::Muted, false);
                });
            }
            return;
        }
        let line: Vec<(f64, f64)> = points.iter().map(|point| self.place(point)).collect();
        canvas.line_through(&scale::extremes(&line, 500), Ink::Axis, 1.2, 0.8);
    }

    /// Both ends of the level that begins with a change, or of the first one.
    fn extent(&self, change: Option<usize>) -> Option<(f64, f64)> {
        let changes = self.series.changes();
        let first = change.map_or(0, |change| changes[change].index);
        let next = change.map_or(0, |change| change + 1);
        let end = changes
            .get(next)
            .map_or(self.series.points.len(), |change| change.index);
        let from = self.series.points.get(first)?;
        let to = self.series.points.get(end.checked_sub(1)?)?;
        Some((
            self.along.place(from.timestamp) - 3.0,
            self.along.place(to.timestamp) + 3.0,
        ))
    }

    /// The interval of every new level, as long as the level.
    fn intervals(&self, canvas: &mut Canvas) {
        for (index, change) in self.series.changes().iter().enumerate() {
            let (Some([low, high]), Some((from, to))) = (change.interval, self.extent(Some(index)))
            else {
                continue;
            };
            let ends = [
                self.up.place(change.before * low),
                self.up.place(change.before * high),
            ];
            let area = Area::of((from, ends[0].min(ends[1])), (to, ends[0].max(ends[1])));
            canvas.fill_through(area, self.ink(change), 0.22);
        }
    }

    fn levels(&self, canvas: &mut Canvas) {
        let changes = self.series.changes();
        let values = self.series.points.iter().map(|point| point.value);
        let first = changes.first().map(|change| change.before);
        let first = first.or_else(|| Some(Spread::of(values)?.median));
        for drift in &self.series.found.drifts {
            let [from, to] = [drift.from, drift.to - 1]
                .map(|place| self.along.place(self.series.points[place].timestamp));
            let ends = [
                (from, self.up.place(drift.before)),
                (to, self.up.place(drift.after)),
            ];
            canvas.line_through(&ends, Ink::Series(1), 2.0, 1.0);
        }
        let drifts_first = self.series.found.drifts.iter().any(|drift| drift.from == 0);
        let first = first.filter(|_| !drifts_first);
        if let (Some(level), Some(ends)) = (first, self.extent(None)) {
            canvas.level(ends, self.up.place(level), Ink::Series(0), 2.0);
        }
        for (index, change) in changes.iter().enumerate() {
            let Some((from, to)) = self.extent(Some(index)) else {
                continue;
            };
            let y = self.up.place(change.after);
            canvas.hinted(&hint(self.series, change), |canvas| {
                let paper = (self.paper.top, self.paper.bottom);
                canvas.upright(from, paper, self.ink(change), 1.4);
                canvas.level((from, to), y, Ink::Series(0), 2.0);
            });
        }
    }

    fn ink(&self, change: &ChangePoint) -> Ink {
        match self.series.verdict(change) {
            Some(Verdict::Regressed) => Ink::Danger,
            Some(Verdict::Improved) => Ink::Series(2),
            _ => Ink::Series(1),
        }
    }

    /// Size and revision of every change above its line, as far as there is room; the newest first,
    /// since it is what one came for.
    fn labels(&self, canvas: &mut Canvas, (left, right): (f64, f64)) {
        let y = LABELS / 2.0 - 2.0;
        let mut taken: Vec<Area> = Vec::new();
        for change in self.series.changes().iter().rev() {
            let word = match self.series.verdict(change) {
                Some(Verdict::Regressed) => " regressed",
                Some(Verdict::Improved) => " improved",
                _ => "",
            };
            let short = format!("{}{word}", ratio(change));
            for text in [format!("{short} · {}", revision(change)), short] {
                let width = measure::width(&text, SMALL) + 8.0;
                let x = self.along.place(change.timestamp) - 3.0;
                let x = x.max(left + width / 2.0).min(right - width / 2.0);
                let area = Area::around((x, y), width, SMALL);
                if taken.iter().all(|other| !area.overlaps(other)) {
                    canvas.text(&text, (x, y), Anchor::Middle, SMALL, self.ink(change));
                    taken.push(area);
                    break;
                }
            }
        }
    }
}
