//! Verdicts as `JUnit` XML: a suite for each cell, a case for each gated metric, and one for the
//! cell's runs where some failed.

use judge::compare::Verdict;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use verdict::{CellVerdicts, FailOn, MetricVerdict, Verdicts};

use crate::words::comparison::{
    cell_name, change, failures, headline, interval, label, lost, what_would_help,
};
use crate::words::format;

#[derive(Debug, thiserror::Error)]
#[error("cannot write the verdicts as JUnit XML: {0}")]
pub struct JunitError(#[from] quick_junit::SerializeError);

/// Verdicts as `JUnit` XML. A metric that fails the gate is a failed case; one that is inconclusive
/// is a skipped case, or a failed one where `fail_on` says so.
pub fn junit(verdicts: &Verdicts, fail_on: FailOn) -> Result<String, JunitError> {
    let mut report = Report::new(headline(verdicts));
    for cell in &verdicts.cells {
        let name = cell_name(cell);
        let mut suite = TestSuite::new(name.clone());
        if let Some(mut case) = runs(cell, fail_on) {
            case.set_classname(name.clone());
            suite.add_test_case(case);
        }
        // Metrics of a cell that works no more say nothing that its runs do not say.
        let metrics = cell.metrics.iter().filter(|_| cell.lost().is_none());
        for found in metrics.filter(|found| found.gated) {
            let mut case = TestCase::new(label(found), status(cell, found, fail_on));
            case.set_classname(name.clone());
            case.add_properties(properties(found));
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    Ok(report.to_string()?)
}

fn runs(cell: &CellVerdicts, fail_on: FailOn) -> Option<TestCase> {
    let failed = failures(cell)?;
    let status = match lost(cell) {
        Some((verdict, why)) => {
            let mut status = no(verdict, fail_on);
            status.set_message(format!("{verdict}: {why}"));
            status.set_description(failed.clone());
            status
        }
        None if cell.metrics.is_empty() && !is_expected(cell) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(failed.clone());
            status
        }
        None => TestCaseStatus::success(),
    };
    let mut case = TestCase::new("runs", status);
    case.set_system_out(failed);
    Some(case)
}

/// Whether every run failed as its suite expects.
fn is_expected(cell: &CellVerdicts) -> bool {
    let failures = cell.failures.iter();
    let mut sides = failures.flat_map(|failures| [&failures.base, &failures.head]);
    sides.all(|side| side.expected == side.runs)
}

/// What `JUnit` calls a verdict that is none of better and same.
fn no(verdict: Verdict, fail_on: FailOn) -> TestCaseStatus {
    if verdict == Verdict::Inconclusive && fail_on == FailOn::Regressed {
        return TestCaseStatus::skipped();
    }
    let mut failed = TestCaseStatus::non_success(NonSuccessKind::Failure);
    failed.set_type(verdict.to_string());
    failed
}

fn status(cell: &CellVerdicts, found: &MetricVerdict, fail_on: FailOn) -> TestCaseStatus {
    let comparison = &found.comparison;
    if found.not_measured_in.is_some() {
        let mut status = no(comparison.verdict, fail_on);
        status.set_message(found.outcome());
        status.set_description(failures(cell).unwrap_or_else(|| found.outcome()));
        return status;
    }
    let mut status = match comparison.verdict {
        Verdict::Improved | Verdict::Unchanged => return TestCaseStatus::success(),
        verdict => no(verdict, fail_on),
    };
    status.set_message(format!(
        "{}: {} ({}, threshold {})",
        comparison.verdict,
        change(found),
        interval(found),
        format::share(comparison.threshold),
    ));
    let help = what_would_help(found).map(|help| format!("\n{help}"));
    status.set_description(comparison.reason.clone() + &help.unwrap_or_default());
    status
}

fn properties(found: &MetricVerdict) -> Vec<(String, String)> {
    let comparison = &found.comparison;
    let ends = comparison.interval;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    [
        ("metric", found.metric.clone()),
        ("base", number(found.base)),
        ("head", number(found.head)),
        ("ratio", number(comparison.ratio)),
        ("ratio_low", number(ends.map(|ends| ends.lo))),
        ("ratio_high", number(ends.map(|ends| ends.hi))),
        ("threshold", comparison.threshold.to_string()),
        ("verdict", found.outcome()),
        ("blocks", comparison.blocks_used.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
