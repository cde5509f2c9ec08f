//! Verdicts for a terminal or a log.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use judge::compare::Verdict;
use verdict::Verdicts;

use super::{
    FAMILY, cell_name, effect, headline, images, interval, label, looks, tally, value, warnings,
    what_would_help,
};
use crate::{format, text::Style};

/// Verdicts as plain text of whatever width they need.
#[must_use]
pub fn text(verdicts: &Verdicts) -> String {
    text_styled(
        verdicts,
        Style {
            width: None,
            plain: true,
        },
    )
}

/// Verdicts for the terminal at hand.
#[must_use]
pub fn text_styled(verdicts: &Verdicts, style: Style) -> String {
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
    let heads = [
        "cell",
        "figure",
        "base",
        "head",
        "change",
        "95 % interval",
        "verdict",
    ];
    table.set_header(heads.map(|head| Cell::new(head).add_attribute(Attribute::Bold)));
    for cell in &verdicts.cells {
        let mut name = format::clean(&cell_name(cell));
        for found in &cell.quantities {
            let verdict = found.comparison.verdict;
            let word = if found.gated {
                verdict.to_string()
            } else {
                format!("({verdict})")
            };
            let mut entry = Cell::new(word);
            if !style.plain && found.gated {
                entry = match verdict {
                    Verdict::Worse => entry.fg(Color::Red).add_attribute(Attribute::Bold),
                    Verdict::Better => entry.fg(Color::Green),
                    Verdict::CannotTell => entry.fg(Color::Yellow),
                    Verdict::Same => entry,
                };
            }
            table.add_row(vec![
                Cell::new(std::mem::take(&mut name)),
                Cell::new(label(found)),
                Cell::new(value(found, found.base)),
                Cell::new(value(found, found.head)),
                Cell::new(effect(found)),
                Cell::new(interval(found)),
                entry,
            ]);
        }
    }
    for column in table.column_iter_mut().skip(2).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = format!("{}\n\n", format::clean(&headline(verdicts)));
    out.extend(table.lines().map(|line| format!("{}\n", line.trim_end())));
    out += &format!("\n{}\n{FAMILY}\n", tally(verdicts));
    for (cell, found) in verdicts.all().filter(|(_, found)| found.gated) {
        if let Some(help) = what_would_help(found) {
            let name = format::clean(&cell_name(cell));
            out += &format!("cannot tell: {name}, {}: {help}\n", label(found));
        }
    }
    if let Some(looks) = looks(verdicts) {
        out += &format!("{looks}\n");
    }
    for known in warnings(verdicts) {
        out += &format!("warning: {}\n", format::clean(&known));
    }
    let changes = images::rows(verdicts);
    if !changes.is_empty() {
        out += &format!("\n{}:\n", images::TITLE);
        let mut table = Table::new();
        table.force_no_tty().load_style(presets::NOTHING);
        for row in changes {
            table.add_row(row.map(|text| format::clean(&text)));
        }
        out.extend(table.lines().map(|line| format!("{}\n", line.trim_end())));
    }
    out
}
