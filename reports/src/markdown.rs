//! Documents as GitHub's Markdown; `report.md`, for a pull request.

use crate::{
    document::{Block, Body, Card, Cell, Kind, Table},
    format,
    model::View,
    sections::{self, Section},
};

/// More rows of a table than this are counted, not listed: a comment on GitHub has at most 65,536 characters.
const MOST_ROWS: usize = 200;

/// The report as Markdown.
#[must_use]
pub fn render(view: &View) -> String {
    let mut text = format!("## {}\n\n", escape(&sections::title(view)));
    text += &document(&sections::verdict(view), 3);
    text += &document(&sections::top(view), 3);
    for Section { title, blocks, .. } in sections::of(view) {
        text += &format!("### {title}\n\n{}", document(&blocks, 4));
    }
    let facts = Block::Folded(sections::FACTS.to_owned(), sections::facts(view));
    text + &document(&[facts], 3)
}

/// Blocks with headings from this level on.
pub(crate) fn document(blocks: &[Block], level: usize) -> String {
    blocks.iter().map(|one| block(one, level)).collect()
}

fn block(block: &Block, level: usize) -> String {
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
        Block::Table(one) => table(one) + "\n",
        Block::Folded(title, inside) => folded(title, &document(inside, level + 1)),
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

/// Titles of bodies are a column of their own; what else is to be said of them follows below.
fn table(table: &Table) -> String {
    let title_head = (!table.title_head.is_empty()).then(|| Kind::Name.column(table.title_head));
    let columns = || title_head.iter().chain(&table.columns);
    let line = |entries: Vec<String>| format!("| {} |\n", entries.join(" | "));
    let mut text = line(columns().map(|column| escape(column.head)).collect());
    let rules = columns().map(|column| match column.kind {
        Kind::Number => "---:",
        _ => "---",
    });
    text += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
    let rows: Vec<(&Body, &Vec<Cell>)> = table
        .bodies
        .iter()
        .flat_map(|body| body.rows.iter().map(move |row| (body, row)))
        .collect();
    for (body, row) in rows.iter().take(MOST_ROWS) {
        text += &line(body.title.iter().chain(*row).map(entry).collect());
    }
    if rows.len() > MOST_ROWS {
        text += &format!("\n{} more rows are not shown.\n", rows.len() - MOST_ROWS);
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

fn entry(cell: &Cell) -> String {
    if cell.note.is_empty() {
        escape(&cell.text)
    } else {
        format!("{} ({})", escape(&cell.text), escape(&cell.note))
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
