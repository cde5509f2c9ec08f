//! The page: one file, readable without scripts and without a network.

use askama::Template;

use super::{Series, Urgency, picture, table};
use crate::{
    ReportError,
    format::{self, plural},
    plots::Table,
    svg::ink,
};

/// Series beyond so many are named and not drawn; those that call for somebody come first.
const MOST_DRAWN: usize = 200;

#[derive(Template)]
#[template(path = "trend.html")]
struct Page {
    title: String,
    subtitle: String,
    style: String,
    summary: Vec<String>,
    groups: Vec<Group>,
    left_out: usize,
}

struct Group {
    id: &'static str,
    title: &'static str,
    series: Vec<Drawn>,
}

struct Drawn {
    title: String,
    subtitle: String,
    remark: Option<String>,
    svg: String,
    table: Option<String>,
}

const GROUPS: [(Urgency, &str, &str); 5] = [
    (
        Urgency::Regressed,
        "regressed",
        "Regressed with the last run",
    ),
    (Urgency::Stale, "stale", "Without new results"),
    (Urgency::News, "news", "Changed with the last run"),
    (Urgency::Changed, "changed", "Changed before"),
    (Urgency::Quiet, "quiet", "Without a change of level"),
];

/// The whole page; `source` says where the series come from, `made` when the page was made.
pub fn html(all: &[Series], source: &str, made: &str) -> Result<String, ReportError> {
    let mut number = 0;
    let mut groups = Vec::new();
    for (urgency, id, title) in GROUPS {
        let mut drawn = Vec::new();
        for series in all.iter().filter(|series| series.urgency() == urgency) {
            number += 1;
            if number <= MOST_DRAWN {
                drawn.push(draw(series, number)?);
            }
        }
        if !drawn.is_empty() {
            groups.push(Group {
                id,
                title,
                series: drawn,
            });
        }
    }
    let page = Page {
        title: "Torchgauge · trend".to_owned(),
        subtitle: format::clean(&format!("{source} · {made}")),
        style: format!(
            "{}\n{}",
            ink::style_sheet(),
            include_str!("../../templates/report.css")
        ),
        summary: summary(all),
        groups,
        left_out: number.saturating_sub(MOST_DRAWN),
    };
    Ok(page.render()?)
}

fn summary(all: &[Series]) -> Vec<String> {
    let count = |urgency| {
        let alike = all.iter().filter(|series| series.urgency() == urgency);
        alike.count()
    };
    let changed = all.iter().filter(|series| !series.changes.is_empty());
    let mut told = vec![format!(
        "{}, {} with a change of level.",
        plural(all.len(), "series", "series"),
        changed.count()
    )];
    let stale = all.iter().filter(|series| series.is_stale()).count();
    for (count, words) in [
        (count(Urgency::Regressed), "regressed with the last run"),
        (stale, "without new results for longer than usual"),
        (count(Urgency::News), "changed otherwise with the last run"),
    ] {
        if count > 0 {
            told.push(format!("{}: {words}.", plural(count, "series", "series")));
        }
    }
    told
}

fn draw(series: &Series, number: usize) -> Result<Drawn, ReportError> {
    let changes = Table {
        caption: String::new(),
        heads: table::HEADS.map(str::to_owned).to_vec(),
        rows: table::rows(series)
            .into_iter()
            .map(|row| row.to_vec())
            .collect(),
        names: 3,
        open: false,
    };
    Ok(Drawn {
        title: format::clean(&series.title),
        subtitle: format::clean(&series.subtitle),
        remark: series.remark(),
        svg: picture::draw(series, number)?,
        table: (!series.changes.is_empty()).then(|| changes.html()),
    })
}
