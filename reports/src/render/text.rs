//! Documents for a terminal or a log.

use comfy_table::{
    Attribute, Cell as Drawn, CellAlignment, Color, ColumnConstraint, ContentArrangement,
    Table as Grid, Width, presets,
};
use unicode_width::UnicodeWidthStr;

use crate::{
    document::{Block, Card, Cell, Kind, Mark, Table},
    words::format::clean,
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
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Plain => 100,
            Self::Terminal(columns) => columns,
        }
    }
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
        Block::Picture(picture) => picture.tables().map(|one| grid(&one, style)).collect(),
        Block::Commands(_) => String::new(),
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
    laid_out(
        &columns.collect::<Vec<_>>(),
        &rows.collect::<Vec<_>>(),
        style,
    )
}

/// Titles of bodies are a column of their own; names are not repeated from row to row.
pub(crate) fn grid(table: &Table, style: Style) -> String {
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
            let cells = body.rows[row].iter().enumerate();
            let cells = cells.map(|(column, cell)| {
                let own = (!table.repeats(body, row, column)).then(|| cell.clone());
                own.unwrap_or_default()
            });
            rows.push(title.chain(cells).collect());
        }
    }
    laid_out(&columns, &rows, style)
}

/// Words up to this wide stay in one line, such as `not measured in head`.
const SHORT: usize = 24;

/// A table that fits the width: where it asks for more, columns that find no room follow below, with
/// the names again. Texts wrap at spaces; words and numbers are never broken.
fn laid_out(columns: &[(Kind, &str)], rows: &[Vec<Cell>], style: Style) -> String {
    let texts: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(in_words).collect())
        .collect();
    let line = |text: &str| text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
    let word = |text: &str| text.split_whitespace().map(UnicodeWidthStr::width).max();
    let least = |(index, (kind, head)): (usize, &(Kind, &str))| {
        let cells = || texts.iter().map(|row| row[index].as_str());
        let lines = cells().map(line).max().unwrap_or(0);
        let of_cells = match kind {
            Kind::Number => lines,
            Kind::Word if lines <= SHORT => lines,
            _ => cells().filter_map(word).max().unwrap_or(0),
        };
        word(head).unwrap_or(0).max(of_cells) + PADDING
    };
    let least: Vec<usize> = columns.iter().enumerate().map(least).collect();
    // On a terminal columns stand apart by one more.
    let apart = usize::from(style != Style::Plain);
    let widths: Vec<f64> = least.iter().map(|width| (width + apart) as f64).collect();
    let kinds: Vec<Kind> = columns.iter().map(|(kind, _)| *kind).collect();
    let parts = parts(&kinds, &widths, (style.width() + apart) as f64);
    let part = |chosen: &Vec<usize>| {
        let mut grid = ruled(style);
        let heads = chosen.iter().map(|&column| columns[column].1);
        grid.set_header(heads.map(|head| Drawn::new(head).add_attribute(Attribute::Bold)));
        for (row, texts) in rows.iter().zip(&texts) {
            let cells = chosen.iter();
            grid.add_row(cells.map(|&column| drawn(&row[column], &texts[column], style)));
        }
        for (drawn, &column) in grid.column_iter_mut().zip(chosen) {
            let width = u16::try_from(least[column]).unwrap_or(u16::MAX);
            drawn.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            if kinds[column] == Kind::Number {
                drawn.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines = grid.lines();
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    };
    parts.iter().map(part).collect::<Vec<String>>().join("\n")
}

/// The columns of each of the tables that a table becomes, by their widths: what names a row is in
/// all of them, as far as the widest other column has room beside it.
fn parts(kinds: &[Kind], widths: &[f64], room: f64) -> Vec<Vec<usize>> {
    let leading = |named: &[Kind]| kinds.iter().take_while(|kind| named.contains(kind)).count();
    // Where several rows have one name, a word such as the metric tells them apart.
    let most = leading(&[Kind::Name, Kind::Word]).min(leading(&[Kind::Name]) + 1);
    let taken = |names: usize| widths[..names].iter().sum::<f64>();
    let widest = |from: usize| widths[from..].iter().copied().fold(0.0, f64::max);
    let repeated = (1..=most)
        .rev()
        .find(|&names| taken(names) + widest(names) <= room);
    let names: Vec<usize> = (0..repeated.unwrap_or(1).min(kinds.len())).collect();
    let own = taken(names.len());
    let mut all = vec![names.clone()];
    let mut used = own;
    for (column, width) in widths.iter().enumerate().skip(names.len()) {
        let last = all.len() - 1;
        if used + width > room && all[last].len() > names.len() {
            all.push(names.clone());
            used = own;
        }
        used += width;
        if let Some(last) = all.last_mut() {
            last.push(column);
        }
    }
    all
}

/// Spaces beside a column's text, on both sides together.
const PADDING: usize = 2;

fn ruled(style: Style) -> Grid {
    let mut grid = Grid::new();
    // The caller knows where the text goes; the table must not ask stdout itself.
    grid.force_no_tty();
    grid.set_width(u16::try_from(style.width()).unwrap_or(u16::MAX));
    grid.set_content_arrangement(ContentArrangement::Dynamic);
    match style {
        Style::Plain => grid.load_style(presets::NOTHING),
        Style::Terminal(_) => {
            grid.load_style(presets::UTF8_HORIZONTAL_ONLY);
            grid.enforce_styling()
        }
    };
    grid
}

fn in_words(cell: &Cell) -> String {
    match cell.note.as_str() {
        "" => clean(&cell.text),
        note => format!("{} ({})", clean(&cell.text), clean(note)),
    }
}

fn drawn(cell: &Cell, text: &str, style: Style) -> Drawn {
    let drawn = Drawn::new(text);
    match cell.mark {
        Some(_) if style == Style::Plain => drawn,
        Some(Mark::Bad | Mark::Failure) => drawn.fg(Color::Red).add_attribute(Attribute::Bold),
        Some(Mark::Good) => drawn.fg(Color::Green),
        Some(Mark::Unknown) => drawn.fg(Color::Yellow),
        _ => drawn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines, without colours and rules, once each of them is found to fit.
    fn shown(columns: &[(Kind, &str)], row: &[&str], width: usize) -> Vec<String> {
        let row = row.iter().map(|cell| Cell::from(*cell)).collect();
        let text = laid_out(columns, &[row], Style::Terminal(width));
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
    fn a_name_wraps_before_numbers_go_below() {
        let name = "amp-bf16 bs8 checkpointing=blocks";
        let lines = shown(&MEMORY, &[name, "1234 a", "512.0 MiB", "1.500 GiB"], 60);
        assert!(lines[1].contains("1234 a") && lines[1].contains("1.500 GiB"));
        assert!(!lines[1].contains(name), "{lines:?}");
    }

    #[test]
    fn columns_without_room_follow_below_with_the_names_again() {
        let row = ["fp32 bs8", "1234 a", "512.0 MiB", "1.500 GiB"];
        let lines = shown(&MEMORY, &row, 36);
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
        let lines = shown(&columns, &row, 60);
        let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        assert_eq!(
            (with("checkpointing=blocks"), with("memory")),
            (2, 2),
            "{lines:?}"
        );
    }

    /// As those of a change in a series.
    #[test]
    fn names_that_leave_no_room_are_not_all_repeated() {
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
        assert!(laid_out(&columns, &rows, Style::Terminal(40)).contains(&word));
    }
}
