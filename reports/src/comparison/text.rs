//! Verdicts for a terminal or a log.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use judge::compare::Verdict;
use verdict::Verdicts;

use super::{
    FAMILY, cell_name, effect, headline, images, interval, label, looks, lost, tally, value,
    warnings, what_would_help,
};
use crate::{
    format::{self, UNKNOWN},
    text::Style,
};

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
        "metric",
        "base",
        "head",
        "change",
        "95 % interval",
        "verdict",
    ];
    table.set_header(heads.map(|head| Cell::new(head).add_attribute(Attribute::Bold)));
    for cell in &verdicts.cells {
        let mut name = format::clean(&cell_name(cell));
        let whole = lost(cell).map(|(verdict, _)| verdict);
        // A cell without a metric has its row all the same, or nobody would miss it.
        if whole.is_some() || cell.quantities.is_empty() {
            let runs = |side: fn(&verdict::Failures) -> &verdict::FailedRuns| {
                let side = cell.failures.as_ref().map(side);
                let text = side.map(|side| format!("{} of {} failed", side.failed, side.runs));
                Cell::new(text.unwrap_or_default())
            };
            table.add_row(vec![
                Cell::new(std::mem::take(&mut name)),
                Cell::new("runs"),
                runs(|failures| &failures.base),
                runs(|failures| &failures.head),
                Cell::new(UNKNOWN),
                Cell::new(UNKNOWN),
                whole.map_or_else(|| Cell::new(UNKNOWN), |verdict| word(verdict, style)),
            ]);
        }
        for found in &cell.quantities {
            let entry = match (found.gated, found.not_measured_in) {
                (true, None) => word(found.comparison.verdict, style),
                (true, Some(_)) => Cell::new(found.outcome()),
                (false, _) => Cell::new(format!("({})", found.outcome())),
            };
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
    for cell in &verdicts.cells {
        if let Some((verdict, why)) = lost(cell) {
            out += &format!("{verdict}: {} {why}\n", format::clean(&cell_name(cell)));
        }
    }
    let judged = |cell| lost(cell).is_none();
    for (cell, found) in verdicts
        .all()
        .filter(|(cell, found)| found.gated && judged(cell))
    {
        if let Some(help) = what_would_help(found) {
            let name = format::clean(&cell_name(cell));
            out += &format!("inconclusive: {name}, {}: {help}\n", label(found));
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

/// The verdict of what can fail the gate.
fn word(verdict: Verdict, style: Style) -> Cell {
    let entry = Cell::new(verdict);
    if style.plain {
        return entry;
    }
    match verdict {
        Verdict::Regressed => entry.fg(Color::Red).add_attribute(Attribute::Bold),
        Verdict::Improved => entry.fg(Color::Green),
        Verdict::Inconclusive => entry.fg(Color::Yellow),
        Verdict::Unchanged => entry,
    }
}
