//! Charts as data: rows on scales, x–y panels, or a tree. Whoever declares one says what there is to
//! see; how it is laid out and drawn, its table and its description follow from that.
//!
//! One drawing serves wide and narrow pages, light, dark and paper: labels are above what they are
//! about, and a page puts as many drawings side by side as it has room for.

mod axis;
mod frame;
mod layers;
mod panels;
mod rows;
mod swept;
mod tree;

use askama::Template;

pub(crate) use self::{
    axis::{Axis, extent, extremes, written},
    panels::{Layer, Panel, Panels, Reading, Spot},
    rows::{Lane, Row, Rows, Track},
    swept::{Curve, Swept},
    tree::{Node, Tree},
};
use crate::{
    document::{Cell, Column, Kind, Picture, Table, known},
    svg::{Look, Svg, ink::Ink},
    words::format::UNKNOWN,
};

/// A chart, and what is written around it.
#[derive(Debug, Default)]
pub(crate) struct Chart {
    /// Its heading: a scenario's name.
    pub(crate) heading: String,
    pub(crate) subtitle: String,
    /// Of a chart that is about one cell, its place in the table of cells.
    pub(crate) row: Option<usize>,
    /// What calls for attention beside it.
    pub(crate) remark: Option<String>,
    /// What explains a part of it, below it.
    pub(crate) note: Option<String>,
    /// What it shows in words and as a table.
    pub(crate) entries: Vec<Entry>,
    pub(crate) body: Body,
    /// Whether the drawing cannot be read without its table.
    pub(crate) is_open: bool,
}

#[derive(Debug)]
pub(crate) enum Body {
    Rows(Rows),
    Panels(Panels),
    Tree(Tree),
}

impl Default for Body {
    fn default() -> Self {
        Self::Rows(Rows::default())
    }
}

/// One thing that a chart shows, in words.
#[derive(Debug, Default, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// What it comes to, in few words.
    pub(crate) value: String,
    pub(crate) cells: Vec<(Column, Cell)>,
}

impl Entry {
    /// Without a row of a table so far.
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            cells: Vec::new(),
        }
    }

    pub(crate) fn with(
        mut self,
        kind: Kind,
        cells: impl IntoIterator<Item = (&'static str, Cell)>,
    ) -> Self {
        let cells = cells.into_iter();
        self.cells
            .extend(cells.map(|(head, cell)| (kind.column(head), cell)));
        self
    }

    pub(crate) fn numbers(
        self,
        numbers: impl IntoIterator<Item = (&'static str, Option<String>)>,
    ) -> Self {
        let numbers = numbers.into_iter();
        self.with(
            Kind::Number,
            numbers.map(|(head, text)| (head, known(text))),
        )
    }

    /// For those who cannot see the drawing.
    fn told(&self) -> String {
        format!("{}: {}.", self.name, self.value)
    }

    pub(crate) fn hint(&self) -> String {
        let numbers = self.cells.iter().filter(|(column, cell)| {
            column.kind == Kind::Number && cell.text != UNKNOWN && !self.value.contains(&cell.text)
        });
        let numbers = numbers.map(|(column, cell)| format!(", {} {}", column.head, cell.text));
        format!(
            "{}: {}{}",
            self.name,
            self.value,
            numbers.collect::<String>()
        )
    }
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) ink: Ink,
    /// Its shape, as a character.
    pub(crate) sign: &'static str,
    pub(crate) label: String,
}

impl Key {
    pub(crate) fn of(ink: Ink, sign: &'static str, label: &str) -> Self {
        Self {
            ink,
            sign,
            label: label.to_owned(),
        }
    }

    pub(crate) fn mark(look: Look, label: &str) -> Self {
        Self::of(look.ink, look.shape.sign(), label)
    }

    pub(crate) fn area(ink: Ink, label: &str) -> Self {
        Self::of(ink, "■", label)
    }

    /// Those whose labels are not among the keys yet.
    pub(crate) fn add(keys: &mut Vec<Self>, more: impl IntoIterator<Item = Self>) {
        for key in more {
            if keys.iter().all(|known| known.label != key.label) {
                keys.push(key);
            }
        }
    }
}

impl Chart {
    pub(crate) fn rows(scales: Vec<(Axis, f64)>, rows: Vec<Row>) -> Self {
        let lanes = rows.iter().flat_map(|row| &row.lanes);
        Self {
            entries: lanes.map(|lane| lane.entry.clone()).collect(),
            body: Body::Rows(Rows { scales, rows }),
            ..Self::default()
        }
    }

    pub(crate) fn panels(
        entries: Vec<Entry>,
        (columns, height): (usize, f64),
        panels: Vec<Panel>,
    ) -> Self {
        Self {
            entries,
            body: Body::Panels(Panels {
                columns,
                height,
                panels,
            }),
            ..Self::default()
        }
    }

    /// The drawing; hints show what is under the pointer.
    pub(crate) fn draw(&self, has_hints: bool) -> Svg {
        match &self.body {
            Body::Rows(rows) => rows.draw(&rows.rows, has_hints),
            Body::Panels(panels) => panels.draw(has_hints),
            Body::Tree(tree) => tree.draw(has_hints),
        }
    }

    /// The drawing in pieces: many rows are two, which a wide page has side by side.
    fn pieces(&self, has_hints: bool) -> Vec<Svg> {
        match &self.body {
            Body::Rows(rows) => {
                let halves = rows.halves().into_iter();
                halves.map(|half| rows.draw(half, has_hints)).collect()
            }
            _ => vec![self.draw(has_hints)],
        }
    }

    pub(crate) fn description(&self) -> String {
        let told = self.entries.iter().map(Entry::told);
        told.collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn table(&self) -> Option<Table> {
        table(&self.entries)
    }

    /// The `svg` elements, with IDs made of the picture's and their number there.
    pub(crate) fn html(&self, picture: &Picture, number: usize) -> String {
        let plot = &picture.id;
        let pieces = self.pieces(picture.has_hints).into_iter().enumerate();
        let elements = pieces.map(|(piece, svg)| {
            let element = Element {
                id: match piece {
                    0 => format!("{plot}-{number}"),
                    _ => format!("{plot}-{number}-{}", piece + 1),
                },
                title: picture.title,
                // The first says all.
                description: if piece == 0 {
                    self.description()
                } else {
                    "Continued.".to_owned()
                },
                svg,
                chart: self,
            };
            element.to_string()
        });
        elements.collect()
    }
}

/// What these entries know, a row each and a column for each head.
pub(crate) fn table(entries: &[Entry]) -> Option<Table> {
    let rows = entries.iter().filter(|entry| !entry.cells.is_empty());
    Table::of(rows.map(|entry| entry.cells.clone()).collect())
}

#[derive(Template)]
#[template(path = "drawing.html")]
struct Element<'a> {
    id: String,
    title: &'a str,
    description: String,
    svg: Svg,
    chart: &'a Chart,
}
