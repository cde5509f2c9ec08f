//! `cargo xtask ledger`: look at regressions, and accept them.

use std::path::PathBuf;

use history::{Acceptance, Entry, History, LedgerFile, State};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use reports::format::plural;

use crate::{
    cli::{AcceptArgs, Format, LedgerArgs, LedgerCommand},
    commands::{history::file, trend::ledger},
    error::Result,
    printer::{Printer, table_style},
};

/// Carries one of its commands out.
pub(crate) fn run(args: &LedgerArgs, printer: &Printer) -> Result<()> {
    match &args.command {
        LedgerCommand::List { all, format } => list(&look(args)?, *all, *format, printer),
        LedgerCommand::Show { id } => show(&look(args)?, id, printer),
        LedgerCommand::Accept(accept) => self::accept(args, accept, printer),
        LedgerCommand::Withdraw { id } => {
            let mut file = LedgerFile::open(path(args)?)?.existing()?;
            let count = file.ledger.withdraw(id)?;
            file.save()?;
            let acceptances = plural(count, "acceptance", "acceptances");
            printer.line(&format!("{id}: {acceptances} taken back"));
            Ok(())
        }
        LedgerCommand::Prune { fixed_before } => prune(args, *fixed_before, printer),
    }
}

/// Of both ledgers, since what one of them has is known to the other with the next night.
fn prune(args: &LedgerArgs, fixed_before: Date, printer: &Printer) -> Result<()> {
    // The last day there is ends after the last moment there is.
    let midnight = fixed_before.to_zoned(TimeZone::UTC);
    let moment = midnight.map_or(Timestamp::MAX, |midnight| midnight.timestamp());
    let mut file = LedgerFile::open(path(args)?)?.existing()?;
    let mut gone = file.ledger.prune(moment.into());
    let of_history = match &args.ledger {
        Some(_) => history_path(args),
        None => None,
    };
    if let Some(path) = of_history {
        let mut other = LedgerFile::open(path)?;
        gone.extend(other.ledger.prune(moment.into()));
        other.save()?;
    }
    file.save()?;
    gone.sort_unstable();
    gone.dedup();
    for id in &gone {
        printer.line(id);
    }
    let entries = plural(gone.len(), "entry", "entries");
    printer.note(&format!("{entries} fixed before {fixed_before} forgotten"));
    Ok(())
}

fn path(args: &LedgerArgs) -> Result<PathBuf> {
    match &args.ledger {
        Some(path) => Ok(path.clone()),
        None => Ok(History::open_existing(file(&args.file)?)?.ledger_path()),
    }
}

fn look(args: &LedgerArgs) -> Result<LedgerFile> {
    Ok(LedgerFile::look_at(path(args)?)?.existing()?)
}

fn told(entry: &Entry, now: Timestamp) -> String {
    let standing = ledger::usual(entry, now);
    ledger::shown(entry, standing, &ledger::Units::new(), now).told()
}

fn list(file: &LedgerFile, all: bool, format: Format, printer: &Printer) -> Result<()> {
    let now = Timestamp::now();
    let entries = file.ledger.entries();
    let mut shown: Vec<&Entry> = entries
        .iter()
        .filter(|entry| all || entry.state(now) != State::Fixed)
        .collect();
    let begun = |entry: &&Entry| entry.last_good.time.seconds();
    shown.sort_by(|a, b| begun(b).total_cmp(&begun(a)));
    if format == Format::Json {
        return printer.json(&shown);
    }
    let mark = if format == Format::Markdown { "- " } else { "" };
    for entry in &shown {
        printer.line(&format!("{mark}{}", told(entry, now)));
    }
    let count = |state: State| {
        let alike = entries.iter().filter(|entry| entry.state(now) == state);
        alike.count()
    };
    printer.note(&format!(
        "{}: {} open, {} accepted, {} fixed",
        file.path().display(),
        count(State::Open),
        count(State::Accepted),
        count(State::Fixed)
    ));
    Ok(())
}

fn show(file: &LedgerFile, id: &str, printer: &Printer) -> Result<()> {
    let now = Timestamp::now();
    let entry = file.ledger.entry(id)?;
    let entry = ledger::shown(entry, ledger::usual(entry, now), &ledger::Units::new(), now);
    printer.raw(&reports::trend::ledger_text(&[entry], table_style()));
    Ok(())
}

/// An entry that only the history knows yet is taken over into the named file with its acceptance.
fn accept(args: &LedgerArgs, accept: &AcceptArgs, printer: &Printer) -> Result<()> {
    let mut file = LedgerFile::open(path(args)?)?;
    if args.ledger.is_some() && file.ledger.entry(&accept.id).is_err() {
        let history = history_path(args).and_then(|path| LedgerFile::look_at(path).ok());
        if let Some(found) = history.filter(|found| found.ledger.entry(&accept.id).is_ok()) {
            file.ledger = std::mem::take(&mut file.ledger).with_found(&found.ledger);
        }
    }
    let acceptance = Acceptance {
        by: accept.by.clone(),
        why: accept.why.clone(),
        until: accept.until,
        cells: accept.cells.clone(),
        metrics: accept.metrics.clone(),
    };
    let now = Timestamp::now();
    if acceptance.has_expired(now) {
        printer.note(&format!(
            "{}: the acceptance has expired already, and the gate fails for it once more",
            accept.id
        ));
    }
    let line = told(file.ledger.accept(&accept.id, acceptance)?, now);
    file.save()?;
    printer.line(&line);
    Ok(())
}

fn history_path(args: &LedgerArgs) -> Option<PathBuf> {
    let history = History::open_existing(file(&args.file).ok()?).ok()?;
    Some(history.ledger_path())
}
