//! The verdicts that a report is about: those of the metrics that answer its suites' questions.

use std::collections::BTreeMap;

use judge::compare::{Direction, Verdict};
use metrics::Metric;
use verdict::{CellVerdicts, MetricVerdict, Verdicts};

use super::{SessionSummary, VariantVerdicts, View};
use crate::{comparison, format};

/// One metric of one cell, judged.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// The cell in words, with what it is held against where that is not the same for all.
    pub cell: String,
    /// The metric.
    pub metric: &'static Metric,
    /// Its verdict.
    pub found: &'a MetricVerdict,
}

impl Change<'_> {
    /// How much better, as a logarithm; below 0 worse. 0 where there is no ratio.
    #[must_use]
    pub fn gain(&self) -> f64 {
        let log = self.found.comparison.ratio.map_or(0.0, f64::ln);
        match self.metric.direction {
            Direction::HigherIsBetter => log,
            Direction::LowerIsBetter => -log,
        }
    }

    /// Its verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.found.comparison.verdict
    }
}

/// The metrics that a session's suite is about: those that it names, or those that a gate looks at.
#[must_use]
pub fn metrics_of(session: &SessionSummary, suite: &str) -> Vec<&'static Metric> {
    let named = session.questions.get(suite).map(|asked| &asked.answered_by);
    let named: Vec<&'static Metric> = named
        .into_iter()
        .flatten()
        .filter_map(|name| Metric::named(name))
        .collect();
    if named.is_empty() {
        return Metric::compared()
            .filter(|metric| metric.is_gated())
            .collect();
    }
    named
}

/// The verdicts of a report, the worst change first: what its sessions compare, by gated metric,
/// or else the variants against the first of their scenario.
#[must_use]
pub fn of<'a>(view: &'a View) -> Vec<Change<'a>> {
    let mut all = Vec::new();
    for session in &view.report.sessions {
        for verdicts in &session.comparisons {
            all.extend(of_comparison(verdicts, session.comparisons.len() > 1));
        }
        for variants in &session.variants {
            all.extend(of_variants(view, session, variants));
        }
    }
    all.sort_by(|a, b| a.gain().total_cmp(&b.gain()));
    all
}

/// The verdicts of one comparison by gated metric.
pub(crate) fn of_comparison(
    verdicts: &Verdicts,
    has_several: bool,
) -> impl Iterator<Item = Change<'_>> {
    let measured = verdicts.all().filter(|(cell, found)| {
        found.gated && found.not_measured_in.is_none() && cell.lost().is_none()
    });
    measured.filter_map(move |(cell, found)| {
        let name = comparison::cell_name(cell);
        let cell = if has_several {
            format!("{name} in {}", verdicts.head.image)
        } else {
            name
        };
        let metric = Metric::named(&found.metric)?;
        Some(Change {
            cell: format::clean(&cell),
            metric,
            found,
        })
    })
}

fn of_variants<'a>(
    view: &'a View,
    session: &'a SessionSummary,
    variants: &'a VariantVerdicts,
) -> impl Iterator<Item = Change<'a>> {
    let lanes = view.groups.iter().flat_map(super::Group::lanes);
    let own = lanes.filter(|(_, cell)| {
        let cell = &view.report.cells[*cell];
        cell.session == session.session
            && cell.image == variants.image
            && (&cell.suite, &cell.scenario) == (&variants.suite, &variants.scenario)
    });
    let labels: BTreeMap<String, &str> = own
        .map(|(row, _)| (row.variant.to_string(), row.label.as_str()))
        .collect();
    let label = move |variant: &str| {
        labels
            .get(variant)
            .map_or(variant, |label| label)
            .to_owned()
    };
    let wanted = metrics_of(session, &variants.suite);
    let baseline = label(&variants.baseline);
    let name = move |cell: &CellVerdicts| {
        let (scenario, own) = (&variants.scenario, label(&cell.variant));
        format::clean(&format!("{scenario}: {own} against {baseline}"))
    };
    variants.cells.iter().flat_map(move |cell| {
        let name = name(cell);
        let wanted = wanted.clone();
        cell.metrics.iter().filter_map(move |found| {
            let metric = Metric::named(&found.metric)?;
            let is_wanted = wanted.contains(&metric) && found.not_measured_in.is_none();
            is_wanted.then(|| Change {
                cell: name.clone(),
                metric,
                found,
            })
        })
    })
}
