//! Verdicts as `JUnit` XML: a suite for each cell, a case for each gated figure.

use judge::compare::Verdict;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use verdict::{FailOn, QuantityVerdict, Verdicts};

use super::{cell_name, effect, headline, interval, label, value, what_would_help};

/// Why there is no XML.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the verdicts as JUnit XML: {0}")]
pub struct JunitError(#[from] quick_junit::SerializeError);

/// Verdicts as `JUnit` XML. A figure that fails the gate is a failed case; one of which nobody can
/// tell is a skipped case, or a failed one where `fail_on` says so.
pub fn junit(verdicts: &Verdicts, fail_on: FailOn) -> Result<String, JunitError> {
    let mut report = Report::new(headline(verdicts));
    for cell in &verdicts.cells {
        let name = cell_name(cell);
        let mut suite = TestSuite::new(name.clone());
        for found in cell.quantities.iter().filter(|found| found.gated) {
            let mut case = TestCase::new(label(found), status(found, fail_on));
            case.set_classname(name.clone());
            case.add_properties(properties(found));
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    Ok(report.to_string()?)
}

fn status(found: &QuantityVerdict, fail_on: FailOn) -> TestCaseStatus {
    let comparison = &found.comparison;
    let mut status = match comparison.verdict {
        Verdict::Better | Verdict::Same => return TestCaseStatus::success(),
        Verdict::CannotTell if fail_on == FailOn::Worse => TestCaseStatus::skipped(),
        Verdict::Worse | Verdict::CannotTell => {
            let mut failed = TestCaseStatus::non_success(NonSuccessKind::Failure);
            failed.set_type(if comparison.verdict == Verdict::Worse {
                "worse"
            } else {
                "cannot-tell"
            });
            failed
        }
    };
    status.set_message(format!(
        "{}: {} to {}, {} ({})",
        comparison.verdict,
        value(found, found.base),
        value(found, found.head),
        effect(found),
        interval(found)
    ));
    let help = what_would_help(found)
        .map(|help| format!("\n{help}"))
        .unwrap_or_default();
    status.set_description(format!("{}{help}", comparison.reason));
    status
}

fn properties(found: &QuantityVerdict) -> Vec<(String, String)> {
    let comparison = &found.comparison;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    [
        ("quantity", found.quantity.clone()),
        ("base", number(found.base)),
        ("head", number(found.head)),
        ("ratio", number(comparison.ratio)),
        (
            "ratio_low",
            number(comparison.interval.map(|interval| interval.lo)),
        ),
        (
            "ratio_high",
            number(comparison.interval.map(|interval| interval.hi)),
        ),
        ("margin", comparison.margin.to_string()),
        ("verdict", comparison.verdict.to_string()),
        ("blocks", comparison.blocks_used.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
