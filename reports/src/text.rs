//! Documents for a terminal or a log; the table after a bench.

use comfy_table::{
    Attribute, Cell as Drawn, CellAlignment, Color, ContentArrangement, Table as Grid, TableStyle,
    presets,
};

use record::Reason;

use crate::{
    columns, comparison,
    document::{Block, Body, Card, Cell, Kind, Mark, Table},
    format::{clean, plural},
    layout::{INDENT, Widths, wrap},
    model::View,
};

/// How to write for the reader at hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// No lines, no bold: for files, pipes and logs.
    #[default]
    Plain,
    /// With colours and lines, for a terminal with so many columns.
    Terminal(usize),
}

impl Style {
    /// Columns that a table may take.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Plain => 100,
            Self::Terminal(columns) => columns,
        }
    }
}

/// The cells of all sessions, and every failed run under them.
#[must_use]
pub fn table(view: &View, style: Style) -> String {
    if view.report.cells.is_empty() {
        return "No cells.\n".to_owned();
    }
    let failures = failures(view);
    let gap = if failures.is_empty() { "" } else { "\n" };
    isolation(view) + &grid(&columns::table(view, true), style) + gap + &failures
}

/// What is to be seen before any number: that runs were not isolated.
fn isolation(view: &View) -> String {
    let runs = view.runs.iter().flatten();
    let count = runs.filter(|run| !run.isolation.missing.is_empty()).count();
    match count {
        0 => String::new(),
        _ => format!(
            "not isolated: {} in no container\n",
            plural(count, "run was", "runs were")
        ),
    }
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
            _ if failure.expected => "expected",
            Reason::Contaminated => "contaminated",
            _ => "failed",
        };
        let reason = failure.reason.word();
        let stage = crate::model::stage_word(failure.stage);
        let (run, image) = (&failure.run, &failure.image);
        let cell = comparison::spelled(&failure.cell);
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
        | Block::Verdict(_, text)
        | Block::Method(text) => format!("{}\n", clean(text)),
        Block::Counts(counts) => {
            let words = counts
                .iter()
                .map(|(count, word, _)| format!("{count} {word}"));
            words.collect::<Vec<_>>().join(", ") + "\n"
        }
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

/// Rows under a header as a table no wider than the reader's terminal, or than a log reads well.
#[must_use]
pub fn columns(header: &[String], rows: &[Vec<String>], style: Style) -> String {
    let is_number = |text: &str| text.parse::<f64>().is_ok() || ["", "–"].contains(&text);
    let columns = (0..header.len()).map(|column| {
        let mut cells = rows.iter().filter_map(|row| row.get(column));
        let is_number = !rows.is_empty() && cells.all(|cell| is_number(cell));
        (
            if is_number {
                Kind::Number
            } else {
                Kind::Message
            },
            header[column].as_str(),
        )
    });
    let rows = rows
        .iter()
        .map(|row| row.iter().map(|cell| cell.as_str().into()).collect());
    laid_out(&columns.collect::<Vec<_>>(), rows.collect(), style)
}

/// Titles of bodies are a column of their own; names are not repeated from row to row.
fn grid(table: &Table, style: Style) -> String {
    let title = (!table.title_head.is_empty()).then_some((Kind::Name, table.title_head));
    let columns = table
        .columns
        .iter()
        .map(|column| (column.kind, column.head));
    let columns: Vec<_> = title.into_iter().chain(columns).collect();
    let mut rows = Vec::new();
    for body in &table.bodies {
        for row in 0..body.rows.len() {
            let title = body.title.iter().map(|title| match row {
                0 => title.clone(),
                _ => Cell::default(),
            });
            rows.push(title.chain(entries(table, body, row)).collect());
        }
    }
    laid_out(&columns, rows, style)
}

fn entries(table: &Table, body: &Body, row: usize) -> Vec<Cell> {
    let cells = body.rows[row].iter().enumerate();
    let shown = cells.map(|(column, cell)| {
        let is_repeated = table.repeats(body, row, column);
        if is_repeated {
            Cell::default()
        } else {
            cell.clone()
        }
    });
    shown.collect()
}

/// A table that fits the width. Where it asks for more, the first name of a row becomes a line above
/// it; where that is not enough, columns that find no room follow below, with the names again.
/// Texts wrap at spaces; words and numbers are never broken.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the rows are made for it alone"
)]
fn laid_out(columns: &[(Kind, &str)], rows: Vec<Vec<Cell>>, style: Style) -> String {
    let texts: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(told).collect())
        .collect();
    let widths = Widths::of(columns, &texts, style);
    if widths.wants_headings(columns) {
        return under_headings(columns, &rows, &texts, widths, style);
    }
    if let Some((names, end)) = widths.fold(columns) {
        let part = |from: usize, to: usize| {
            let pick = |row: &Vec<Cell>| {
                let rest = row.iter().take(to).skip(from);
                row.iter().take(names).chain(rest).cloned().collect()
            };
            let columns = [&columns[..names], &columns[from..to]].concat();
            laid_out(&columns, rows.iter().map(pick).collect(), style)
        };
        return part(names, end) + "\n" + &part(end, columns.len());
    }
    let preset = match style {
        Style::Plain => presets::NOTHING,
        Style::Terminal(_) => presets::UTF8_HORIZONTAL_ONLY,
    };
    let widths = widths.chosen();
    let rows = rows.iter().zip(&texts);
    let rows = rows.map(|(row, texts)| entry(row, texts, &widths, style));
    let grid = ruled(columns, rows.collect(), &widths, style, preset);
    grid.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Rows below the name that they share, indented.
fn under_headings(
    columns: &[(Kind, &str)],
    rows: &[Vec<Cell>],
    texts: &[Vec<String>],
    widths: Widths,
    style: Style,
) -> String {
    let room = style.width();
    let widths = widths.under_heading().chosen();
    let entries: Vec<Vec<Drawn>> = rows
        .iter()
        .zip(texts)
        .map(|(row, texts)| entry(&row[1..], &texts[1..], &widths, style))
        .collect();
    let height = |row: &[Drawn]| {
        let lines = row.iter().map(|cell| cell.content().lines().count());
        lines.max().unwrap_or(1).max(1)
    };
    let heights: Vec<usize> = entries.iter().map(|row| height(row)).collect();
    let grid = ruled(&columns[1..], entries, &widths, style, presets::NOTHING);
    let lines: Vec<String> = grid.lines().collect();
    let mut lines = lines.iter();
    let indented = |line: &String| format!("{:INDENT$}{}\n", "", line.trim_end());
    let head = lines.len() - heights.iter().sum::<usize>();
    let mut text: String = lines.by_ref().take(head).map(indented).collect();
    for (texts, height) in texts.iter().zip(heights) {
        if !texts[0].is_empty() {
            let heading = wrap(&texts[0], room);
            text += &match style {
                Style::Plain => format!("{heading}\n"),
                Style::Terminal(_) => format!("\u{1b}[1m{heading}\u{1b}[0m\n"),
            };
        }
        text.extend(lines.by_ref().take(height).map(indented));
    }
    text
}

/// A row's cells, wrapped.
fn entry(row: &[Cell], texts: &[String], widths: &[usize], style: Style) -> Vec<Drawn> {
    let cells = row.iter().zip(texts).zip(widths);
    cells
        .map(|((cell, text), width)| drawn(cell, wrap(text, *width), style))
        .collect()
}

fn ruled(
    columns: &[(Kind, &str)],
    rows: Vec<Vec<Drawn>>,
    widths: &[usize],
    style: Style,
    preset: TableStyle,
) -> Grid {
    let mut grid = Grid::new();
    // The caller knows where the text goes; the table must not ask stdout itself.
    grid.force_no_tty();
    grid.load_style(preset);
    if style != Style::Plain {
        grid.enforce_styling();
    }
    grid.set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(
        columns.iter().zip(widths).map(|((_, head), width)| {
            Drawn::new(wrap(head, *width)).add_attribute(Attribute::Bold)
        }),
    );
    grid.add_rows(rows);
    for (drawn, (kind, _)) in grid.column_iter_mut().zip(columns) {
        if *kind == Kind::Number {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid
}

/// An entry in words.
fn told(cell: &Cell) -> String {
    match cell.note.as_str() {
        "" => clean(&cell.text),
        note => format!("{} ({})", clean(&cell.text), clean(note)),
    }
}

fn drawn(cell: &Cell, text: String, style: Style) -> Drawn {
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

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    /// The lines, without colours and rules, once each of them is found to fit.
    fn shown(columns: &[(Kind, &str)], row: &[&str], width: usize) -> Vec<String> {
        let row = row.iter().map(|cell| Cell::from(*cell)).collect();
        let text = laid_out(columns, vec![row], Style::Terminal(width));
        let uncoloured = text
            .split('\u{1b}')
            .enumerate()
            .map(|(index, part)| match index {
                0 => part,
                _ => part.split_once('m').map_or(part, |(_, rest)| rest),
            });
        let text: String = uncoloured.collect();
        assert!(text.lines().all(|line| line.width() <= width), "{text}");
        let lines = text.lines().filter(|line| !line.contains(['─', '═']));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn texts_wrap_between_words() {
        let columns = [(Kind::Word, "what"), (Kind::Message, "found")];
        let row = ["disk", "12 GB free at /a/rather/long/path; make room"];
        let lines = shown(&columns, &row, 40);
        assert!(lines.len() > 2);
        assert!(
            lines
                .iter()
                .any(|line| line.contains("/a/rather/long/path;")),
            "{lines:?}"
        );
    }

    const MEMORY: [(Kind, &str); 4] = [
        (Kind::Name, "variant"),
        (Kind::Number, "samples/s"),
        (Kind::Number, "allocated"),
        (Kind::Number, "reserved"),
    ];

    #[test]
    fn a_name_without_room_is_a_line_above_its_row() {
        let name = "amp-bf16 bs8 checkpointing=blocks";
        let lines = shown(&MEMORY, &[name, "1234 a", "512.0 MiB", "1.500 GiB"], 42);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[1], name);
        assert!(lines[2].contains("1234 a") && lines[2].contains("1.500 GiB"));
    }

    #[test]
    fn columns_without_room_follow_below_with_the_names_again() {
        let row = ["fp32 bs8", "1234 a", "512.0 MiB", "1.500 GiB"];
        let lines = shown(&MEMORY, &row, 30);
        let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        assert_eq!(
            (with("fp32 bs8"), with("512.0 MiB"), with("1.500 GiB")),
            (2, 1, 1),
            "{lines:?}"
        );
    }

    #[test]
    fn columns_below_have_the_word_that_tells_rows_apart() {
        let columns = [
            (Kind::Name, "cell"),
            (Kind::Word, "metric"),
            (Kind::Number, "base, median"),
            (Kind::Number, "head, median"),
            (Kind::Number, "95 % interval"),
        ];
        let name = "amp-bf16 bs8 checkpointing=blocks";
        let row = [
            name,
            "memory",
            "253.4 samples/s",
            "265.0 samples/s",
            "exact",
        ];
        let lines = shown(&columns, &row, 45);
        let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        assert_eq!((with(name), with("memory")), (2, 2), "{lines:?}");
    }

    /// As those of a change in a series.
    #[test]
    fn names_that_take_more_than_half_are_not_all_repeated() {
        let columns = [
            (Kind::Name, "entry"),
            (Kind::Name, "range"),
            (Kind::Number, "before"),
            (Kind::Number, "after"),
        ];
        let range = "abcdef012345..abcdef012345";
        let lines = shown(&columns, &["25", range, "99.99 samples/s", "1"], 45);
        let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        assert_eq!((with("25"), with(range)), (2, 1), "{lines:?}");
    }

    #[test]
    fn a_word_that_is_wider_than_all_is_not_broken() {
        let word = "x".repeat(60);
        let rows = vec![vec![Cell::from("a"), Cell::from(word.as_str())]];
        let columns = [(Kind::Name, "name"), (Kind::Word, "digest")];
        assert!(laid_out(&columns, rows, Style::Terminal(40)).contains(&word));
    }
}
