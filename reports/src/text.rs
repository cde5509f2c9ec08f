//! Documents for a terminal or a log; the table after a bench.

use comfy_table::{
    Attribute, Cell as Drawn, CellAlignment, Color, ContentArrangement, Table as Grid, presets,
};

use record::Reason;

use crate::{
    columns,
    document::{Block, Body, Card, Cell, Kind, Mark, Table},
    format::clean,
    model::View,
};

/// How to write for the reader at hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// No lines, no bold: for files, pipes and logs.
    #[default]
    Plain,
    /// With colours and lines.
    Terminal,
}

/// The cells of all sessions, and every failed run under them.
#[must_use]
pub fn table(view: &View, style: Style) -> String {
    if view.report.cells.is_empty() {
        return "No cells.\n".to_owned();
    }
    let failures = failures(view);
    let gap = if failures.is_empty() { "" } else { "\n" };
    grid(&columns::table(view, true), style) + gap + &failures
}

/// Every failed run, one line each with its message.
fn failures(view: &View) -> String {
    let line = |failure: &crate::model::Failure| {
        let message = failure.message.lines().next().unwrap_or_default();
        let log = failure
            .log
            .as_ref()
            .map_or_else(String::new, |log| format!(" (log: {log})"));
        let word = match failure.reason {
            Reason::Contaminated => "contaminated",
            _ => "failed",
        };
        let reason = failure.reason.word();
        let stage = crate::model::stage_word(failure.stage);
        let (run, image, cell) = (&failure.run, &failure.image, &failure.cell);
        let text = format!("{word}: {run} · {image} · {cell}: {reason} at {stage}: {message}{log}");
        clean(&text) + "\n"
    };
    view.report.failures.iter().map(line).collect()
}

/// Blocks one under the other, with a line between them; a subheading belongs to what follows.
pub(crate) fn document(blocks: &[Block], style: Style) -> String {
    let is_title = |block: &Block| matches!(block, Block::Subheading(_));
    let mut text = String::new();
    let mut before = None;
    for one in blocks {
        if before.is_some_and(|before| !is_title(before) || is_title(one)) {
            text.push('\n');
        }
        text += &block(one, style);
        before = Some(one);
    }
    text
}

fn block(block: &Block, style: Style) -> String {
    let lines = |texts: &[String], sign: &str| -> String {
        texts
            .iter()
            .map(|text| format!("{sign}{}\n", clean(text)))
            .collect()
    };
    match block {
        Block::Heading(text)
        | Block::Subheading(text)
        | Block::Text(text)
        | Block::Method(text) => format!("{}\n", clean(text)),
        Block::Warnings(texts) => lines(texts, "warning: "),
        Block::List(items) => lines(items, "- "),
        Block::Table(table) => grid(table, style),
        Block::Folded(title, inside) => format!("{}\n{}", clean(title), document(inside, style)),
        Block::Cards(cards) => cards.iter().map(card).collect(),
    }
}

fn card(card: &Card) -> String {
    let facts = card.facts.iter();
    let facts = facts.map(|(name, value)| format!("  {name}: {}\n", clean(value)));
    format!("{}\n{}", clean(&card.title), facts.collect::<String>())
}

/// Titles of bodies are a column of their own; names are not repeated from row to row.
fn grid(table: &Table, style: Style) -> String {
    let mut grid = Grid::new();
    // The caller knows where the text goes; the table must not ask stdout itself.
    grid.force_no_tty();
    if style == Style::Plain {
        grid.load_style(presets::NOTHING);
    } else {
        grid.load_style(presets::UTF8_HORIZONTAL_ONLY);
        grid.enforce_styling();
    }
    grid.set_content_arrangement(ContentArrangement::Disabled);
    let title_head = (!table.title_head.is_empty()).then(|| Kind::Name.column(table.title_head));
    let columns: Vec<_> = title_head.iter().chain(&table.columns).collect();
    grid.set_header(
        columns
            .iter()
            .map(|one| Drawn::new(one.head).add_attribute(Attribute::Bold)),
    );
    for body in &table.bodies {
        for row in 0..body.rows.len() {
            let title = body.title.iter().map(|title| {
                if row == 0 {
                    drawn(title, style)
                } else {
                    Drawn::new("")
                }
            });
            grid.add_row(title.chain(entries(table, body, row, style)));
        }
    }
    for (drawn, column) in grid.column_iter_mut().zip(columns) {
        if column.kind == Kind::Number {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn entries(table: &Table, body: &Body, row: usize, style: Style) -> Vec<Drawn> {
    let cells = body.rows[row].iter().enumerate();
    let blank = Cell::default();
    let shown = cells.map(|(column, cell)| {
        let is_repeated = table.repeats(body, row, column);
        drawn(if is_repeated { &blank } else { cell }, style)
    });
    shown.collect()
}

fn drawn(cell: &Cell, style: Style) -> Drawn {
    let text = match cell.note.as_str() {
        "" => clean(&cell.text),
        note => format!("{} ({})", clean(&cell.text), clean(note)),
    };
    let drawn = Drawn::new(text);
    match cell.mark {
        Some(_) if style == Style::Plain => drawn,
        Some(Mark::Bad | Mark::Refuted | Mark::Failure) => {
            drawn.fg(Color::Red).add_attribute(Attribute::Bold)
        }
        Some(Mark::Good | Mark::Holds) => drawn.fg(Color::Green),
        Some(Mark::Unknown) => drawn.fg(Color::Yellow),
        _ => drawn,
    }
}
