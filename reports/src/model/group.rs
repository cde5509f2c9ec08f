//! Cells in the order in which people read them: by scenario, then variant, then image.

use metrics::Rows;
use protocol::{Axes, Axis, Moment};
use record::{Outcome, Record, Workload};

use super::{
    metrics::CellMetrics,
    report::{CellSummary, Report},
    source::Source,
    time::TimeParts,
};
use crate::words::{
    format,
    lists::{grouped, unique},
};

/// An image in a session: what several of are shown side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    pub session: String,
    pub image: String,
    /// What tells it from the others, [cleaned](format::clean): the image, the session where all
    /// run the same image, or both.
    pub label: String,
}

impl Contender {
    pub(super) fn has(&self, cell: &CellSummary) -> bool {
        (&self.session, &self.image) == (&cell.session, &cell.image)
    }
}

/// One scenario with its variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub suite: String,
    /// The scenario's name, [cleaned](format::clean).
    pub scenario: String,
    pub workload: Workload,
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

    pub fn lanes(&self) -> impl Iterator<Item = (&Row, usize)> {
        let rows = self.rows.iter();
        rows.flat_map(|row| row.cells.iter().map(move |&cell| (row, cell)))
    }

    /// What runs, and what all variants have in common.
    pub fn subtitle(&self) -> String {
        if self.workload.is_idle() {
            // Neither a model nor an axis means anything there.
            return String::new();
        }
        let is_named = self.workload.model() == Some(self.scenario.as_str());
        let mut text = match self.workload.task().filter(|_| is_named) {
            Some(task) => format::clean(task),
            None => format::clean(&self.workload.to_string()),
        };
        if !self.common.is_empty() {
            text += &format!(" · all with {}", self.common);
        }
        text
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub axes: Axes,
    /// What tells it from the other variants of its scenario.
    pub label: String,
    /// Indices of its cells in the report, in the order of the contenders.
    pub cells: Vec<usize>,
}

/// A session's cells with their runs: those of the plan in its order, then any that were run
/// without standing in it.
pub(super) fn cells(source: &Source) -> Vec<(CellSummary, Vec<&Record>)> {
    let planned = source.session.cells.iter().map(|cell| {
        let name = (&*cell.image, &*cell.suite, &*cell.scenario);
        ((name, &cell.workload, &cell.axes), None)
    });
    let runs = source.records.records.iter().map(|run| {
        let name = (&*run.image, &*run.suite, &*run.scenario);
        ((name, &run.workload, &run.axes), Some(run))
    });
    let cells = grouped(planned.chain(runs)).into_iter();
    let cells = cells.map(|(key, runs)| {
        let is_planned = runs.iter().any(Option::is_none);
        let runs: Vec<&Record> = runs.into_iter().flatten().collect();
        let blocks = if is_planned { source.session.blocks } else { 0 };
        (summary(source, key, blocks, &runs), runs)
    });
    cells.collect()
}

/// Image, suite, scenario, workload and axes.
type Key<'a> = ((&'a str, &'a str, &'a str), &'a Workload, &'a Axes);

fn summary(
    source: &Source,
    ((image, suite, scenario), workload, axes): Key,
    planned: u32,
    runs: &[&Record],
) -> CellSummary {
    let of = |is: fn(&Record) -> bool| runs.iter().copied().filter(move |run| is(run));
    let good: Vec<&Record> = of(|run| run.outcome.is_ok()).collect();
    CellSummary {
        session: source.session.session.clone(),
        image: image.to_owned(),
        suite: suite.to_owned(),
        scenario: scenario.to_owned(),
        workload: workload.clone(),
        axes: axes.clone(),
        cell: record::cell_name(scenario, &axes.to_string()),
        planned,
        runs: runs.len(),
        ok: good.len(),
        failed: of(|run| !run.outcome.passes()).count(),
        expected: of(|run| matches!(run.outcome, Outcome::Expected(_))).count(),
        metrics: CellMetrics::of(&good, &Rows::with(&source.session.metrics)),
        run_peak_made_by: good.iter().find_map(|run| run_peak_made_by(run)),
        time: TimeParts::of(&good),
    }
}

/// A whole run's peak is worth a word from this many times that of the measured steps on.
pub(crate) const RUN_PEAK_ABOVE: f64 = 1.05;

/// What made the peak, in words; `None` where it does not lie above that of the measured steps, or
/// nobody looked.
fn run_peak_made_by(run: &Record) -> Option<String> {
    let peak = run.values.get("run_peak_allocated_bytes")?;
    if *peak < RUN_PEAK_ABOVE * run.values.get("peak_allocated_bytes")? {
        return None;
    }
    let points = run.memory_points.iter();
    let highest = points.max_by_key(|point| point.peak_allocated_bytes)?;
    let step = highest.step?;
    let part = match highest.moment {
        Moment::Forward => "forward",
        Moment::Backward => "backward",
        Moment::OptimizerStep => "the optimizer",
        Moment::Context | Moment::Model | Moment::Data => return None,
    };
    // Deterministic algorithms are chosen and not tried.
    let deterministic = run.axes.get("deterministic").map(String::as_str);
    let tries = run.device.is_cuda() && deterministic != Some("true") && step == 0;
    Some(if tries {
        format!("cuDNN's trials of algorithms in {part} of the first warm-up step")
    } else {
        format!("{part} of warm-up step {}", step + 1)
    })
}

/// The images of all sessions, in the order in which their cells come.
pub(super) fn contenders(report: &Report) -> Vec<Contender> {
    let several = report.sessions.len() > 1;
    let mut images = report.cells.iter().map(|cell| &cell.image);
    let one_image = images.all(|image| *image == report.cells[0].image);
    let cells = report.cells.iter();
    let found = unique(cells.map(|cell| (&cell.session, &cell.image))).into_iter();
    let found = found.map(|(session, image)| {
        let label = match (several, one_image) {
            (true, true) => session.clone(),
            (true, false) => format!("{image} @ {session}"),
            (false, _) => image.clone(),
        };
        Contender {
            session: session.clone(),
            image: image.clone(),
            label: format::clean(&label),
        }
    });
    found.collect()
}

pub(super) fn groups(report: &Report, contenders: &[Contender]) -> Vec<Group> {
    let cells = report.cells.iter().enumerate();
    let scenarios = grouped(cells.map(|(index, cell)| {
        let key = (&cell.suite, &cell.scenario, &cell.workload);
        (key, (&cell.axes, index))
    }));
    let row = |(axes, cells): (&Axes, Vec<usize>)| Row {
        axes: axes.clone(),
        label: String::new(),
        cells,
    };
    let found = scenarios.into_iter();
    let found = found.map(|((suite, scenario, workload), cells)| Group {
        suite: suite.clone(),
        scenario: scenario.clone(),
        workload: workload.clone(),
        common: String::new(),
        rows: grouped(cells).into_iter().map(row).collect(),
    });
    let mut found: Vec<Group> = found.collect();
    let place = |cell: &usize| {
        let cell = &report.cells[*cell];
        contenders.iter().position(|known| known.has(cell))
    };
    let names = found
        .iter()
        .map(|one| (one.suite.clone(), one.scenario.clone()));
    let names: Vec<_> = names.collect();
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
    if let (true, [only]) = (group.workload.is_idle(), &mut group.rows[..]) {
        // No axis means anything.
        only.label = format::clean(&group.workload.to_string());
        return;
    }
    if let [only] = &mut group.rows[..] {
        only.label = words(&only.axes, |_| true, |axis| axis.always);
        if only.label.is_empty() {
            only.label = format::clean(&group.scenario);
        }
        return;
    }
    let axes: Vec<Axes> = group.rows.iter().map(|row| row.axes.clone()).collect();
    let Some(first) = axes.first() else { return };
    let differs = |axis: &str| axes.iter().any(|other| other.get(axis) != first.get(axis));
    group.common = words(first, |axis| !differs(axis), |axis| axis.always);
    for (row, axes) in group.rows.iter_mut().zip(&axes) {
        row.label = words(axes, differs, |axis| axis.always);
        if row.label.is_empty() {
            row.label = words(axes, differs, |_| true);
        }
        if row.label.is_empty() {
            "usual".clone_into(&mut row.label);
        }
    }
}

/// Those of these axes as words; the workload's own at their default only where `always` says so.
fn words(axes: &Axes, which: impl Fn(&str) -> bool, always: impl Fn(&Axis) -> bool) -> String {
    let usual = Axes::usual();
    let own = Axis::in_names()
        .filter(|axis| which(axis.name))
        .filter_map(|axis| Some((axis, axes.get(axis.name)?)))
        .filter(|(axis, value)| always(axis) || usual.get(axis.name) != Some(value))
        .map(|(axis, value)| format::clean(&axis.label(value)));
    let others = axes.parameters().filter(|(name, _)| which(name));
    let others = others.map(|(name, value)| format::clean(&format!("{name}={value}")));
    own.chain(others).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variants: &[&str], common: &str, labels: &[&str]) {
        let row = |json: &&str| Row {
            axes: serde_json::from_str::<protocol::Variant>(json)
                .unwrap()
                .axes(),
            label: String::new(),
            cells: Vec::new(),
        };
        let mut group = Group {
            suite: "s".into(),
            scenario: "x".into(),
            workload: Workload::Builtin {
                model: "resnet50".into(),
                task: "training".into(),
            },
            common: String::new(),
            rows: variants.iter().map(row).collect(),
        };
        label(&mut group);
        let found: Vec<&str> = group.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(found, labels);
        assert_eq!(group.common, common);
    }

    #[test]
    fn a_program_without_parameters_is_called_as_its_scenario() {
        let row = Row {
            axes: Axes::default(),
            label: String::new(),
            cells: Vec::new(),
        };
        let mut group = Group {
            suite: "s".into(),
            scenario: "train".into(),
            workload: Workload::Program {
                command: vec!["train.py".into()],
            },
            common: String::new(),
            rows: vec![row],
        };
        label(&mut group);
        assert_eq!(group.rows[0].label, "train");
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
