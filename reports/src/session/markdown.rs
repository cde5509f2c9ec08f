//! `report.md`, for a pull request.

use super::sections;
use crate::{
    document::{Block, Section},
    model::View,
    render::markdown::{for_a_comment, limited},
};

pub use crate::render::markdown::escape;

/// The way to the page.
pub const TO_THE_PAGE: &str = "[The report with its pictures](report.html)";

/// The report as Markdown: the verdict first, and no longer than a comment may be.
pub fn render(view: &View) -> String {
    for_a_comment(|rows| render_with(view, rows))
}

fn render_with(view: &View, most_rows: usize) -> String {
    let mut text = format!("## {}\n\n", escape(&sections::title(view)));
    text += &limited(&sections::verdict(view), 3, most_rows);
    text += &format!("{TO_THE_PAGE}\n\n");
    text += &limited(&sections::changes(view), 3, most_rows);
    text += &limited(&sections::place(view), 3, most_rows);
    text += &limited(&sections::top(view), 3, most_rows);
    for Section { title, blocks, .. } in sections::of(view) {
        text += &format!("### {title}\n\n{}", limited(&blocks, 4, most_rows));
    }
    let facts = Block::Folded(sections::FACTS.to_owned(), sections::facts(view));
    text + &limited(&[facts], 3, most_rows)
}
