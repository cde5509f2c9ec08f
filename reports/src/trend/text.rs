//! Series as text and as Markdown.

use std::collections::BTreeSet;

use comfy_table::{ContentArrangement, Table, presets};

use super::{Series, table};
use crate::{
    format::{self, plural},
    markdown::{self as md, escape},
};

/// The series that changed or are stale, the gravest first, each with a table of its changes, and
/// how many there are in all.
#[must_use]
pub fn text(all: &[Series]) -> String {
    listing(all, |title, rows| {
        if rows.is_empty() {
            return format!("{title}\n\n");
        }
        let mut drawn = Table::new();
        drawn.force_no_tty();
        drawn.load_style(presets::UTF8_FULL_CONDENSED);
        drawn.set_content_arrangement(ContentArrangement::Disabled);
        drawn.set_header(table::HEADS);
        for row in rows {
            drawn.add_row(row);
        }
        format!("{title}\n{drawn}\n\n")
    })
}

/// As [`text()`], for a pull request or a job's summary.
#[must_use]
pub fn markdown(all: &[Series]) -> String {
    listing(all, |title, rows| {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
        let table = if rows.is_empty() {
            String::new()
        } else {
            md::table(&table::HEADS.map(str::to_owned), 3, &rows) + "\n"
        };
        format!("**{}**\n\n{table}", escape(title))
    })
}

fn listing(all: &[Series], write: impl Fn(&str, &[[String; 9]]) -> String) -> String {
    let mut told: Vec<&Series> = all
        .iter()
        .filter(|series| !series.changes.is_empty() || series.is_stale())
        .collect();
    told.sort_by_key(|series| series.urgency());
    let mut out = String::new();
    for series in told {
        out += &write(&line(series), &table::rows(series));
    }
    let quiet = all
        .iter()
        .filter(|series| series.changes.is_empty())
        .count();
    let superseded = superseded(all);
    out + &format!(
        "{} series, {quiet} of them without a change of level{superseded}\n",
        all.len()
    )
}

/// `, 3 superseded by image new`; nothing where none is.
fn superseded(all: &[Series]) -> String {
    const MOST_NAMED: usize = 3;
    let by: Vec<&str> = all
        .iter()
        .filter_map(|series| series.successor.as_deref())
        .collect();
    let kinds: BTreeSet<&str> = by.iter().copied().collect();
    let named = match kinds.len() {
        0 => return String::new(),
        1..=MOST_NAMED => kinds.into_iter().collect::<Vec<_>>().join(" or "),
        _ => "another image or driver".to_owned(),
    };
    format!(", {} superseded by {}", by.len(), format::clean(&named))
}

/// What there is to say of one series, in a line.
#[must_use]
pub fn line(series: &Series) -> String {
    let name = match series.subtitle.as_str() {
        "" => series.title.clone(),
        subtitle => format!("{} · {subtitle}", series.title),
    };
    let points = plural(series.points.len(), "point", "points");
    let changes = match series.changes.len() {
        0 => "no change of level".to_owned(),
        count => format!("{} of level", plural(count, "change", "changes")),
    };
    let remark = series
        .remark()
        .map_or_else(String::new, |remark| format!("; {remark}"));
    format::clean(&format!("{name}: {points}, {changes}{remark}"))
}
