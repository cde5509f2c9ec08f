//! One series drawn: its points, its levels, and where they change.

use judge::{
    compare::Verdict,
    trend::{ChangePoint, Point},
};

use super::{Series, axis, interval, ratio, revision, time};
use crate::{
    format::Quantity,
    svg::{
        self, Anchor, Canvas, DrawError, Names, SMALL, Shape,
        axis::{left, left_width, unit_of},
        ink::Ink,
        measure,
        place::{self, Area, Wish},
        rows::WIDTH,
        scale::{self, Scale},
    },
};

const HEIGHT: f64 = 250.0;
const LABELS: f64 = 20.0;
const LOWER: f64 = 22.0;
/// More points than this are a line, not marks.
const MOST_MARKS: usize = 400;
/// Stretches that a line of many points is thinned to.
const STRETCHES: usize = 500;

/// The series as SVG; `number` makes its name unique in the page.
pub(super) fn draw(series: &Series, number: usize) -> Result<String, DrawError> {
    let names = Names {
        id: format!("series-{number}"),
        title: format!("{} · {}", series.title, series.subtitle),
        description: describe(series),
    };
    svg::paint((WIDTH, HEIGHT), &names, |canvas| paint(canvas, series))
}

fn describe(series: &Series) -> String {
    let told = series.changes.iter().map(|found| {
        format!(
            "{} at revision {}: from {} to {}, {}.",
            time(found.timestamp),
            found.revision,
            series.value(found.before),
            series.value(found.after),
            ratio(found)
        )
    });
    let told: Vec<String> = told.collect();
    let changes = if told.is_empty() {
        "No change of level.".to_owned()
    } else {
        told.join(" ")
    };
    format!("{} points. {changes}", series.points.len())
}

fn paint(canvas: &mut Canvas, series: &Series) {
    let upright = Area {
        left: 0.0,
        top: LABELS,
        right: WIDTH,
        bottom: HEIGHT - LOWER,
    };
    let up = value_scale(series, (upright.bottom - 4.0, upright.top + 4.0));
    let quantity = if series.unit.is_empty() {
        series.quantity
    } else {
        Quantity::Plain
    };
    let paper = Area {
        left: left_width(&up, quantity, &upright),
        right: WIDTH - 8.0,
        ..upright
    };
    let times: Vec<f64> = series.points.iter().map(|point| point.timestamp).collect();
    let along = Scale::linear(scale::extent(&times), (paper.left + 6.0, paper.right - 6.0));
    canvas.fill(paper, Ink::Band);
    left(canvas, &paper, &up, quantity);
    axis::lower(canvas, &paper, &along);
    let unit = if series.unit.is_empty() {
        unit_of(&up, quantity)
    } else {
        &series.unit
    };
    let unit = measure::shorten(unit, SMALL, 160.0);
    canvas.text(&unit, (0.0, 8.0), Anchor::Start, SMALL, Ink::Muted);
    let sheet = Sheet {
        series,
        along,
        up,
        paper,
    };
    sheet.intervals(canvas);
    sheet.points(canvas);
    sheet.levels(canvas);
    sheet.labels(canvas);
}

/// All values, the levels, and never so magnified that half a percent looks like a cliff.
fn value_scale(series: &Series, paper: (f64, f64)) -> Scale {
    let values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    let (low, high) = scale::extent(&values);
    let room = ((high - low) * 0.06).max(0.0025 * high.abs().max(low.abs()));
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
        // The least and the greatest of every stretch, in the order in which they came.
        let stretch = points.len().div_ceil(STRETCHES);
        let line: Vec<(f64, f64)> = points
            .chunks(stretch)
            .flat_map(|chunk| {
                let by_value = |a: &&Point, b: &&Point| a.value.total_cmp(&b.value);
                let mut ends: Vec<&Point> =
                    [chunk.iter().min_by(by_value), chunk.iter().max_by(by_value)]
                        .into_iter()
                        .flatten()
                        .collect();
                ends.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
                ends.into_iter()
                    .map(|end| self.place(end))
                    .collect::<Vec<_>>()
            })
            .collect();
        canvas.line_through(&line, Ink::Axis, 1.2, 0.8);
    }

    /// First and last place of the level that begins with a change, or of the first one.
    fn extent(&self, place: Option<usize>) -> Option<(f64, f64)> {
        let changes = &self.series.changes;
        let first = place.map_or(0, |place| changes[place].index);
        let next = place.map_or(0, |place| place + 1);
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
        for (place, change) in self.series.changes.iter().enumerate() {
            let (Some([low, high]), Some((from, to))) = (change.interval, self.extent(Some(place)))
            else {
                continue;
            };
            let ends = [
                self.up.place(change.before * low),
                self.up.place(change.before * high),
            ];
            let area = Area {
                left: from,
                top: ends[0].min(ends[1]),
                right: to,
                bottom: ends[0].max(ends[1]),
            };
            canvas.fill_through(area, self.ink(change), 0.22);
        }
    }

    fn levels(&self, canvas: &mut Canvas) {
        let changes = &self.series.changes;
        let Some(first) = changes.first() else {
            if let (Some(level), Some((from, to))) = (self.median(), self.extent(None)) {
                let y = self.up.place(level);
                canvas.line(&[(from, y), (to, y)], Ink::Series(0), 2.0);
            }
            return;
        };
        if let Some((from, to)) = self.extent(None) {
            let y = self.up.place(first.before);
            canvas.line(&[(from, y), (to, y)], Ink::Series(0), 2.0);
        }
        for (place, change) in changes.iter().enumerate() {
            let Some((from, to)) = self.extent(Some(place)) else {
                continue;
            };
            let y = self.up.place(change.after);
            let hint = self.hint(change);
            canvas.hinted(&hint, |canvas| {
                canvas.line(
                    &[(from, self.paper.top), (from, self.paper.bottom)],
                    self.ink(change),
                    1.4,
                );
                canvas.line(&[(from, y), (to, y)], Ink::Series(0), 2.0);
            });
        }
    }

    fn median(&self) -> Option<f64> {
        let mut values: Vec<f64> = self.series.points.iter().map(|point| point.value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn hint(&self, change: &ChangePoint) -> String {
        format!(
            "{} at {}: {} to {}, {} (95 % interval {}, p {:.1e})",
            time(change.timestamp),
            change.revision,
            self.series.value(change.before),
            self.series.value(change.after),
            ratio(change),
            interval(change),
            change.p
        )
    }

    fn ink(&self, change: &ChangePoint) -> Ink {
        match self.series.verdict(change) {
            Some(Verdict::Regressed) => Ink::Danger,
            Some(Verdict::Improved) => Ink::Series(2),
            _ => Ink::Series(1),
        }
    }

    /// Size and revision of every change above its line, as far as there is room.
    fn labels(&self, canvas: &mut Canvas) {
        let labels: Vec<(f64, String, &ChangePoint)> = self
            .series
            .changes
            .iter()
            .filter_map(|change| {
                let x = self.along.place(change.timestamp) - 3.0;
                let word = match self.series.verdict(change) {
                    Some(Verdict::Regressed) => " regressed",
                    Some(Verdict::Improved) => " better",
                    _ => "",
                };
                let text = format!("{}{word} · {}", ratio(change), revision(change));
                x.is_finite().then_some((x, text, change))
            })
            .collect();
        let strip = Area {
            left: 170.0,
            top: 0.0,
            right: WIDTH,
            bottom: LABELS - 2.0,
        };
        let mut taken: Vec<Area> = Vec::new();
        // The newest first: it is what one came for.
        for (x, text, change) in labels.iter().rev() {
            let short = text.split(" · ").next().unwrap_or(text);
            for text in [text.as_str(), short] {
                let wish = Wish {
                    point: (*x, LABELS / 2.0),
                    size: (measure::width(text, SMALL) + 8.0, SMALL),
                };
                let half = wish.size.0 / 2.0;
                let middle = x.clamp(strip.left + half, strip.right - half);
                let area = place::Area::around((middle, LABELS / 2.0 - 2.0), wish.size.0, SMALL);
                if taken.iter().all(|other| !area.overlaps(other)) {
                    canvas.text(text, area.middle(), Anchor::Middle, SMALL, self.ink(change));
                    taken.push(area);
                    break;
                }
            }
        }
    }
}
