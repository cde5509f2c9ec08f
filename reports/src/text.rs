//! The table after a bench, for a terminal or a log.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use record::Reason;

use crate::{
    format,
    model::View,
    table::{self, Column},
};

/// How to write for the reader at hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Columns of characters that there are; `None` where nothing limits them.
    pub width: Option<u16>,
    /// No lines, no bold: for files, pipes and logs.
    pub plain: bool,
}

/// Columns of characters below which no table can be read.
const LEAST_WIDTH: u16 = 40;
/// Where room is short, names wrap at this many characters before metrics are left out.
const NAME_WIDTH: u16 = 26;

/// The cells of all sessions, and every failed run under them. Where the terminal is narrow, the
/// less important columns are left out, and then labels wrap.
#[must_use]
pub fn table(view: &View, style: Style) -> String {
    if view.report.cells.is_empty() {
        return "No cells.\n".to_owned();
    }
    let mut columns = table::columns(view);
    let names = names(view).len();
    let mut table = build(view, &columns, style);
    while let Some(width) = style.width
        && least_width(&table, names) > width.max(LEAST_WIDTH)
        && columns.len() > 3
    {
        let least = columns.iter().map(|column| column.importance).min();
        columns.retain(|column| Some(column.importance) != least);
        table = build(view, &columns, style);
    }
    let mut text: String = table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    text += &failures(view);
    text
}

/// Heads of the columns that name a cell.
fn names(view: &View) -> Vec<&'static str> {
    let mut names = vec!["scenario", "variant"];
    if view.contenders.len() > 1 {
        names.push(view.contender_head());
    }
    names
}

fn build(view: &View, columns: &[&Column], style: Style) -> Table {
    let names = names(view);
    let mut table = Table::new();
    // The caller knows where the text goes; the table must not ask stdout itself.
    table.force_no_tty();
    if style.plain {
        table.load_style(presets::NOTHING);
    } else {
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.enforce_styling();
    }
    table.set_content_arrangement(ContentArrangement::Disabled);
    let heads = names
        .iter()
        .copied()
        .chain(columns.iter().map(|column| column.head));
    table.set_header(heads.map(|text| Cell::new(text).add_attribute(Attribute::Bold)));
    for group in &view.groups {
        let mut scenario = group.scenario.as_str();
        for row in &group.rows {
            let mut label = row.label.as_str();
            for &cell in &row.cells {
                let mut entries = vec![scenario.to_owned(), label.to_owned()];
                if names.len() > 2 {
                    entries.push(view.contenders[view.contender_of(cell)].label.clone());
                }
                let summary = &view.report.cells[cell];
                entries.extend(columns.iter().map(|column| table::entry(column, summary)));
                table.add_row(entries);
                (scenario, label) = ("", "");
            }
        }
    }
    for column in table.column_iter_mut().skip(names.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if let Some(width) = style.width {
        fit(&mut table, names.len(), width.max(LEAST_WIDTH));
    }
    table
}

/// Lets names wrap, metrics not.
fn fit(table: &mut Table, names: usize, width: u16) {
    let short = natural_width(table, u16::MAX, names) > width;
    for (index, column) in table.column_iter_mut().enumerate() {
        if index >= names {
            column.set_constraint(ColumnConstraint::ContentWidth);
        } else if short {
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(
                NAME_WIDTH + 2,
            )));
        }
    }
    table.set_width(width);
    table.set_content_arrangement(ContentArrangement::Dynamic);
}

/// Columns of characters with names wrapped: contents and a space on either side.
fn least_width(table: &Table, names: usize) -> u16 {
    natural_width(table, NAME_WIDTH, names)
}

fn natural_width(table: &Table, longest_name: u16, names: usize) -> u16 {
    let widths = table.column_max_content_widths();
    let contents = widths.iter().enumerate().map(|(index, width)| {
        let width = if index < names {
            (*width).min(longest_name)
        } else {
            *width
        };
        width.saturating_add(2)
    });
    contents.fold(0, u16::saturating_add)
}

/// Every failed run, one line each with its message.
fn failures(view: &View) -> String {
    let mut text = String::new();
    for failure in &view.report.failures {
        let message = format::clean(failure.message.lines().next().unwrap_or_default());
        let log = failure
            .log
            .as_ref()
            .map(|log| format!(" (log: {})", format::clean(log)))
            .unwrap_or_default();
        let word = match failure.reason {
            Reason::Contaminated => "contaminated",
            _ => "failed",
        };
        text += &format!(
            "{word}: {} · {} · {}: {} at {}: {message}{log}\n",
            format::clean(&failure.run),
            format::clean(&failure.image),
            format::clean(&failure.cell),
            failure.reason.word(),
            crate::model::stage_word(failure.stage),
        );
    }
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
}
