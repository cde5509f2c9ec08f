//! `ledger`: list regressions, and accept them.

use std::{cmp::Reverse, path::PathBuf};

use clap::{Args, Subcommand};
use history::{Acceptance, Entry, LedgerFile, State};
use jiff::Timestamp;
use reports::{format::plural, trend::Entry as Shown};

use crate::{
    cli::{Format, exit_codes, history::HistoryFolder},
    error::Result,
    printer::{Printer, table_style},
};

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct LedgerArgs {
    #[command(flatten)]
    folder: HistoryFolder,
    /// The ledger's file; default: that of the history
    #[arg(long, value_name = "FILE.toml", global = true)]
    ledger: Option<PathBuf>,
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum LedgerCommand {
    /// List what is open and accepted, the newest first
    List {
        /// What is fixed as well
        #[arg(long)]
        all: bool,
        /// How to print it
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Show all that is known of an entry
    Show {
        /// Its ID
        id: String,
    },
    /// Accept an entry, or some of its cells and metrics: gates stay quiet about it
    Accept(AcceptArgs),
    /// Take back what was accepted of an entry
    Withdraw {
        /// Its ID
        id: String,
    },
}

#[derive(Debug, Clone, Args)]
struct AcceptArgs {
    /// The entry's ID
    id: String,
    /// Who accepts it
    #[arg(long, value_name = "NAME")]
    by: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// The last day on which it is accepted, such as 2027-01-31, in UTC; default: for good
    #[arg(long, value_name = "DATE")]
    until: Option<jiff::civil::Date>,
    /// These cells alone, as `ledger show` writes them; `*` matches any characters
    #[arg(long = "cell", value_name = "PATTERN")]
    cells: Vec<String>,
    /// These metrics alone
    #[arg(long = "metric", value_name = "PATTERN")]
    metrics: Vec<String>,
}

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
    }
}

fn path(args: &LedgerArgs) -> Result<PathBuf> {
    match &args.ledger {
        Some(path) => Ok(path.clone()),
        None => Ok(args.folder.existing()?.ledger_path()),
    }
}

fn look(args: &LedgerArgs) -> Result<LedgerFile> {
    Ok(LedgerFile::look_at(path(args)?)?.existing()?)
}

fn told(entry: &Entry, now: Timestamp) -> String {
    Shown::of(entry, now).told()
}

fn list(file: &LedgerFile, all: bool, format: Format, printer: &Printer) -> Result<()> {
    let now = Timestamp::now();
    let entries = file.ledger.entries();
    let shown = entries.iter();
    let mut shown: Vec<&Entry> = shown
        .filter(|one| all || one.state(now) != State::Fixed)
        .collect();
    shown.sort_by_key(|entry| Reverse(entry.last_good.time));
    if format == Format::Json {
        return printer.json(&shown);
    }
    let mark = if format == Format::Markdown { "- " } else { "" };
    for entry in &shown {
        printer.line(&format!("{mark}{}", told(entry, now)));
    }
    let count = |state| {
        entries
            .iter()
            .filter(|entry| entry.state(now) == state)
            .count()
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
    let entry = Shown::of(entry, now);
    printer.raw(&reports::trend::ledger_text(&[entry], table_style()));
    Ok(())
}

fn accept(args: &LedgerArgs, accept: &AcceptArgs, printer: &Printer) -> Result<()> {
    let mut file = LedgerFile::open(path(args)?)?.existing()?;
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
