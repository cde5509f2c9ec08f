//! The pictures. A new one is a file here with a `PLOT`, its `mod` line and its place in [`ALL`].

mod memory;
mod monitor;
mod pareto;
mod stacked;
mod steps;
mod throughput;
mod time;

use askama::Template;

use crate::{
    columns::{named, names},
    document::{self, Cell, Kind, Table},
    model::{Group, View},
    svg::{Canvas, Shape, Svg, ink::Ink},
};

/// Every picture, in the order of the report.
pub(crate) const ALL: [Plot; 8] = [
    throughput::PLOT,
    memory::PLOT,
    pareto::PLOT,
    steps::PLOT,
    time::STEP,
    monitor::PLOT,
    time::RUN,
    time::HARNESS,
];

/// One kind of picture.
#[derive(Debug)]
pub(crate) struct Plot {
    /// Its name in the page's addresses.
    pub(crate) id: &'static str,
    /// Its heading.
    pub(crate) title: &'static str,
    /// What it shows and how to read it, in a few sentences.
    pub(crate) about: &'static str,
    /// Draws it.
    pub(crate) draw: fn(&View) -> Picture,
}

/// What came of drawing a [`Plot`]; without drawings it is left out.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    /// What colours and shapes mean.
    pub(crate) legend: Vec<Key>,
    /// The drawings, in order.
    pub(crate) drawings: Vec<Drawing>,
}

/// One entry of a legend.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its colour.
    pub(crate) ink: Ink,
    /// Its shape, as a character.
    pub(crate) sign: &'static str,
    /// What it stands for.
    pub(crate) label: String,
}

impl Key {
    /// An area of this colour.
    pub(crate) fn area(ink: Ink, label: &str) -> Self {
        Self {
            ink,
            sign: "■",
            label: label.to_owned(),
        }
    }
}

/// One drawing, and what stands around it.
#[derive(Debug)]
pub(crate) struct Drawing {
    /// Its heading: a scenario's name.
    pub(crate) heading: String,
    /// What stands behind the heading.
    pub(crate) subtitle: String,
    /// What calls for attention beside it.
    pub(crate) remark: Option<String>,
    /// What explains a part of it, below it.
    pub(crate) note: Option<String>,
    /// What it shows, for those who cannot see it.
    pub(crate) description: String,
    /// The drawing.
    pub(crate) svg: Svg,
    /// The same values as a table.
    pub(crate) table: Option<Table>,
    /// Whether the drawing cannot be read without its table.
    pub(crate) open: bool,
}

impl Drawing {
    fn of(group: &Group, canvas: Canvas, description: String) -> Self {
        Self {
            heading: group.scenario.clone(),
            subtitle: group.subtitle(),
            remark: None,
            note: None,
            description,
            svg: canvas.finish(),
            table: None,
            open: false,
        }
    }

    /// The `svg` element, with an ID made of the picture's and its number there.
    pub(crate) fn html<'a>(
        &'a self,
        plot: &str,
        title: &'a str,
        number: usize,
    ) -> impl std::fmt::Display + 'a {
        let id = format!("{plot}-{number}");
        Element {
            id,
            title,
            drawing: self,
        }
    }
}

#[derive(Template)]
#[template(path = "drawing.html")]
struct Element<'a> {
    id: String,
    title: &'a str,
    drawing: &'a Drawing,
}

/// The drawings of the groups that have one.
fn drawings(view: &View, draw: impl Fn(&Group) -> Option<Drawing>) -> Vec<Drawing> {
    view.groups.iter().filter_map(draw).collect()
}

/// What is to be said of each cell of a group, for those who cannot see the drawing.
fn describe(view: &View, group: &Group, say: impl Fn(usize) -> Option<String>) -> String {
    let said = group.lanes().filter_map(|(row, cell)| {
        let image = view.label_of(cell);
        Some(format!("{} in {image}: {}.", row.label, say(cell)?))
    });
    said.collect::<Vec<_>>().join(" ")
}

/// The values of a group's cells as a table, under these heads; cells of which nothing is known
/// are left out.
fn values(
    view: &View,
    group: &Group,
    heads: &[&'static str],
    read: impl Fn(usize) -> Option<Vec<Cell>>,
) -> Table {
    let mut columns = names(view);
    columns.extend(document::columns(Kind::Number, heads));
    let rows = group.lanes().filter_map(|(row, cell)| {
        let mut entries = named(view, &row.label, cell);
        entries.extend(read(cell)?);
        Some(entries)
    });
    Table::new(columns, rows.collect())
}

/// Colours and shapes of the images, where there are several.
fn contender_legend(view: &View) -> Vec<Key> {
    let several = view
        .contenders
        .iter()
        .enumerate()
        .filter(|_| view.has_several());
    let keys = several.map(|(index, contender)| Key {
        ink: Ink::series(index),
        sign: Shape::of(index).sign(),
        label: contender.label.clone(),
    });
    keys.collect()
}
