//! Stacked bars, one for each cell: what several plots are made of.

use std::collections::BTreeSet;

use metrics::Metric;

use super::plot::{Drawing, by_group, rows};
use crate::{
    charts::{Axis, Chart, Entry, Key, Track},
    model::{CellSummary, Group, View},
    svg::{Look, Shape, ink::Ink},
    words::{self, format::Quantity},
};

/// Marks and limits up to so many times the longest bar widen the scale; those beyond do not.
const MARK_WIDENS: f64 = 2.0;
const LIMIT_WIDENS: f64 = 1.6;
/// A bar more than so many times the median one is broken, or it would press the others together.
const BROKEN: f64 = 4.0;

pub(super) struct Part {
    ink: Ink,
    label: &'static str,
    /// Its length in a cell's bar; left out where unknown or not above 0.
    length: Length,
}

pub(super) enum Length {
    Median(&'static Metric),
    Time(&'static str),
    Of(fn(&CellSummary) -> Option<f64>),
}

pub(super) const fn part(ink: u8, label: &'static str, length: Length) -> Part {
    Part {
        ink: Ink::Part(ink),
        label,
        length,
    }
}

impl Part {
    fn of(&self, cell: &CellSummary) -> Option<f64> {
        let length = match self.length {
            Length::Median(metric) => cell.metrics.median(metric),
            Length::Time(name) => cell.time.as_ref()?.parts.get(name).copied(),
            Length::Of(read) => read(cell),
        };
        length.filter(|length| *length > 0.0)
    }
}

pub(super) struct Stacked {
    /// The parts of a bar from the left, which is the order of the legend.
    pub(super) parts: &'static [Part],
    pub(super) quantity: Quantity,
    pub(super) axis: &'static str,
    /// The legend's word for what is marked beside a bar, and how it is found.
    pub(super) mark: Option<(&'static str, FindMark)>,
    /// What the table has besides, under the metrics' labels.
    pub(super) beside: &'static [&'static Metric],
    pub(super) limits: Option<fn(&View, &Group) -> Vec<Limit>>,
}

/// What bars, or parts of them, must not exceed.
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) value: f64,
    /// What of a cell's bar it does not count: a bar reaches its limit there and that far on.
    pub(super) beside: Option<fn(&CellSummary) -> Option<f64>>,
}

type FindMark = fn(&CellSummary) -> Option<Mark>;

/// A value beside a bar's, and what made it.
pub(super) struct Mark {
    pub(super) value: f64,
    pub(super) cause: Option<String>,
}

const MARK: Look = Look::of(Ink::Text, Shape::Diamond);

type Stack = Vec<(&'static Part, f64)>;

fn total(stack: &Stack) -> f64 {
    stack.iter().map(|(_, value)| value).sum()
}

impl Stacked {
    pub(super) fn draw(&self, view: &View) -> Drawing {
        let (_, charts) = by_group(view, |group| self.chart(view, group));
        let cells = || view.report.cells.iter();
        let is_used = |part: &&Part| {
            let mut stacks = cells().map(|cell| self.stack(cell));
            stacks.any(|stack| stack.iter().any(|(other, _)| other.label == part.label))
        };
        let parts = self.parts.iter().filter(is_used);
        let parts = parts.map(|part| Key::area(part.ink, part.label));
        let is_marked = cells().any(|cell| self.marked(cell).is_some());
        let mark = self.mark.filter(|_| is_marked);
        let mark = mark.map(|(label, _)| Key::of(Ink::Text, "◇", label));
        (parts.chain(mark).collect(), charts)
    }

    fn stack(&self, cell: &CellSummary) -> Stack {
        let parts = self.parts.iter();
        parts
            .filter_map(|part| Some((part, part.of(cell)?)))
            .collect()
    }

    fn marked(&self, cell: &CellSummary) -> Option<Mark> {
        let (_, find) = self.mark?;
        find(cell)
    }

    fn chart(&self, view: &View, group: &Group) -> Option<Chart> {
        let cells = || group.cells().map(|cell| &view.report.cells[cell]);
        let totals: Vec<f64> = cells().map(|cell| total(&self.stack(cell))).collect();
        let known = || totals.iter().copied().filter(|total| *total > 0.0);
        let broken_from = judge::median(known())? * BROKEN;
        let longest = known().filter(|total| *total <= broken_from);
        let longest = longest.fold(0.0, f64::max);
        let limits = self.limits.map(|of| of(view, group)).unwrap_or_default();
        let is_near = |limit: &&Limit| limit.value <= LIMIT_WIDENS * longest;
        let near: Vec<&Limit> = limits.iter().filter(is_near).collect();
        let marks = cells().filter_map(|cell| Some(self.marked(cell)?.value));
        let marks = marks.filter(|value| *value <= MARK_WIDENS * longest);
        let ends = |limit: &&Limit| cells().map(|cell| limit.end(cell)).fold(0.0, f64::max);
        let reached = [longest].into_iter().chain(marks);
        let reached: Vec<f64> = reached.chain(near.iter().map(ends)).collect();
        let rows = rows(view, group, |_, cell, entry| {
            let cell = &view.report.cells[cell];
            let stack = self.stack(cell);
            let near = near.iter();
            let strokes = near.map(|limit| (limit.end(cell), Ink::Danger)).collect();
            let mark = self.marked(cell);
            let track = Track {
                parts: stack
                    .iter()
                    .map(|(part, value)| (part.ink, *value))
                    .collect(),
                marks: mark
                    .iter()
                    .map(|mark| (mark.value, MARK.hollow(true)))
                    .collect(),
                strokes,
                ..Track::default()
            };
            let told = || self.told(cell, &stack, mark.as_ref(), entry);
            (!stack.is_empty()).then(|| (told(), vec![track]))
        });
        let broken = known().any(|total| total > broken_from);
        let axis = Axis::from_zero(self.axis, self.quantity, &reached);
        let notes: Vec<String> = self
            .causes(cells())
            .into_iter()
            .chain(
                limits
                    .iter()
                    .map(|limit| self.limit_in_words(limit, is_near(&limit))),
            )
            .chain(broken.then(|| "Broken bars extend beyond the axis.".to_owned()))
            .collect();
        Some(Chart {
            note: (!notes.is_empty()).then(|| notes.join(" ")),
            ..Chart::rows(vec![(axis, 1.0)], rows)
        })
    }

    fn told(&self, cell: &CellSummary, stack: &Stack, mark: Option<&Mark>, entry: Entry) -> Entry {
        let write = |value: f64| self.quantity.write(value);
        let sum = write(total(stack));
        let value = match mark {
            Some(mark) => format!("{sum} ◇ {}", write(mark.value)),
            None => sum.clone(),
        };
        let parts = stack
            .iter()
            .map(|(part, value)| (part.label, Some(write(*value))));
        let mark = self.mark.zip(mark);
        let mark = mark.map(|((label, _), mark)| (label, Some(write(mark.value))));
        let beside = self.beside.iter().filter_map(|metric| {
            let value = cell.metrics.median(metric)?;
            Some((metric.label, Some(words::metric::value(metric.name, value))))
        });
        let numbers = parts.chain([("sum", Some(sum))]).chain(mark);
        Entry { value, ..entry }.numbers(numbers.chain(beside))
    }

    /// What made the marked values of a group, each cause once.
    fn causes<'a>(&self, cells: impl Iterator<Item = &'a CellSummary>) -> Option<String> {
        let (label, _) = self.mark?;
        let causes = cells.filter_map(|cell| self.marked(cell)?.cause);
        let causes: Vec<_> = causes.collect::<BTreeSet<_>>().into_iter().collect();
        (!causes.is_empty()).then(|| format!("◇ {label}: {}.", causes.join("; ")))
    }

    fn limit_in_words(&self, limit: &Limit, is_drawn: bool) -> String {
        let beside = match (is_drawn, limit.beside) {
            (true, None) => ", the red stroke",
            (true, Some(_)) => ", the red stroke: it does not count what is outside the allocator",
            (false, _) => ", beyond the axis",
        };
        format!(
            "{}: {}{beside}.",
            limit.name,
            self.quantity.write(limit.value)
        )
    }
}

impl Limit {
    /// Where the bar of a cell reaches it.
    pub(super) fn end(&self, cell: &CellSummary) -> f64 {
        let beside = self.beside.and_then(|beside| beside(cell));
        self.value + beside.unwrap_or(0.0)
    }
}
