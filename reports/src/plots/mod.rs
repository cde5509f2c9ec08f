//! The pictures. A new one is a file here with a `PLOT`, its `mod` line and its place in [`ALL`].

pub(crate) mod batches;
pub(crate) mod card;
mod distribution;
pub(crate) mod forest;
mod gpu;
pub(crate) mod history;
mod memory;
mod monitor;
mod pareto;
mod ratio;
mod stacked;
mod steps;
mod throughput;
mod time;
mod timeline;
mod versions;

use askama::Template;

use crate::{
    columns::{named, names},
    document::{self, Cell, Kind, Table},
    model::{Group, View},
    svg::{
        Shape, Svg,
        ink::Ink,
        rows::{NARROW, WIDTH},
    },
};

/// Every picture, in the order of the report.
pub(crate) const ALL: &[Plot] = &[
    forest::PLOT,
    versions::PLOT,
    throughput::PLOT,
    ratio::PLOT,
    history::PLOT,
    memory::PLOT,
    pareto::PLOT,
    timeline::PLOT,
    distribution::PLOT,
    steps::PLOT,
    time::STEP,
    gpu::PLOT,
    monitor::PLOT,
    time::RUN,
    time::HARNESS,
];

/// Every picture, those first that answer what the suites ask.
pub(crate) fn in_order(view: &View) -> Vec<&'static Plot> {
    let sessions = view.report.sessions.iter();
    let asked: Vec<&String> = sessions
        .flat_map(|session| session.questions.values())
        .flat_map(|asked| &asked.answered_by)
        .collect();
    let is_asked = |plot: &&Plot| {
        asked
            .iter()
            .any(|name| plot.answers.contains(&name.as_str()))
    };
    let mut plots: Vec<&Plot> = ALL.iter().collect();
    plots.retain(|plot| !view.is_large() || !plot.is_detail || is_asked(plot));
    plots.sort_by_key(|plot| {
        let place = asked
            .iter()
            .position(|name| plot.answers.contains(&name.as_str()));
        (plot.id != forest::PLOT.id, place.unwrap_or(usize::MAX))
    });
    plots
}

/// One kind of picture.
#[derive(Debug)]
pub(crate) struct Plot {
    /// Its name in the page's addresses.
    pub(crate) id: &'static str,
    /// Its heading.
    pub(crate) title: &'static str,
    /// What it shows and how to read it, in a few sentences.
    pub(crate) about: &'static str,
    /// The metrics that it shows best, by name: a page whose suite asks for one of them has it
    /// before the others.
    pub(crate) answers: &'static [&'static str],
    /// Whether a page of very many cells does without it, unless its suite asks for it.
    pub(crate) is_detail: bool,
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
    /// The same for a telephone; `None`: the drawing is scrolled there.
    pub(crate) narrow: Option<Svg>,
    /// The same values as a table.
    pub(crate) table: Option<Table>,
    /// Whether the drawing cannot be read without its table.
    pub(crate) open: bool,
}

impl Drawing {
    /// The drawing of a group for the page and for a telephone. A page of very many cells has the
    /// first alone.
    fn of(
        view: &View,
        group: &Group,
        description: String,
        mut draw: impl FnMut(f64) -> Svg,
    ) -> Self {
        Self {
            heading: group.scenario.clone(),
            subtitle: group.subtitle(),
            remark: None,
            note: None,
            description,
            svg: draw(WIDTH),
            narrow: (!view.is_large()).then(|| draw(NARROW)),
            table: None,
            open: false,
        }
    }

    /// Leaves out what shows under the pointer; the table has these values too.
    pub(crate) fn drop_hints(&mut self) {
        for svg in [Some(&mut self.svg), self.narrow.as_mut()]
            .into_iter()
            .flatten()
        {
            svg.drop_hints();
        }
    }

    /// The `svg` element, with an ID made of the picture's and its number there.
    pub(crate) fn html<'a>(&'a self, plot: &str, title: &'a str, number: usize) -> String {
        let element = |id: String, svg, class| Element {
            id,
            title,
            class,
            svg,
            drawing: self,
        };
        let id = format!("{plot}-{number}");
        match &self.narrow {
            None => element(id, &self.svg, "plot").to_string(),
            Some(narrow) => {
                let wide = element(id.clone(), &self.svg, "plot wide").to_string();
                wide + &element(format!("{id}-narrow"), narrow, "plot narrow").to_string()
            }
        }
    }
}

#[derive(Template)]
#[template(path = "drawing.html")]
struct Element<'a> {
    id: String,
    title: &'a str,
    class: &'static str,
    svg: &'a Svg,
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
