//! What rows are about: by which a page's reader filters them, and how a cell is linked to.

use std::collections::{BTreeMap, BTreeSet};

use protocol::Axis;
use record::Workload;
use verdict::{CellVerdicts, MetricVerdict};

use crate::{
    document::About,
    model::{CellSummary, Failure, Group, SessionSummary, View, changes},
    svg::attribute,
    words::{format, names::Names},
};

/// Where the verdict of a cell stands that others are held against.
const BASELINE: &str = "baseline";

/// What the rows of the table of cells are about, in the order of the report's cells.
pub(crate) fn cells(view: &View) -> Vec<About> {
    let verdicts = verdicts(view);
    let is_judged = verdicts.iter().any(|found| !found.is_empty());
    let differing = differing_axes(view);
    let mut scenarios = vec![""; view.report.cells.len()];
    for group in &view.groups {
        for cell in group.cells() {
            scenarios[cell] = &group.scenario;
        }
    }
    let mut names = Names::default();
    let cells = view.report.cells.iter().enumerate().zip(verdicts);
    let about = cells.map(|((index, cell), verdicts)| {
        let contender = view.has_several().then(|| view.label_of(index));
        let mut facts = vec![("scenario", scenarios[index].to_owned()), workload(cell)];
        facts.extend(contender.map(|label| (view.contender_head(), label.to_owned())));
        let axes = &cell.axes;
        // The model's own, such as its length of sequences.
        let value = |axis: &&'static str| axes.get(*axis).map_or("usual", String::as_str);
        facts.extend(
            differing
                .iter()
                .map(|axis| (*axis, format::clean(value(axis)))),
        );
        facts.push(("status", status(cell).to_owned()));
        if verdicts.is_empty() && is_judged {
            facts.push(("verdict", BASELINE.to_owned()));
        }
        facts.extend(verdicts.into_iter().map(|verdict| ("verdict", verdict)));
        // The same whenever the page is drawn anew.
        let name = format!("cell {} {}", cell.cell, contender.unwrap_or_default());
        About {
            id: names.take(&name).to_lowercase(),
            cell: cell.cell.clone(),
            facts,
        }
    });
    about.collect()
}

/// What a cell runs, in one word where it has one.
fn workload(cell: &CellSummary) -> (&'static str, String) {
    match &cell.workload {
        Workload::Builtin { model, .. } => ("model", format::clean(model)),
        program @ Workload::Program { .. } => ("program", format::clean(&program.to_string())),
    }
}

pub(crate) fn verdict(cell: &CellVerdicts, outcome: &str) -> About {
    let name = record::cell_name(&cell.scenario, &cell.variant);
    judged(&name, &cell.scenario, outcome)
}

/// What a row about a cell of this scenario that came to a verdict is about.
pub(crate) fn judged(cell: &str, scenario: &str, outcome: &str) -> About {
    let scenario = format::clean(scenario);
    of(
        cell,
        vec![("scenario", scenario), ("verdict", outcome.to_owned())],
    )
}

pub(crate) fn claim(outcome: &str) -> About {
    of("", vec![("claim", outcome.to_owned())])
}

pub(crate) fn failure(failure: &Failure) -> About {
    of(&failure.cell, Vec::new())
}

fn of(cell: &str, facts: Vec<(&'static str, String)>) -> About {
    About {
        cell: cell.to_owned(),
        facts,
        ..About::default()
    }
}

fn status(cell: &CellSummary) -> &'static str {
    match cell {
        _ if cell.failed > 0 => "failed",
        _ if cell.expected > 0 => "failed as expected",
        _ if cell.ok == 0 => "not run",
        _ => "ok",
    }
}

/// The axes that have more than one value on the page.
fn differing_axes(view: &View) -> Vec<&'static str> {
    let all: Vec<_> = view.report.cells.iter().map(|cell| &cell.axes).collect();
    let differs = |axis: &&Axis| {
        let mut values = all.iter().map(|axes| axes.get(axis.name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let axes = Axis::in_names().filter(differs);
    axes.map(|axis| axis.name).collect()
}

/// The verdicts on each cell's metrics that the report is about.
fn verdicts(view: &View) -> Vec<BTreeSet<String>> {
    let mut found = vec![BTreeSet::new(); view.report.cells.len()];
    let mut places = BTreeMap::new();
    for (index, cell) in view.report.cells.iter().enumerate() {
        let variant = cell.axes.to_string();
        places.insert(
            (&*cell.session, &*cell.image, &*cell.scenario, variant),
            index,
        );
    }
    let mut add = |session: &SessionSummary, image: &str, cell: &CellVerdicts, is_image: bool| {
        let key = (
            &*session.session,
            image,
            &*cell.scenario,
            cell.variant.clone(),
        );
        let Some(&place) = places.get(&key) else {
            return;
        };
        let wanted = changes::metrics_of(session, &cell.suite);
        let is_wanted = |name: &str| wanted.iter().any(|metric| metric.name == name);
        let judged = cell.metrics.iter().filter(|metric| {
            metric.not_measured_in.is_none()
                && (is_image && changes::is_headline(metric)
                    || !is_image && is_wanted(&metric.metric))
        });
        found[place].extend(judged.map(MetricVerdict::outcome));
    };
    for session in &view.report.sessions {
        for verdicts in &session.comparisons {
            for cell in &verdicts.cells {
                add(session, &verdicts.head.image, cell, true);
            }
        }
        for variants in &session.variants {
            for cell in &variants.cells {
                add(session, &variants.image, cell, false);
            }
        }
    }
    found
}

/// Attributes of what is drawn about the same as a row; nothing for what is about no cell and fact.
pub(crate) fn attributes(about: &About) -> String {
    if *about == About::default() {
        return String::new();
    }
    format!(
        " data-cell=\"{}\" data-facts=\"{}\"",
        attribute(&about.cell),
        query(&about.facts)
    )
}

/// The place of a cell of the report in the table of cells.
pub(crate) fn row_of(view: &View, cell: usize) -> Option<usize> {
    let mut cells = view.groups.iter().flat_map(Group::cells);
    cells.position(|other| other == cell)
}

/// The same of what is drawn of a cell.
pub(crate) fn of_cell(view: &View, cell: usize) -> String {
    let row = row_of(view, cell);
    row.map_or_else(String::new, |row| format!(" data-row=\"{row}\""))
}

/// Facts as the script reads them: `model=resnet50;precision=amp-bf16`.
pub(crate) fn query(facts: &[(&'static str, String)]) -> String {
    let pairs = facts
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join(";")
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        b' ' => "+".to_owned(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_part_of_an_attribute() {
        let facts = [("model", "a b".to_owned()), ("image", "x;y=\"é".to_owned())];
        assert_eq!(query(&facts), "model=a+b;image=x%3By%3D%22%C3%A9");
    }
}
