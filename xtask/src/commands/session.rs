//! `cargo xtask session`: what of a session can be read.

use std::collections::BTreeSet;

use record::SessionFolder;
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
