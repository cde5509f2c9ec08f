//! What a picture is, and what several of them draw alike.

use crate::{
    charts::{Chart, Entry, Key, Lane, Row as ChartRow, Track},
    document::{Block, Picture, Section},
    facets,
    model::{Group, Row, View},
    session::cells::{named, names},
    svg::{Look, ink::Ink},
};

#[derive(Debug)]
pub(crate) struct Plot {
    /// Its name in the page's addresses.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What it shows and how to read it, in a few sentences.
    pub(crate) about: &'static str,
    /// The metrics that it shows best, by name: a page whose suite asks for one of them has it
    /// before the others.
    pub(crate) answers: &'static [&'static str],
    /// Whether a page of very many cells does without it, unless its suite asks for it.
    pub(crate) is_detail: bool,
    pub(crate) draw: fn(&View) -> Drawing,
}

/// What colours and shapes mean, and charts.
pub(crate) type Drawing = (Vec<Key>, Vec<Chart>);

impl Plot {
    pub(crate) fn is_curve(&self) -> bool {
        self.id == super::sweep::PLOT.id
    }

    pub(crate) fn section(&self, (legend, charts): Drawing) -> Option<Section> {
        let has_charts = !charts.is_empty();
        let picture = Picture::of(self.id, self.title, legend, charts);
        has_charts.then(|| Section {
            about: self.about,
            ..Section::of(self.id, self.title, vec![Block::Picture(picture)])
        })
    }
}

/// The charts of the groups that have one, and the legend of the images.
pub(super) fn by_group(view: &View, chart: impl Fn(&Group) -> Option<Chart>) -> Drawing {
    let charts = view.groups.iter().filter_map(|group| {
        let chart = chart(group)?;
        Some(Chart {
            heading: group.scenario.clone(),
            subtitle: Some(chart.subtitle)
                .filter(|own| !own.is_empty())
                .unwrap_or_else(|| group.subtitle()),
            ..chart
        })
    });
    (contender_legend(view), charts.collect())
}

/// A cell in words, with the columns that name it in a table.
fn entry(view: &View, label: &str, cell: usize) -> Entry {
    let cells = names(view).into_iter().zip(named(view, label, cell));
    Entry {
        name: view.name_in(label, cell),
        value: String::new(),
        cells: cells.collect(),
    }
}

/// What each cell of a group comes to; those are left out of which nothing is known.
pub(super) fn entries(
    view: &View,
    group: &Group,
    read: impl Fn(usize, Entry) -> Option<Entry>,
) -> Vec<Entry> {
    let lanes = group.lanes();
    let read = |(row, cell): (&Row, usize)| read(cell, entry(view, &row.label, cell));
    lanes.filter_map(read).collect()
}

/// A row for each variant with a lane for each image; `None`: the cell has nothing to draw, and says
/// why.
pub(super) fn rows(
    view: &View,
    group: &Group,
    draw: impl Fn(&Row, usize, Entry) -> Option<(Entry, Vec<Track>)>,
) -> Vec<ChartRow> {
    let lane = |row: &Row, cell: usize| {
        let found = draw(row, cell, entry(view, &row.label, cell));
        let ink = found.as_ref().map_or(Ink::Danger, |_| Ink::Label);
        let (entry, tracks) = found.unwrap_or_else(|| {
            let why = match view.report.cells[cell].ok {
                0 => view.why_nothing(cell),
                _ => "not measured".to_owned(),
            };
            (Entry::new(view.name_in(&row.label, cell), why), Vec::new())
        });
        let name = view.has_several().then(|| view.label_of(cell).to_owned());
        Lane {
            name: name.unwrap_or_default(),
            entry,
            ink,
            about: facets::of_cell(view, cell),
            tracks,
        }
    };
    let rows = group.rows.iter().map(|row| ChartRow {
        label: row.label.clone(),
        lanes: row.cells.iter().map(|&cell| lane(row, cell)).collect(),
    });
    rows.collect()
}

/// Colours and shapes of the images, where there are several.
fn contender_legend(view: &View) -> Vec<Key> {
    let several = view.contenders.iter().enumerate();
    let several = several.filter(|_| view.has_several());
    let keys = several.map(|(index, one)| Key::mark(Look::series(index), &one.label));
    keys.collect()
}
