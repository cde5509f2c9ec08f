//! Claims for a terminal or a log.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use judge::claims::Outcome;
use verdict::ClaimFound;

use super::{HEADS, label, lines, not_measured, tally};
use crate::{format::clean, text::Style};

/// Claims as plain text of whatever width they need.
#[must_use]
pub fn text(found: &[ClaimFound]) -> String {
    text_styled(
        found,
        Style {
            width: None,
            plain: true,
        },
    )
}

/// Claims for the terminal at hand.
#[must_use]
pub fn text_styled(found: &[ClaimFound], style: Style) -> String {
    let mut out = String::new();
    for one in found {
        out += &format!(
            "{}: {}\n  {}; {}\n",
            one.outcome,
            clean(&one.claim.statement),
            label(&one.claim),
            clean(&one.claim.source)
        );
        if one.pairs.is_empty() {
            out += &format!("  {}\n\n", clean(&not_measured(&one.claim)));
            continue;
        }
        let table = table(one, style);
        out.extend(table.lines().map(|line| format!("  {}\n", line.trim_end())));
        out += "\n";
    }
    out + &tally(found) + "\n"
}

fn table(found: &ClaimFound, style: Style) -> Table {
    let mut table = Table::new();
    table.force_no_tty();
    if style.plain {
        table.load_style(presets::NOTHING);
    } else {
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.enforce_styling();
    }
    table.set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = style.width {
        table.set_width(width.max(40));
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(HEADS.map(|head| Cell::new(head).add_attribute(Attribute::Bold)));
    for line in lines(found) {
        let outcome = line.outcome;
        let words = line.words();
        let mut row: Vec<Cell> = words.iter().map(|word| Cell::new(clean(word))).collect();
        if !style.plain
            && let Some(last) = row.pop()
        {
            row.push(match outcome {
                Outcome::Refuted => last.fg(Color::Red).add_attribute(Attribute::Bold),
                Outcome::Holds => last.fg(Color::Green),
                Outcome::Inconclusive => last.fg(Color::Yellow),
            });
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(3).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
