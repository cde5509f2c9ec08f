//! `cargo xtask session`: what of a session can be read.

use std::collections::{BTreeMap, BTreeSet};

use bench_suite::plan::planned_runs;
use record::{Record, Session, SessionFolder};
use reports::format::plural;

use crate::{
    cli::{CheckArgs, SessionCommand},
    commands::bench,
    error::{Error, Result},
    printer::Printer,
};

/// Carries one of its commands out.
pub(crate) fn run(command: &SessionCommand, printer: &Printer) -> Result<()> {
    match command {
        SessionCommand::Check(args) => check(args, printer),
    }
}

/// So many runs without a record are named.
const MOST_NAMED: usize = 20;

/// No session has more; one that says so is damaged or means harm.
const MOST_PLANNED: usize = 1_000_000;

/// What the session should have a record of and has none: runs of its plan, and of runs that were
/// tried again the tries before. None where the plan is not that of the runs.
fn without_record(session: &Session, records: &[Record]) -> Vec<String> {
    if session.cells.len().saturating_mul(session.blocks as usize) > MOST_PLANNED {
        return Vec::new();
    }
    let planned = planned_runs(session);
    let mut attempts: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for record in records {
        attempts
            .entry(&record.run)
            .or_default()
            .insert(record.attempt);
    }
    let known: BTreeSet<&str> = planned.iter().map(String::as_str).collect();
    if !attempts.keys().all(|run| known.contains(run)) {
        return Vec::new();
    }
    let of_run = |run: &String| match attempts.get(run.as_str()) {
        None => vec![run.clone()],
        Some(there) => {
            let last = there.last().copied().unwrap_or(1);
            let gaps = (1..last).filter(|attempt| !there.contains(attempt));
            // A damaged record may tell of any number of attempts.
            gaps.map(|attempt| format!("{run}, attempt {attempt}"))
                .take(MOST_NAMED + 1)
                .collect()
        }
    };
    planned.iter().flat_map(of_run).collect()
}

fn check(args: &CheckArgs, printer: &Printer) -> Result<()> {
    let folder = SessionFolder::at(&args.session);
    let session = folder.read_session()?;
    let found = folder.read_records()?;
    let recorded: BTreeSet<&str> = found.records.iter().map(|run| run.run.as_str()).collect();
    let planned = session.cells.len() * session.blocks as usize;
    let name = &session.session;
    let runs = plural(planned, "run", "runs");
    let count = recorded.len();
    printer.line(&format!("{name}: {count} of {runs} recorded"));
    let left_out = found.left_out();
    for what in &left_out {
        printer.line(&format!("  {what}"));
    }
    let of_bad_lines = found.bad_lines.iter().filter_map(|bad| bad.run.as_deref());
    let lost: BTreeSet<&str> = of_bad_lines.filter(|run| !recorded.contains(run)).collect();
    for run in &lost {
        printer.line(&format!("  lost: {run}"));
    }
    let mut missing = without_record(&session, &found.records);
    missing.retain(|run| !lost.contains(run.as_str()));
    for run in missing.iter().take(MOST_NAMED) {
        printer.line(&format!("  no record: {run}"));
    }
    if missing.len() > MOST_NAMED {
        let more = missing.len() - MOST_NAMED;
        printer.line(&format!("  no record: {more} more"));
    }
    if left_out.is_empty() {
        printer.line("  every line is a record");
        return Ok(());
    }
    if !args.repair {
        return Err(Error::SessionDamaged {
            lines: left_out.len(),
        });
    }
    let copy = bench_suite::session::repair(&args.session)?;
    printer.line(&format!(
        "  records written anew; the file as it was: {}",
        copy.display()
    ));
    if count < planned {
        let command = bench::resume::command("bench", &args.session);
        printer.line(&format!("  to repeat what is missing: {command}"));
    }
    Ok(())
}
