//! Stacked bars, one for each cell: what several plots are made of.

use std::collections::BTreeSet;

use super::{Drawing, Key, Legend, Picture, describe, drawings, values};
use crate::{
    document::{Table, known},
    format::Quantity,
    measure,
    model::{CellSummary, Group, Spread, View},
    svg::{
        Anchor, Area, Canvas, Shape, TEXT, axis,
        ink::Ink,
        rows::{Rows, WIDTH},
        scale::Scale,
    },
};

const TOP: f64 = 4.0;

/// A part of the bars.
pub(super) struct Part {
    pub(super) ink: Ink,
    pub(super) label: &'static str,
}

/// What the bars show.
pub(super) struct Stacked<'a> {
    /// All parts, in the order of the legend.
    pub(super) parts: &'static [&'static Part],
    /// The parts of a cell's bar from the left, each above 0; none where nothing is known.
    pub(super) stack: &'a dyn Fn(&CellSummary) -> Stack,
    pub(super) quantity: Quantity,
    /// A value as text.
    pub(super) format: fn(f64) -> String,
    /// The title of the axis.
    pub(super) axis: &'static str,
    /// What is said of a cell that has runs, but no bar.
    pub(super) unknown: &'static str,
    /// What is marked beside a cell's bar, and the legend's word for it.
    pub(super) mark: Option<(&'static str, MarkOf<'a>)>,
    /// A bar of no length still has a scale: its end.
    pub(super) least: f64,
}

/// A value beside a bar's, and what it is.
pub(super) struct Mark {
    pub(super) value: f64,
    pub(super) words: String,
    /// What made it.
    pub(super) cause: Option<String>,
}

/// What is marked beside a cell's bar.
type MarkOf<'a> = &'a dyn Fn(&CellSummary) -> Option<Mark>;

/// Marks up to so many times the longest bar widen the scale; those beyond stand at its end.
const WIDEN: f64 = 2.0;

pub(super) type Stack = Vec<(&'static Part, f64)>;

/// The medians of the parts that are known and above 0, in this order.
pub(super) fn medians<const N: usize>(parts: [(&'static Part, Option<Spread>); N]) -> Stack {
    parts
        .into_iter()
        .filter_map(|(part, spread)| Some((part, spread?.median)))
        .filter(|(_, value)| *value > 0.0)
        .collect()
}

fn total(parts: &[(&Part, f64)]) -> f64 {
    parts.iter().map(|(_, value)| value).sum()
}

impl Stacked<'_> {
    pub(super) fn draw(&self, view: &View) -> Picture {
        let stacks: Vec<Stack> = view.report.cells.iter().map(self.stack).collect();
        let drawings = drawings(view, |group| {
            if group.cells().all(|cell| stacks[cell].is_empty()) {
                return None;
            }
            let rows = Rows::of(view, group, TOP);
            let mut canvas = Canvas::new(WIDTH, rows.bottom + axis::LOWER);
            self.draw_group(&mut canvas, view, &rows, &stacks);
            let description = describe(view, group, |cell| {
                let stack = stacks[cell].iter();
                let parts: Vec<_> = stack.map(|(part, value)| self.say(part, *value)).collect();
                Some(parts.join(", "))
            });
            let table = self.table(view, group, &stacks);
            Some(Drawing {
                note: self.causes(view, group),
                table: Some(table),
                ..Drawing::of(group, canvas, description)
            })
        });
        let is_used = |part: &&&Part| {
            let mut all = stacks.iter().flatten();
            all.any(|(other, _)| other.label == part.label)
        };
        let used = self.parts.iter().filter(is_used);
        let mut keys: Vec<Key> = used.map(|part| Key::area(part.ink, part.label)).collect();
        if let Some((label, mark)) = self.mark
            && view.report.cells.iter().any(|cell| mark(cell).is_some())
        {
            keys.push(Key {
                ink: Ink::Text,
                sign: "◇",
                label: label.to_owned(),
            });
        }
        Picture {
            legends: vec![Legend { title: "", keys }],
            drawings,
        }
    }

    fn table(&self, view: &View, group: &Group, stacks: &[Stack]) -> Table {
        let in_group = || group.cells().flat_map(|cell| &stacks[cell]);
        let is_used = |part: &&&Part| in_group().any(|(other, _)| other.label == part.label);
        let used: Vec<_> = self.parts.iter().filter(is_used).collect();
        let mark = self.mark.filter(|(_, mark)| {
            group
                .cells()
                .any(|cell| mark(&view.report.cells[cell]).is_some())
        });
        let heads = used.iter().map(|part| part.label).chain(["sum"]);
        let heads: Vec<_> = heads.chain(mark.map(|(label, _)| label)).collect();
        values(view, group, &heads, |cell| {
            let stack = &stacks[cell];
            let of = |part: &Part| {
                let found = stack.iter().find(|(other, _)| other.label == part.label);
                known(found.map(|(_, value)| (self.format)(*value)))
            };
            let sum = (self.format)(total(stack));
            let all = used.iter().map(|part| of(part)).chain([sum.into()]);
            let all = all.chain(mark.map(|(_, mark)| {
                known(mark(&view.report.cells[cell]).map(|mark| (self.format)(mark.value)))
            }));
            (!stack.is_empty()).then(|| all.collect())
        })
    }

    /// What made the marked values of a group, each cause once.
    fn causes(&self, view: &View, group: &Group) -> Option<String> {
        let (label, _) = self.mark?;
        let cells = group.cells().map(|cell| &view.report.cells[cell]);
        let causes = cells.filter_map(|cell| self.mark_of(cell)?.cause);
        let causes: Vec<_> = causes.collect::<BTreeSet<_>>().into_iter().collect();
        (!causes.is_empty()).then(|| format!("◇ {label}: {}.", causes.join("; ")))
    }

    fn mark_of(&self, cell: &CellSummary) -> Option<Mark> {
        let (_, mark) = self.mark?;
        mark(cell)
    }

    fn say(&self, part: &Part, value: f64) -> String {
        format!("{} {}", part.label.to_lowercase(), (self.format)(value))
    }

    fn draw_group(&self, canvas: &mut Canvas, view: &View, rows: &Rows, stacks: &[Stack]) {
        let totals = || rows.lanes().map(|lane| total(&stacks[lane.cell]));
        let mut value_width = totals()
            .map(|total| measure::bold_width(&(self.format)(total), TEXT))
            .fold(0.0, f64::max);
        if rows
            .lanes()
            .any(|lane| self.mark_of(&view.report.cells[lane.cell]).is_some())
        {
            value_width *= 2.0;
        }
        let bars = Area::of(
            (rows.left, rows.top),
            (WIDTH - value_width - 22.0, rows.bottom),
        );
        let longest = totals().fold(0.0, f64::max);
        let marks = rows
            .lanes()
            .filter_map(|lane| self.mark_of(&view.report.cells[lane.cell]));
        let marks = marks
            .map(|mark| mark.value)
            .filter(|value| *value <= WIDEN * longest);
        let most = marks.fold(longest, f64::max);
        let most = if most > 0.0 { most } else { self.least };
        let scale = Scale::linear((0.0, most), (bars.left, bars.right));
        rows.draw(canvas);
        axis::lower(canvas, &bars, &scale, self.quantity, self.axis);
        for lane in rows.lanes() {
            let cell = &view.report.cells[lane.cell];
            let parts = &stacks[lane.cell];
            if parts.is_empty() {
                let why = if cell.ok == 0 {
                    view.why_nothing(lane.cell)
                } else {
                    self.unknown.into()
                };
                rows.remark(canvas, lane, &why);
                continue;
            }
            let mut from = 0.0;
            for (part, value) in parts {
                let (left, right) = (scale.place(from), scale.place(from + value));
                let area = Area::of((left, lane.y - 7.0), (right, lane.y + 7.0));
                let hint = format!("{}: {}", cell.cell, self.say(part, *value));
                canvas.hinted(&hint, |canvas| canvas.fill(area, part.ink));
                from += value;
            }
            let text = (self.format)(from);
            let at = scale.place(from) + 8.0;
            canvas.bold(&text, (at, lane.y), Anchor::Start, TEXT, Ink::Text);
            if let Some(mark) = self.mark_of(cell) {
                let end = at + measure::bold_width(&text, TEXT) + 10.0;
                let place = scale.place(mark.value.min(most)).max(end);
                let hint = format!("{}: {}", cell.cell, mark.words);
                canvas.hinted(&hint, |canvas| {
                    if mark.value <= most {
                        canvas.mark((place, lane.y), Shape::Diamond, 8.0, Ink::Text, true);
                    } else {
                        canvas.beyond((place, lane.y), true, Ink::Text);
                    }
                    canvas.small(
                        &(self.format)(mark.value),
                        (place + 8.0, lane.y),
                        Anchor::Start,
                    );
                });
            }
        }
    }
}
