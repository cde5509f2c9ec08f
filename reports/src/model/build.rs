//! From sessions to a [`View`].

use std::{collections::BTreeSet, fmt::Display};

use ::metrics::{Metric, Rows};
use record::Session;
use verdict::ScenarioPairs;

use super::{
    failure, group, headline,
    pairs::Pairs,
    report::{Headline, Report, SessionSummary, VERSION, VariantVerdicts},
    rerun, sentences,
    source::Source,
    view::View,
    warnings,
};
use crate::words::format;

impl<'a> View<'a> {
    /// Of one or more sessions.
    #[must_use]
    pub fn of(sources: &'a [Source]) -> Self {
        let mut cells = Vec::new();
        let mut runs = Vec::new();
        let mut commands = Vec::new();
        let mut failures = Vec::new();
        let mut contaminated = Vec::new();
        let mut unjudged = Vec::new();
        for source in sources {
            for (cell, of_cell) in group::cells(source) {
                commands.push(rerun::command(&source.session, &cell));
                cells.push(cell);
                runs.push(of_cell);
            }
            failures.extend(source.records.records.iter().filter_map(failure::failure));
            contaminated.extend(failure::contaminated(&source.records.records));
        }
        let mut sessions = Vec::new();
        let mut judged = Vec::new();
        for source in sources {
            let (summary, of_session) = session(source, &mut unjudged);
            judged.push((summary.session.clone(), of_session));
            sessions.push(summary);
        }
        let pairs = Pairs::of(judged, &cells);
        let report = Report {
            version: VERSION,
            headline: Headline::default(),
            summary: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            sessions,
            cells,
            failures,
            contaminated,
        };
        let contenders = group::contenders(&report);
        let groups = group::groups(&report, &contenders);
        let mut view = Self {
            report,
            contenders,
            groups,
            runs,
            commands,
            pairs,
        };
        let clean = |lines: Vec<String>| lines.iter().map(|line| format::clean(line)).collect();
        view.report.headline = headline::of(&view);
        view.report.summary = clean(sentences::of(&view));
        view.report.warnings = clean(warnings::of(&view, sources));
        view.report.warnings.extend(clean(unjudged));
        view.report.notes = clean(warnings::told(&view, |run| &run.notes));
        view
    }
}

/// Sums a session up; what cannot be judged, and why, goes to `unjudged`.
fn session(source: &Source, unjudged: &mut Vec<String>) -> (SessionSummary, Vec<ScenarioPairs>) {
    let (session, records) = (&source.session, &source.records.records);
    let options = verdict::Options::default();
    let mut cannot = |what: &str, error: &dyn Display| {
        unjudged.push(format!("The {what}: {error}."));
    };
    let comparisons = verdict::compare_session(session, records, &options)
        .inspect_err(|error| cannot("images cannot be compared", error))
        .unwrap_or_default();
    let wanted = |suite: &str| wanted(session, suite);
    let pairs = verdict::judge_pairs(session, records, &comparisons, wanted, &options)
        .inspect_err(|error| cannot("variants cannot be compared", error))
        .unwrap_or_default();
    let claims = verdict::judge_claims(session, records, &session.claims, &[])
        .inspect_err(|error| cannot("claims cannot be judged", error))
        .unwrap_or_default();
    let variants = pairs.iter().filter(|_| comparisons.is_empty());
    let devices: BTreeSet<String> = records.iter().map(|run| run.device.to_string()).collect();
    let failed = records.iter().filter(|record| !record.outcome.passes());
    let summary = SessionSummary {
        // Paths of this machine are nobody else's business.
        facts: Session {
            asked: None,
            claims: Vec::new(),
            ..session.clone()
        },
        devices: Vec::from_iter(devices),
        runs: records.len(),
        failed: failed.count(),
        variants: variants.filter_map(VariantVerdicts::of).collect(),
        comparisons,
        claims,
    };
    (summary, pairs)
}

/// The metrics that answer a suite's question.
fn wanted(session: &Session, suite: &str) -> Vec<&'static Metric> {
    let asked = session.questions.get(suite).into_iter();
    let names = asked.flat_map(|asked| &asked.answered_by);
    let rows = Rows::with(&session.metrics);
    names.filter_map(|name| rows.named(name)).collect()
}
