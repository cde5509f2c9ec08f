//! Stacked bars, one for each cell: what several plots are made of.

use std::collections::BTreeSet;

use super::{Drawing, Key, Picture, describe, drawings, values};
use crate::{
    comparison,
    document::{Table, known},
    format::Quantity,
    measure,
    model::{CellSummary, Group, View},
    svg::{Anchor, Area, Canvas, Shape, TEXT, axis, ink::Ink, rows::Rows, scale::Scale},
};

const TOP: f64 = 4.0;
/// Marks up to so many times the longest bar widen the scale; those beyond stand at its end.
const WIDEN: f64 = 2.0;
/// Limits up to so many times the longest bar widen the scale; those beyond are told below.
const LIMIT_WIDENS: f64 = 1.6;
/// A bar more than so many times the median one is broken, or it would press the others together.
const BROKEN: f64 = 4.0;

/// A part of the bars.
pub(super) struct Part {
    ink: Ink,
    label: &'static str,
    /// Its length in a cell's bar; left out where unknown or not above 0.
    read: fn(&CellSummary) -> Option<f64>,
}

pub(super) const fn part(
    ink: u8,
    label: &'static str,
    read: fn(&CellSummary) -> Option<f64>,
) -> Part {
    Part {
        ink: Ink::Part(ink),
        label,
        read,
    }
}

/// What the bars show.
pub(super) struct Stacked {
    /// The parts of a bar from the left, which is the order of the legend.
    pub(super) parts: &'static [Part],
    pub(super) quantity: Quantity,
    /// The title of the axis.
    pub(super) axis: &'static str,
    /// The legend's word for what is marked beside a bar, and how it is found.
    pub(super) mark: Option<(&'static str, FindMark)>,
    /// Values that all bars of a group are held against, such as a limit, with their names.
    pub(super) limits: fn(&View, &Group) -> Vec<(String, f64)>,
}

/// No values to hold bars against.
pub(super) fn no_limits(_: &View, _: &Group) -> Vec<(String, f64)> {
    Vec::new()
}

/// Finds what is marked beside the bar of a cell.
type FindMark = fn(&CellSummary) -> Option<Mark>;

/// A value beside a bar's, and what made it.
pub(super) struct Mark {
    pub(super) value: f64,
    pub(super) cause: Option<String>,
}

/// Two slanted strokes of paper across a bar near its end.
fn break_bar(canvas: &mut Canvas, end: f64, y: f64) {
    for x in [end - 16.0, end - 10.0] {
        canvas.line(&[(x - 3.0, y + 9.0), (x + 3.0, y - 9.0)], Ink::Paper, 3.0);
    }
}

type Stack = Vec<(&'static Part, f64)>;

fn total(stack: &Stack) -> f64 {
    stack.iter().map(|(_, value)| value).sum()
}

impl Stacked {
    pub(super) fn draw(&self, view: &View) -> Picture {
        let cells = view.report.cells.iter();
        let stacks: Vec<Stack> = cells.map(|cell| self.stack(cell)).collect();
        let drawings = drawings(view, |group| {
            if group.cells().all(|cell| stacks[cell].is_empty()) {
                return None;
            }
            let limits = (self.limits)(view, group);
            let description = describe(view, group, |cell| {
                let stack = stacks[cell].iter();
                let parts: Vec<_> = stack.map(|(part, value)| self.say(part, *value)).collect();
                Some(parts.join(", "))
            });
            let mut beyond = Vec::new();
            let drawing = Drawing::of(view, group, description, |width| {
                let rows = Rows::of(view, group, TOP, width);
                let mut canvas = Canvas::new(width, rows.bottom + axis::LOWER);
                beyond = self.draw_group(&mut canvas, view, &rows, &stacks, &limits);
                canvas.finish()
            });
            let notes: Vec<String> = self.causes(view, group).into_iter().chain(beyond).collect();
            Some(Drawing {
                note: (!notes.is_empty()).then(|| notes.join(" ")),
                table: Some(self.table(view, group, &stacks)),
                ..drawing
            })
        });
        let used = self.used(stacks.iter()).into_iter();
        let mut keys: Vec<Key> = used.map(|part| Key::area(part.ink, part.label)).collect();
        if let Some((label, _)) = self.mark
            && view
                .report
                .cells
                .iter()
                .any(|cell| self.marked(cell).is_some())
        {
            keys.push(Key {
                ink: Ink::Text,
                sign: "◇",
                label: label.to_owned(),
            });
        }
        Picture {
            legend: keys,
            drawings,
        }
    }

    fn stack(&self, cell: &CellSummary) -> Stack {
        let parts = self.parts.iter();
        let known = parts.filter_map(|part| Some((part, (part.read)(cell)?)));
        known.filter(|(_, value)| *value > 0.0).collect()
    }

    /// The parts that these bars have.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an iterator, cloned for each part"
    )]
    fn used<'a>(&self, stacks: impl Iterator<Item = &'a Stack> + Clone) -> Vec<&'static Part> {
        let has = |stack: &Stack, label| stack.iter().any(|(part, _)| part.label == label);
        let parts = self.parts.iter();
        parts
            .filter(|part| stacks.clone().any(|stack| has(stack, part.label)))
            .collect()
    }

    fn marked(&self, cell: &CellSummary) -> Option<Mark> {
        let (_, mark) = self.mark?;
        mark(cell)
    }

    fn table(&self, view: &View, group: &Group, stacks: &[Stack]) -> Table {
        let used = self.used(
            group
                .cells()
                .map(|cell| &stacks[cell])
                .collect::<Vec<_>>()
                .into_iter(),
        );
        let marked = |cell: usize| self.marked(&view.report.cells[cell]);
        let mark = self
            .mark
            .filter(|_| group.cells().any(|cell| marked(cell).is_some()));
        let heads = used.iter().map(|part| part.label).chain(["sum"]);
        let heads: Vec<_> = heads.chain(mark.map(|(label, _)| label)).collect();
        let write = |value: Option<f64>| known(value.map(|value| self.quantity.write(value)));
        values(view, group, &heads, |cell| {
            let stack = &stacks[cell];
            let of = |part: &&Part| {
                let found = stack.iter().find(|(other, _)| other.label == part.label);
                write(found.map(|(_, value)| *value))
            };
            let all = used.iter().map(of).chain([write(Some(total(stack)))]);
            let all = all.chain(mark.map(|_| write(marked(cell).map(|mark| mark.value))));
            (!stack.is_empty()).then(|| all.collect())
        })
    }

    /// What made the marked values of a group, each cause once.
    fn causes(&self, view: &View, group: &Group) -> Option<String> {
        let (label, _) = self.mark?;
        let cells = group.cells().map(|cell| &view.report.cells[cell]);
        let causes = cells.filter_map(|cell| self.marked(cell)?.cause);
        let causes: Vec<_> = causes.collect::<BTreeSet<_>>().into_iter().collect();
        (!causes.is_empty()).then(|| format!("◇ {label}: {}.", causes.join("; ")))
    }

    fn say(&self, part: &Part, value: f64) -> String {
        format!(
            "{} {}",
            part.label.to_lowercase(),
            self.quantity.write(value)
        )
    }

    /// Draws the bars; what lies beyond the scale comes back in words.
    fn draw_group(
        &self,
        canvas: &mut Canvas,
        view: &View,
        rows: &Rows,
        stacks: &[Stack],
        limits: &[(String, f64)],
    ) -> Vec<String> {
        let lanes: Vec<_> = rows
            .lanes()
            .map(|lane| {
                (
                    lane,
                    &stacks[lane.cell],
                    self.marked(&view.report.cells[lane.cell]),
                )
            })
            .collect();
        let totals = || lanes.iter().map(|(_, stack, _)| total(stack));
        let marks = || {
            lanes
                .iter()
                .filter_map(|(_, _, mark)| Some(mark.as_ref()?.value))
        };
        let mut value_width = totals()
            .map(|total| measure::bold_width(&self.quantity.write(total), TEXT))
            .fold(0.0, f64::max);
        if marks().next().is_some() {
            value_width *= 2.0;
        }
        let bars = Area::of(
            (rows.left, rows.top),
            (rows.width - value_width - 22.0, rows.bottom),
        );
        let known = totals().filter(|total| *total > 0.0);
        let broken_from = judge::median(known).map_or(f64::INFINITY, |median| median * BROKEN);
        let whole = totals().filter(|total| *total <= broken_from);
        let longest = whole.fold(0.0, f64::max);
        let is_near = |limit: &&(String, f64)| limit.1 <= LIMIT_WIDENS * longest;
        let near: Vec<_> = limits.iter().filter(is_near).collect();
        let most = marks()
            .filter(|value| *value <= WIDEN * longest)
            .chain(near.iter().map(|(_, value)| value * 1.02))
            .fold(longest, f64::max);
        let scale = Scale::linear((0.0, most), (bars.left, bars.right));
        let extent = Extent {
            scale: &scale,
            most,
            broken_from,
        };
        rows.draw(canvas);
        axis::lower(canvas, &bars, &scale, self.quantity, self.axis);
        for (lane, stack, mark) in &lanes {
            let cell = &view.report.cells[lane.cell];
            if stack.is_empty() {
                let why = match cell.ok {
                    0 => view.why_nothing(lane.cell),
                    _ => "not measured".to_owned(),
                };
                rows.remark(canvas, lane, &why);
                continue;
            }
            let bar = Bar {
                hint: &comparison::spelled(&cell.cell),
                y: lane.y,
                stack,
                mark: mark.as_ref(),
            };
            self.draw_bar(canvas, &bar, &extent);
        }
        for (name, value) in near {
            let x = scale.place(*value);
            let hint = format!("{name}: {}", self.quantity.write(*value));
            canvas.hinted(&hint, |canvas| {
                canvas.upright(x, (bars.top, bars.bottom), Ink::Danger, 1.6);
            });
        }
        let broken = totals().any(|total| total > broken_from);
        self.in_words(limits, LIMIT_WIDENS * longest, broken)
    }

    /// The limits up to the widest that is drawn, those beyond it, and what a cut bar means.
    fn in_words(&self, limits: &[(String, f64)], widest: f64, is_cut: bool) -> Vec<String> {
        let told = |is_drawn: bool, beside: &'static str| {
            let those = limits
                .iter()
                .filter(move |(_, value)| (*value <= widest) == is_drawn);
            those.map(move |(name, value)| {
                format!("{name}: {}{beside}.", self.quantity.write(*value))
            })
        };
        let cut = is_cut.then(|| {
            "A bar that is cut goes on beyond the scale, to the value beside it.".to_owned()
        });
        let (drawn, far) = (
            told(true, ", the upright line"),
            told(false, ", beyond the scale"),
        );
        drawn.chain(far).chain(cut).collect()
    }

    fn draw_bar(&self, canvas: &mut Canvas, bar: &Bar<'_>, extent: &Extent<'_>) {
        let mut from = 0.0;
        for (part, value) in bar.stack {
            let (left, right) = (extent.scale.place(from), extent.scale.place(from + value));
            let area = Area::of((left, bar.y - 7.0), (right, bar.y + 7.0));
            let hint = format!("{}: {}", bar.hint, self.say(part, *value));
            canvas.hinted(&hint, |canvas| canvas.fill(area, part.ink));
            from += value;
        }
        if from > extent.broken_from {
            break_bar(canvas, extent.scale.place(from), bar.y);
        }
        let text = self.quantity.write(from);
        let at = extent.scale.place(from) + 8.0;
        canvas.bold(&text, (at, bar.y), Anchor::Start, TEXT, Ink::Text);
        if let (Some(Mark { value, .. }), Some((label, _))) = (bar.mark, self.mark) {
            let end = at + measure::bold_width(&text, TEXT) + 10.0;
            let place = (extent.scale.place(value.min(extent.most)).max(end), bar.y);
            let text = self.quantity.write(*value);
            canvas.hinted(&format!("{}: {label} {text}", bar.hint), |canvas| {
                if *value <= extent.most {
                    canvas.mark(place, Shape::Diamond, 8.0, Ink::Text, true);
                } else {
                    canvas.beyond(place, true, Ink::Text);
                }
                canvas.small(&text, (place.0 + 8.0, bar.y), Anchor::Start);
            });
        }
    }
}

/// A bar with its parts, and the mark beside them.
struct Bar<'a> {
    hint: &'a str,
    y: f64,
    stack: &'a Stack,
    mark: Option<&'a Mark>,
}

/// How far bars go.
struct Extent<'a> {
    scale: &'a Scale,
    /// The largest value that has a place.
    most: f64,
    /// Bars above it are cut.
    broken_from: f64,
}
