//! Cells in the order in which people read them: by scenario, then variant, then image.

use std::collections::BTreeMap;

use protocol::{Axis, Model, Task, Variant};
use record::{Outcome, Record};

use super::{CellMetrics, CellSummary, Report, Source, TimeParts, run_peak};
use crate::format;

/// An image in a session: what several of are shown side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The session's name.
    pub session: String,
    /// The image's name.
    pub image: String,
    /// What tells it from the others, [cleaned](format::clean): the image, the session where all
    /// run the same image, or both.
    pub label: String,
}

/// One scenario with its variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The suite's name.
    pub suite: String,
    /// The scenario's name, [cleaned](format::clean).
    pub scenario: String,
    /// The model.
    pub model: Model,
    /// The task.
    pub task: Task,
    /// What its variants have in common, as text; empty where they have nothing, or where there
    /// is only one.
    pub common: String,
    /// The variants, in the order of the plan.
    pub rows: Vec<Row>,
}

impl Group {
    /// Indices of its cells in the report.
    pub fn cells(&self) -> impl Iterator<Item = usize> {
        self.lanes().map(|(_, cell)| cell)
    }

    /// Its rows with each of their cells.
    pub fn lanes(&self) -> impl Iterator<Item = (&Row, usize)> {
        let rows = self.rows.iter();
        rows.flat_map(|row| row.cells.iter().map(move |&cell| (row, cell)))
    }

    /// Model and task, and what all variants have in common.
    #[must_use]
    pub fn subtitle(&self) -> String {
        if self.task == Task::Idle {
            // Neither a model nor an axis means anything there.
            return String::new();
        }
        let mut text = self.task.to_string();
        if self.scenario != self.model.name() {
            text = format!("{} {text}", self.model);
        }
        if !self.common.is_empty() {
            text = format!("{text} · all with {}", self.common);
        }
        text
    }
}

/// One variant with its cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The choice on every axis.
    pub variant: Variant,
    /// What tells it from the other variants of its scenario.
    pub label: String,
    /// Indices of its cells in the report, in the order of the contenders.
    pub cells: Vec<usize>,
}

/// A session's cells with their runs: those of the plan in its order, then any that were run
/// without standing in it.
pub(super) fn cells(source: &Source) -> Vec<(CellSummary, Vec<&Record>)> {
    let mut keys: Vec<(Key, u32)> = Vec::new();
    for cell in &source.session.cells {
        let key = Key {
            image: &cell.image,
            suite: &cell.suite,
            scenario: &cell.scenario,
            model: cell.model,
            task: cell.task,
            variant: &cell.variant,
        };
        if !keys.iter().any(|(known, _)| *known == key) {
            keys.push((key, source.session.blocks));
        }
    }
    let mut runs: Vec<Vec<&Record>> = vec![Vec::new(); keys.len()];
    for record in &source.records.records {
        let key = Key {
            image: &record.image,
            suite: &record.suite,
            scenario: &record.scenario,
            model: record.model,
            task: record.task,
            variant: &record.variant,
        };
        if let Some(place) = keys.iter().position(|(known, _)| *known == key) {
            runs[place].push(record);
        } else {
            keys.push((key, 0));
            runs.push(vec![record]);
        }
    }
    keys.into_iter()
        .zip(runs)
        .map(|((key, planned), runs)| (summary(source, &key, planned, &runs), runs))
        .collect()
}

#[derive(Debug, PartialEq)]
struct Key<'a> {
    image: &'a str,
    suite: &'a str,
    scenario: &'a str,
    model: Model,
    task: Task,
    variant: &'a Variant,
}

fn summary(source: &Source, key: &Key, planned: u32, runs: &[&Record]) -> CellSummary {
    let good: Vec<&Record> = runs
        .iter()
        .copied()
        .filter(|run| run.outcome.is_ok())
        .collect();
    CellSummary {
        session: source.session.session.clone(),
        image: key.image.to_owned(),
        suite: key.suite.to_owned(),
        scenario: key.scenario.to_owned(),
        model: key.model,
        task: key.task,
        variant: key.variant.clone(),
        cell: format!("{} · {}", key.scenario, key.variant),
        planned,
        runs: runs.len(),
        ok: good.len(),
        failed: runs.iter().filter(|run| !run.outcome.passes()).count(),
        expected: runs
            .iter()
            .filter(|run| matches!(run.outcome, Outcome::Expected { .. }))
            .count(),
        metrics: CellMetrics::of(&good),
        run_peak_made_by: good.iter().find_map(|run| run_peak::made_by(run)),
        time: TimeParts::of(&good),
    }
}

/// The images of all sessions, in the order in which their cells come.
pub(super) fn contenders(report: &Report) -> Vec<Contender> {
    let several = report.sessions.len() > 1;
    let one_image = report
        .cells
        .iter()
        .all(|cell| cell.image == report.cells[0].image);
    let mut found: Vec<Contender> = Vec::new();
    for cell in &report.cells {
        if found
            .iter()
            .any(|known| known.session == cell.session && known.image == cell.image)
        {
            continue;
        }
        let label = match (several, one_image) {
            (true, true) => cell.session.clone(),
            (true, false) => format!("{} @ {}", cell.image, cell.session),
            (false, _) => cell.image.clone(),
        };
        found.push(Contender {
            session: cell.session.clone(),
            image: cell.image.clone(),
            label: format::clean(&label),
        });
    }
    found
}

pub(super) fn groups(report: &Report, contenders: &[Contender]) -> Vec<Group> {
    let mut found: Vec<Group> = Vec::new();
    for (index, cell) in report.cells.iter().enumerate() {
        let group = found.iter().position(|group| {
            group.suite == cell.suite
                && group.scenario == cell.scenario
                && group.model == cell.model
                && group.task == cell.task
        });
        let group = group.unwrap_or_else(|| {
            found.push(Group {
                suite: cell.suite.clone(),
                scenario: cell.scenario.clone(),
                model: cell.model,
                task: cell.task,
                common: String::new(),
                rows: Vec::new(),
            });
            found.len() - 1
        });
        let rows = &mut found[group].rows;
        match rows.iter_mut().find(|row| row.variant == cell.variant) {
            Some(row) => row.cells.push(index),
            None => rows.push(Row {
                variant: cell.variant.clone(),
                label: String::new(),
                cells: vec![index],
            }),
        }
    }
    let place = |cell: &usize| {
        let cell = &report.cells[*cell];
        contenders
            .iter()
            .position(|known| known.session == cell.session && known.image == cell.image)
    };
    let names: Vec<(String, String)> = found
        .iter()
        .map(|group| (group.suite.clone(), group.scenario.clone()))
        .collect();
    for group in &mut found {
        label(group);
        // One name in two suites is two scenarios.
        let is_namesake = |(suite, scenario): &(String, String)| {
            *suite != group.suite && *scenario == group.scenario
        };
        if names.iter().any(is_namesake) {
            group.scenario = format!("{}/{}", group.suite, group.scenario);
        }
        group.scenario = format::clean(&group.scenario);
        for row in &mut group.rows {
            row.cells.sort_by_key(place);
        }
    }
    found
}

/// Gives every row the axes in which the rows differ, and the group those in which they do not.
fn label(group: &mut Group) {
    if let (Task::Idle, [only]) = (group.task, &mut group.rows[..]) {
        // No axis means anything.
        only.label = group.task.to_string();
        return;
    }
    if let [only] = &mut group.rows[..] {
        only.label = words(&only.variant.axes(), |axis| axis.always);
        return;
    }
    let axes: Vec<Axes> = group.rows.iter().map(|row| row.variant.axes()).collect();
    let Some(first) = axes.first() else { return };
    let differs = |axis: &str| axes.iter().any(|other| other.get(axis) != first.get(axis));
    let mut common = first.clone();
    common.retain(|axis, _| !differs(axis));
    group.common = words(&common, |axis| axis.always);
    for (row, axes) in group.rows.iter_mut().zip(&axes) {
        let mut own = axes.clone();
        own.retain(|axis, _| differs(axis));
        row.label = words(&own, |axis| axis.always);
        if row.label.is_empty() {
            row.label = words(&own, |_| true);
        }
        if row.label.is_empty() {
            "usual".clone_into(&mut row.label);
        }
    }
}

type Axes = BTreeMap<String, String>;

/// These axes as words; those at their default only where `always` says so.
fn words(axes: &Axes, always: impl Fn(&Axis) -> bool) -> String {
    let defaults = Variant::default().axes();
    let told: Vec<String> = Axis::in_names()
        .filter_map(|axis| Some((axis, axes.get(axis.name)?)))
        .filter(|(axis, value)| always(axis) || defaults.get(axis.name) != Some(value))
        .map(|(axis, value)| axis.label(value))
        .collect();
    told.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variants: &[&str], common: &str, labels: &[&str]) {
        let row = |json: &&str| Row {
            variant: serde_json::from_str(json).unwrap(),
            label: String::new(),
            cells: Vec::new(),
        };
        let mut group = Group {
            suite: "s".into(),
            scenario: "x".into(),
            model: Model::Resnet50,
            task: Task::Training,
            common: String::new(),
            rows: variants.iter().map(row).collect(),
        };
        label(&mut group);
        let found: Vec<&str> = group.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(found, labels);
        assert_eq!(group.common, common);
    }

    #[test]
    fn labels_say_what_differs() {
        check(&[r#"{"batch":8}"#], "", &["fp32 bs8"]);
        check(
            &[
                r#"{"batch":8,"optimizer":"adamw"}"#,
                r#"{"batch":8,"optimizer":"adamw","checkpointing":"blocks"}"#,
            ],
            "fp32 bs8 adamw",
            &["checkpointing=none", "checkpointing=blocks"],
        );
        check(
            &[
                r#"{"precision":"tf32","batch":8}"#,
                r#"{"precision":"tf32","batch":8,"allocator":"max_split_size_mb:64"}"#,
                r#"{"precision":"amp-bf16","batch":8,"memory_format":"channels-last"}"#,
            ],
            "bs8",
            &[
                "tf32",
                "tf32 max_split_size_mb:64",
                "amp-bf16 channels-last",
            ],
        );
        check(
            &[r#"{"batch":8}"#, r#"{"batch":8,"sequence_length":512}"#],
            "fp32 bs8",
            &["usual", "seq512"],
        );
        check(
            &[
                r#"{"batch":8,"sequence_length":512}"#,
                r#"{"batch":8,"sequence_lengths":"16-512"}"#,
            ],
            "fp32 bs8",
            &["seq512", "seq16-512"],
        );
    }
}
