//! Batch against memory: what a search for the largest batch attempted, and where it ended.

use std::collections::BTreeSet;

use record::fit::{Attempt, Fit, Found};

use super::{Drawing, Key};
use crate::{
    fit::{budget, ended, is_too_large, table, why_no_more},
    format::{self, Quantity, plural},
    measure,
    svg::{
        Anchor, Area, Canvas, LEADING, SMALL, Shape, Svg, TEXT, axis,
        ink::Ink,
        rows::{NARROW, WIDTH},
        scale::Scale,
    },
};

pub(crate) const TITLE: &str = "Batch against memory";
pub(crate) const ABOUT: &str = "One panel for each combination of the axes. A dot is an attempt that \
    fits, at its peak memory; the diamond is the largest batch that fits. An attempt that was too \
    large stands on the line of the limit, where it ran out; one that ended otherwise stands at the \
    bottom.";

/// Combinations of one drawing; the table has the others.
const MOST: usize = 40;
const HEIGHT: f64 = 150.0;
const CAPTION: f64 = 18.0;
const GAP: f64 = 26.0;
/// From this ratio of the largest batch to the least on, their axis is logarithmic.
const FAR: f64 = 30.0;

/// What the marks mean.
pub(crate) fn legend(fit: &Fit) -> Vec<Key> {
    let key = |ink, shape: Shape, label: &str| Key {
        ink,
        sign: shape.sign(),
        label: label.to_owned(),
    };
    vec![
        key(Ink::Series(0), Shape::Disc, "fits"),
        key(Ink::Series(2), Shape::Diamond, "largest that fits"),
        key(Ink::Danger, Shape::Triangle, "too large"),
        key(Ink::Muted, Shape::Square, "ended otherwise"),
        Key {
            ink: Ink::Danger,
            sign: "―",
            label: format!("limit, {}", budget(fit)),
        },
    ]
}

/// A drawing for each image and scenario, with a panel for each combination.
pub(crate) fn drawings(fit: &Fit) -> Vec<Drawing> {
    let mut seen = BTreeSet::new();
    let all = fit.found.iter();
    let names = all.map(|one| (&one.image, &one.scenario));
    let names = names.filter(|name| seen.insert(*name));
    names
        .map(|(image, scenario)| {
            let own = fit.found.iter();
            let own = own.filter(|one| (&one.image, &one.scenario) == (image, scenario));
            let own: Vec<&Found> = own.collect();
            drawing(fit, &own)
        })
        .collect()
}

fn drawing(fit: &Fit, found: &[&Found]) -> Drawing {
    let sheet = Sheet::of(fit, &found[..found.len().min(MOST)]);
    let more = found.len().saturating_sub(MOST);
    let more = (more > 0).then(|| plural(more, "more combination", "more combinations"));
    let said = found.iter().map(|one| describe(one));
    Drawing {
        heading: format::clean(&found[0].scenario),
        subtitle: format::clean(&format!("{} in {}", found[0].model, found[0].image)),
        remark: None,
        note: more.map(|more| format!("{more} in the table.")),
        description: said.collect::<Vec<_>>().join(" "),
        svg: sheet.draw(WIDTH),
        narrow: Some(sheet.draw(NARROW)),
        table: Some(table(found)),
        open: false,
    }
}

/// For a card of an index: the first combination, and what it says.
pub(crate) fn card(fit: &Fit) -> Option<(Svg, String)> {
    let found: Vec<&Found> = fit.found.iter().take(1).collect();
    let first = found.first()?;
    Some((Sheet::of(fit, &found).draw(NARROW), describe(first)))
}

fn describe(found: &Found) -> String {
    let attempts = found.attempts.iter();
    let attempts = attempts.map(|one| format!("batch {} {}", one.batch, ended(one)));
    let attempts: Vec<String> = attempts.collect();
    let text = format!(
        "{}: {}. {}.",
        found.combination,
        caption(found),
        attempts.join("; ")
    );
    format::clean(&text)
}

/// The answer: `largest: 103, peak 187 MiB; out of memory at 109`.
fn caption(found: &Found) -> String {
    let largest = match (found.largest_batch, found.largest_attempt()) {
        (
            Some(batch),
            Some(Attempt {
                peak_bytes: Some(peak),
                ..
            }),
        ) => {
            format!("largest: {batch}, peak {}", format::bytes(*peak as f64))
        }
        (Some(batch), _) => format!("largest: {batch}"),
        (None, _) => "nothing fits".to_owned(),
    };
    format::clean(&format!("{largest}; {}", why_no_more(found)))
}

/// Panels with common scales.
struct Sheet<'a> {
    found: &'a [&'a Found],
    limit: f64,
    batches: Vec<f64>,
    most: f64,
}

impl<'a> Sheet<'a> {
    fn of(fit: &Fit, found: &'a [&'a Found]) -> Self {
        let attempts = || found.iter().flat_map(|one| &one.attempts);
        let limit = fit.memory_bytes as f64;
        let peaks = attempts().filter_map(|one| Some(one.peak_bytes? as f64));
        Self {
            found,
            limit,
            batches: attempts().map(|one| f64::from(one.batch)).collect(),
            most: peaks.fold(limit, f64::max) * 1.06,
        }
    }

    fn draw(&self, width: f64) -> Svg {
        let columns = if width > 2.0 * NARROW && self.found.len() > 1 {
            2
        } else {
            1
        };
        let each = (width - GAP * (columns - 1) as f64) / columns as f64;
        let label =
            |found: &&Found| measure::wrap(&format::clean(&found.combination), TEXT, each - 8.0);
        let labels: Vec<Vec<String>> = self.found.iter().map(label).collect();
        let height = |row: &[Vec<String>]| {
            let lines = row.iter().map(Vec::len).max().unwrap_or(1);
            lines as f64 * TEXT * LEADING + CAPTION + HEIGHT + axis::LOWER + GAP
        };
        let heights: Vec<f64> = labels.chunks(columns).map(height).collect();
        let mut canvas = Canvas::new(width, heights.iter().sum());
        let mut top = 0.0;
        let rows = self.found.chunks(columns).zip(labels.chunks(columns));
        for ((found, labels), height) in rows.zip(heights) {
            for (column, (found, label)) in found.iter().zip(labels).enumerate() {
                let left = (each + GAP) * column as f64;
                let area = Area::of((left, top), (left + each, top + height - GAP));
                self.panel(&mut canvas, found, label, &area);
            }
            top += height;
        }
        canvas.finish()
    }

    fn panel(&self, canvas: &mut Canvas, found: &Found, label: &[String], area: &Area) {
        let bottom = area.bottom - axis::LOWER;
        let upright = Area {
            top: bottom - HEIGHT,
            bottom,
            ..*area
        };
        let up = Scale::linear((0.0, self.most), (upright.bottom, upright.top));
        let paper = Area {
            left: area.left + axis::left_width(&up, Quantity::Bytes, &upright),
            right: area.right - 10.0,
            ..upright
        };
        let along = Scale::from_zero(&self.batches, (paper.left + 6.0, paper.right - 6.0), FAR);
        let middle = area.top + label.len() as f64 * TEXT * LEADING / 2.0;
        canvas.lines(label, (area.left, middle), TEXT, Ink::Text);
        let unit = axis::unit_of(&up, Quantity::Bytes);
        let caption = format!("{unit} · {}", caption(found));
        let caption = measure::shorten(&caption, SMALL, area.width());
        canvas.small(&caption, (area.left, paper.top - 11.0), Anchor::Start);
        canvas.fill(paper, Ink::Band);
        axis::left(canvas, &paper, &up, Quantity::Bytes);
        let title = if along.is_logarithmic() {
            "Batch, logarithmic"
        } else {
            "Batch"
        };
        axis::lower(canvas, &paper, &along, Quantity::Plain, title);
        let limit = up.place(self.limit);
        canvas.level((paper.left, paper.right), limit, Ink::Danger, 1.6);
        let mut fits: Vec<(f64, f64)> = found
            .attempts
            .iter()
            .filter(|one| one.outcome.is_ok())
            .filter_map(|one| {
                Some((
                    along.place(f64::from(one.batch)),
                    up.place(one.peak_bytes? as f64),
                ))
            })
            .collect();
        fits.sort_by(|one, other| one.0.total_cmp(&other.0));
        canvas.line(&fits, Ink::Series(0), 1.4);
        for attempt in &found.attempts {
            let x = along.place(f64::from(attempt.batch));
            let is_answer = found.largest_batch == Some(attempt.batch);
            let hint = format!(
                "{}, batch {}: {}",
                found.combination,
                attempt.batch,
                ended(attempt)
            );
            canvas.hinted(&hint, |canvas| {
                let (shape, size, ink) = match (attempt.outcome.is_ok(), is_too_large(attempt)) {
                    (true, _) if is_answer => (Shape::Diamond, 11.0, Ink::Series(2)),
                    (true, _) => (Shape::Disc, 6.0, Ink::Series(0)),
                    (_, true) => (Shape::Triangle, 8.0, Ink::Danger),
                    _ => (Shape::Square, 7.0, Ink::Muted),
                };
                let y = match (attempt.outcome.is_ok(), is_too_large(attempt)) {
                    (true, _) => attempt.peak_bytes.map(|peak| up.place(peak as f64)),
                    (_, true) => Some(limit),
                    _ => Some(paper.bottom - 5.0),
                };
                if let Some(y) = y {
                    canvas.mark((x, y), shape, size, ink, !attempt.outcome.is_ok());
                }
            });
        }
    }
}
