//! The pictures. A new one is a file here with a `PLOT`, and a line in the registry below.

use crate::{
    model::{Group, View},
    svg::{self, Canvas, DrawError, Shape, escape, ink::Ink},
};

macro_rules! registry {
    ($($module:ident)+) => {
        $(mod $module;)+

        /// Every picture, in the order of the report.
        pub const ALL: &[Plot] = &[$($module::PLOT),+];
    };
}

mod stacked;

registry! {
    throughput
    memory
    memory_parts
    pareto
    steps
    step_parts
    monitor
    overhead
}

/// One kind of picture.
#[derive(Debug)]
pub struct Plot {
    /// Its name in the page's addresses.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What it shows and how to read it, in a few sentences.
    pub about: &'static str,
    /// Draws it.
    pub draw: fn(&View) -> Result<Picture, DrawError>,
}

/// What came of drawing a [`Plot`]; without drawings it is left out.
#[derive(Debug, Default)]
pub struct Picture {
    /// What colours and shapes mean.
    pub legends: Vec<Legend>,
    /// The drawings, in order.
    pub drawings: Vec<Drawing>,
}

/// What colours and shapes mean in a drawing, or in a part of it.
#[derive(Debug, Default)]
pub struct Legend {
    /// The part; empty where it is the whole.
    pub title: &'static str,
    /// The entries.
    pub keys: Vec<Key>,
}

/// One entry of a legend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its colour.
    pub ink: Ink,
    /// Its shape, as a character.
    pub sign: &'static str,
    /// What it stands for.
    pub label: String,
}

impl Key {
    /// An area of this colour.
    #[must_use]
    pub fn area(ink: Ink, label: &str) -> Self {
        Self {
            ink,
            sign: "■",
            label: label.to_owned(),
        }
    }

    /// The class that gives the colour.
    #[must_use]
    pub fn class(&self) -> String {
        format!("key-{}", self.ink.name())
    }
}

/// One drawing, and what stands around it.
#[derive(Debug)]
pub struct Drawing {
    /// Its heading: a scenario's name.
    pub heading: String,
    /// What stands behind the heading.
    pub subtitle: String,
    /// The SVG, whole.
    pub svg: String,
    /// A table under it.
    pub table: Option<Table>,
}

/// A table under a drawing.
#[derive(Debug, Default)]
pub struct Table {
    /// What it is about.
    pub caption: String,
    /// Heads of the columns; the first column heads the rows.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// The first so many columns are names, the others metrics.
    pub names: usize,
    /// Whether the picture cannot be read without it.
    pub open: bool,
}

/// Draws one drawing of a group.
fn group_drawing(
    plot: &Plot,
    group: &Group,
    index: usize,
    size: (f64, f64),
    description: &str,
    draw: impl FnOnce(&mut Canvas),
) -> Result<Drawing, DrawError> {
    let names = svg::Names {
        id: format!("{}-{}", plot.id, index + 1),
        title: format!("{}: {}", plot.title, group.scenario),
        description: description.to_owned(),
    };
    Ok(Drawing {
        heading: group.scenario.clone(),
        subtitle: group.subtitle(),
        svg: svg::paint(size, &names, draw)?,
        table: None,
    })
}

/// Colours and shapes of the images, where there are several.
fn contender_legend(view: &View) -> Vec<Legend> {
    if view.contenders.len() < 2 {
        return Vec::new();
    }
    let keys = view
        .contenders
        .iter()
        .enumerate()
        .map(|(index, contender)| Key {
            ink: series(index),
            sign: Shape::of(index).sign(),
            label: contender.label.clone(),
        })
        .collect();
    vec![Legend { title: "", keys }]
}

/// The colour of a contender.
fn series(index: usize) -> Ink {
    Ink::Series(u8::try_from(index % usize::from(svg::ink::SERIES)).unwrap_or(0))
}

impl Table {
    /// The table as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let mut html = format!(
            "<table><caption>{}</caption><thead><tr>",
            escape(&self.caption)
        );
        let class = |index| {
            if index < self.names {
                " class=\"name\""
            } else {
                ""
            }
        };
        for (index, head) in self.heads.iter().enumerate() {
            html += &format!("<th scope=\"col\"{}>{}</th>", class(index), escape(head));
        }
        html += "</tr></thead><tbody>";
        for row in &self.rows {
            html += "<tr>";
            for (index, cell) in row.iter().enumerate() {
                let (open, close) = if index == 0 {
                    ("th scope=\"row\"", "th")
                } else {
                    ("td", "td")
                };
                html += &format!("<{open}{}>{}</{close}>", class(index), escape(cell));
            }
            html += "</tr>";
        }
        html + "</tbody></table>"
    }
}
