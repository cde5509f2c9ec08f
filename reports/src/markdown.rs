//! Documents as GitHub's Markdown; `report.md`, for a pull request.

use crate::{
    document::{Block, Body, Card, Cell, Column, Kind, Table},
    format, measure,
    model::View,
    past,
    sections::{self, Section},
};

/// A table has at most so many rows; those behind them are counted.
const MOST_ROWS: usize = 200;
/// Most characters of `report.md`: a comment on GitHub has at most 65,536, and whoever posts the
/// report may want to add a sentence.
const MOST_CHARACTERS: usize = 60_000;
/// As wide as a comment on GitHub, in pixels.
const WIDTH: f64 = 860.0;
/// Size of the text of a table there, less what its font is narrower than the one measured with.
const SIZE: f64 = 14.0 * 0.87;
/// What a column takes beside its text.
const PADDING: f64 = 27.0;
/// Names longer than this wrap.
const WIDEST_NAME: f64 = 210.0;

/// The report as Markdown: the verdict first, and no longer than a comment may be.
#[must_use]
pub fn render(view: &View) -> String {
    let mut rows = MOST_ROWS;
    loop {
        let text = render_with(view, rows);
        if text.chars().count() <= MOST_CHARACTERS {
            return text;
        }
        if rows == 0 {
            return cut(&text);
        }
        rows /= 2;
    }
}

fn render_with(view: &View, most_rows: usize) -> String {
    let mut text = format!("## {}\n\n", escape(&sections::title(view)));
    text += &limited(&sections::verdict(view), 3, most_rows);
    text += &limited(&sections::changes(view), 3, most_rows);
    text += &limited(&sections::place(view), 3, most_rows);
    text += &limited(&sections::top(view), 3, most_rows);
    for Section { title, blocks, .. } in sections::of(view) {
        text += &format!("### {title}\n\n{}", limited(&blocks, 4, most_rows));
    }
    if !view.past.is_empty() {
        let table = past::table(&past::in_order(&view.past));
        let past = Block::titled("Over time", table, true);
        text += &limited(&past, 3, most_rows);
    }
    let facts = Block::Folded(sections::FACTS.to_owned(), sections::facts(view));
    text + &limited(&[facts], 3, most_rows)
}

/// Whole lines, as many as there is room for.
fn cut(text: &str) -> String {
    const END: &str = "\nThe rest stands in [report.html](report.html).\n";
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

fn limited(blocks: &[Block], level: usize, most_rows: usize) -> String {
    blocks
        .iter()
        .map(|one| block(one, level, most_rows))
        .collect()
}

fn block(block: &Block, level: usize, most_rows: usize) -> String {
    match block {
        Block::Heading(text) => format!("{} {}\n\n", "#".repeat(level), escape(text)),
        Block::Subheading(text) => format!("{} {}\n\n", "#".repeat(level + 1), escape(text)),
        Block::Text(text) => format!("{}\n\n", escape(text)),
        Block::Counts(counts) => {
            let words = counts
                .iter()
                .map(|(count, word, _)| format!("{count} {word}"));
            format!("**{}**\n\n", words.collect::<Vec<_>>().join(" · "))
        }
        Block::Verdict(mark, text) => format!("{}{}\n\n", mark.look().1, escape(text)),
        Block::Method(text) => format!("<sub>{}</sub>\n\n", escape(text)),
        Block::Warnings(texts) => {
            let lines = texts.iter().map(|text| format!("> - {}\n", escape(text)));
            format!("> [!WARNING]\n{}\n", lines.collect::<String>())
        }
        Block::List(items) => list(items) + "\n",
        Block::Table(one) => table(one, most_rows) + "\n",
        Block::Folded(title, inside) => folded(title, &limited(inside, level + 1, most_rows)),
        Block::Cards(cards) => cards.iter().map(card).collect(),
    }
}

fn list<T: AsRef<str>>(items: &[T]) -> String {
    items
        .iter()
        .map(|item| format!("- {}\n", escape(item.as_ref())))
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
/// is wider than a comment on GitHub is several tables, each with the names.
fn table(table: &Table, most_rows: usize) -> String {
    let title_head = (!table.title_head.is_empty()).then(|| Kind::Name.column(table.title_head));
    let columns: Vec<Column> = title_head.iter().chain(&table.columns).cloned().collect();
    let all: Vec<(&Body, &Vec<Cell>)> = table
        .bodies
        .iter()
        .flat_map(|body| body.rows.iter().map(move |row| (body, row)))
        .collect();
    let rows: Vec<Vec<String>> = all
        .iter()
        .take(most_rows)
        .map(|(body, row)| {
            let cells = body.title.iter().chain(*row);
            let cells = cells.zip(&columns);
            cells
                .map(|(cell, column)| entry(cell, column.kind))
                .collect()
        })
        .collect();
    let line = |entries: Vec<String>| format!("| {} |\n", entries.join(" | "));
    let mut text = String::new();
    for chosen in parts(&columns, &rows) {
        if !text.is_empty() {
            text.push('\n');
        }
        let heads = chosen.iter().map(|&column| escape(columns[column].head));
        text += &line(heads.collect());
        let rules = chosen.iter().map(|&column| match columns[column].kind {
            Kind::Number => "---:",
            _ => "---",
        });
        text += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        for row in &rows {
            let cells = chosen.iter().map(|&column| row[column].clone());
            text += &line(cells.collect());
        }
    }
    if all.len() > rows.len() {
        let more = all.len() - rows.len();
        text += &format!("\n{more} more rows are in [report.html](report.html).\n");
    }
    let notes = table.bodies.iter().filter(|body| !body.note.is_empty());
    let notes: Vec<String> = notes
        .filter_map(|body| Some(format!("{}: {}", body.title.as_ref()?.text, body.note)))
        .collect();
    if !notes.is_empty() {
        text += "\n";
        text += &folded("Notes", &(list(&notes) + "\n"));
    }
    if !table.caption.is_empty() {
        text += &format!("\n<sub>{}</sub>\n", escape(&table.caption));
    }
    text
}

/// The columns of each of the tables that a table becomes: the names in all of them.
fn parts(columns: &[Column], rows: &[Vec<String>]) -> Vec<Vec<usize>> {
    let width = |column: usize| {
        let lines = |text: &str| {
            let lines = text.split("<br>").map(|line| measure::width(line, SIZE));
            lines.fold(0.0, f64::max)
        };
        let cells = rows.iter().map(|row| lines(&row[column]));
        cells.fold(measure::bold_width(columns[column].head, SIZE), f64::max) + PADDING
    };
    let leading = |kinds: &[Kind]| {
        let leading = columns
            .iter()
            .take_while(|column| kinds.contains(&column.kind));
        leading.count()
    };
    // Where several rows have one name, a word such as the metric tells them apart.
    let names = leading(&[Kind::Name, Kind::Word]).min(leading(&[Kind::Name]) + 1);
    let names: Vec<usize> = (0..names).collect();
    let own: f64 = names.iter().map(|&column| width(column)).sum();
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut used = f64::INFINITY;
    for (column, of) in columns.iter().enumerate().skip(names.len()) {
        // Sentences wrap by themselves.
        let wide = match of.kind {
            Kind::Message => 0.0,
            _ => width(column),
        };
        if used + wide > WIDTH {
            all.push(names.clone());
            used = own;
        }
        used += wide;
        if let Some(last) = all.last_mut() {
            last.push(column);
        }
    }
    if all.is_empty() { vec![names] } else { all }
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

/// A text that means itself in Markdown: no markup, no mention, no reference, no HTML.
#[must_use]
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
    }
}
