//! Documents as GitHub's Markdown.

use std::borrow::Borrow;

use crate::{
    document::{Block, Body, Card, Cell, Column, Kind, Table},
    measure,
    words::format,
};

/// A table has at most so many rows; those behind them are counted.
const MOST_ROWS: usize = 200;
/// Most characters: a comment on GitHub has at most 65,536, and whoever posts one may want to add a
/// sentence.
const MOST_CHARACTERS: usize = 60_000;
/// Size of the text of a table there, less what its font is narrower than the one measured with.
const SIZE: f64 = 14.0 * 0.87;
/// Names longer than this wrap.
const WIDEST_NAME: f64 = 210.0;

/// What `write` comes to with as many rows a table as a comment has room for.
pub(crate) fn for_a_comment(write: impl Fn(usize) -> String) -> String {
    let mut rows = MOST_ROWS;
    loop {
        let text = write(rows);
        if text.chars().count() <= MOST_CHARACTERS {
            return text;
        }
        if rows == 0 {
            return cut(&text);
        }
        rows /= 2;
    }
}

/// Whole lines, as many as there is room for.
fn cut(text: &str) -> String {
    const END: &str = "\nThe rest is in the report.\n";
    let mut room = MOST_CHARACTERS - END.chars().count();
    let lines = text.split_inclusive('\n').take_while(|line| {
        let length = line.chars().count();
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    });
    lines.collect::<String>() + END
}

/// Blocks with headings from this level on.
pub(crate) fn document(blocks: &[Block], level: usize) -> String {
    limited(blocks, level, MOST_ROWS)
}

pub(crate) fn limited<T: Borrow<Block>>(blocks: &[T], level: usize, most_rows: usize) -> String {
    blocks
        .iter()
        .map(|one| block(one.borrow(), level, most_rows))
        .collect()
}

fn block(block: &Block, level: usize, most_rows: usize) -> String {
    match block {
        Block::Heading(text) => format!("{} {}\n\n", "#".repeat(level), escape(text)),
        Block::Subheading(text) => format!("{} {}\n\n", "#".repeat(level + 1), escape(text)),
        Block::Text(text) => format!("{}\n\n", prose(text)),
        Block::Counts(counts) => {
            let words = counts
                .iter()
                .map(|(count, word, _)| format!("{count} {word}"));
            format!("**{}**\n\n", words.collect::<Vec<_>>().join(" · "))
        }
        Block::Verdict(mark, text) => format!("{}{}\n\n", mark.look().1, escape(text)),
        Block::Method(text) => format!("<sub>{}</sub>\n\n", prose(text)),
        Block::Warnings(texts) => {
            let lines = texts.iter().map(|text| format!("> - {}\n", prose(text)));
            format!("> [!WARNING]\n{}\n", lines.collect::<String>())
        }
        Block::List(items) => list(items) + "\n",
        Block::Table(one) => table(one, most_rows) + "\n",
        Block::Picture(picture) => {
            let tables = picture.tables();
            tables.map(|one| table(&one, most_rows) + "\n").collect()
        }
        Block::Commands(_) => String::new(),
        Block::Folded(title, inside) => folded(title, &limited(inside, level + 1, most_rows)),
        Block::Cards(cards) => cards.iter().map(card).collect(),
    }
}

fn list<T: AsRef<str>>(items: &[T]) -> String {
    items
        .iter()
        .map(|item| format!("- {}\n", prose(item.as_ref())))
        .collect()
}

fn folded(title: &str, inside: &str) -> String {
    format!(
        "<details><summary>{}</summary>\n\n{inside}</details>\n\n",
        escape(title)
    )
}

fn card(card: &Card) -> String {
    let facts = card
        .facts
        .iter()
        .map(|(name, value)| format!("{name}: {value}"));
    let layers = card.layers.iter();
    let layers =
        layers.map(|(holds, size)| format!("Layer: {holds}, {}", format::bytes(*size as f64)));
    let items: Vec<String> = facts.chain(layers).collect();
    format!("**{}**\n\n{}\n", escape(&card.title), list(&items))
}

/// Titles of bodies are a column of their own; what else is to be said of them follows below. What
/// is wider than a comment on GitHub scrolls there.
fn table(table: &Table, most_rows: usize) -> String {
    let title_head = (!table.title_head.is_empty()).then(|| Kind::Name.column(table.title_head));
    let columns: Vec<Column> = title_head.iter().chain(&table.columns).cloned().collect();
    let bodies = table.bodies.iter();
    let all = bodies.flat_map(|body| body.rows.iter().map(move |row| (body, row)));
    let all: Vec<(&Body, &Vec<Cell>)> = all.collect();
    let rows = all.iter().take(most_rows).map(|(body, row)| {
        let cells = body.title.iter().chain(*row).zip(&columns);
        let cells = cells.map(|(cell, column)| entry(cell, column.kind));
        cells.collect()
    });
    let line = |entries: Vec<String>| format!("| {} |\n", entries.join(" | "));
    let rules = columns.iter().map(|column| match column.kind {
        Kind::Number => "---:",
        _ => "---",
    });
    let rules = rules.collect::<Vec<_>>().join("|");
    let mut text = line(columns.iter().map(|column| escape(column.head)).collect());
    text += &format!("|{rules}|\n");
    text.extend(rows.map(line));
    if all.len() > most_rows {
        let more = all.len() - most_rows;
        text += &format!("\n{more} more rows are in the report.\n");
    }
    let notes = table.bodies.iter().filter(|body| !body.note.is_empty());
    let note = |body: &Body| Some(format!("{}: {}", body.title.as_ref()?.text, body.note));
    let notes: Vec<String> = notes.filter_map(note).collect();
    if !notes.is_empty() {
        text += "\n";
        text += &folded("Notes", &(list(&notes) + "\n"));
    }
    if !table.caption.is_empty() {
        text += &format!("\n<sub>{}</sub>\n", escape(&table.caption));
    }
    text
}

fn entry(cell: &Cell, kind: Kind) -> String {
    let text = match kind {
        Kind::Name => {
            let lines = measure::wrap(&format::clean(&cell.text), SIZE, WIDEST_NAME);
            let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
            lines.join("<br>")
        }
        _ => escape(&cell.text),
    };
    let text = match &cell.href {
        Some(href) => format!("[{text}]({href})"),
        None => text,
    };
    if cell.note.is_empty() {
        text
    } else {
        format!("{text}<br>({})", escape(&cell.note))
    }
}

/// A sentence whose parts between backticks are code.
fn prose(text: &str) -> String {
    let text = format::clean(text);
    let parts = format::code(&text).into_iter();
    let parts = parts.map(|(is_code, part)| {
        if is_code {
            format!("`{part}`")
        } else {
            escape(part)
        }
    });
    parts.collect()
}

/// A text that means itself in Markdown: no markup, no mention, no reference, no HTML.
pub fn escape(text: &str) -> String {
    let text = format::clean(text);
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    for (index, &c) in chars.iter().enumerate() {
        let beside = |offset: usize| chars.get(offset).is_some_and(|c| c.is_alphanumeric());
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '_' if index > 0 && beside(index - 1) && beside(index + 1) => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_means_itself() {
        let check = |text: &str, expect: &str| assert_eq!(escape(text), expect);
        check("max_split_size_mb:64", "max_split_size_mb:64");
        check(
            "<script>alert(1)</script>",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        );
        check(
            "a|b `c` *d* @someone #12",
            r"a\|b \`c\` \*d\* &#64;someone &#35;12",
        );
        check("_emphasis_", r"\_emphasis\_");
        check("line\nbreak", "line break");
        check("![x](y)", r"\!\[x\](y)");
        assert_eq!(
            prose("`a|b: <1>` would *do* `"),
            r"`a|b: <1>` would \*do\* \`"
        );
    }
}
