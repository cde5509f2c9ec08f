//! `ledger`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, HistoryFile};

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct LedgerArgs {
    #[command(flatten)]
    pub(crate) file: HistoryFile,
    /// The ledger's file; default: that of the history
    #[arg(long, value_name = "FILE.toml", global = true)]
    pub(crate) ledger: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: LedgerCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LedgerCommand {
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
    /// Forget entries that are fixed, in the history's ledger and in the one that is named
    Prune {
        /// Those that were fixed before this day, such as 2027-01-31, in UTC
        #[arg(long, value_name = "DATE")]
        fixed_before: jiff::civil::Date,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AcceptArgs {
    /// The entry's ID
    pub(crate) id: String,
    /// Who accepts it
    #[arg(long, value_name = "NAME")]
    pub(crate) by: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// The last day on which it is accepted, such as 2027-01-31, in UTC; default: for good
    #[arg(long, value_name = "DATE")]
    pub(crate) until: Option<jiff::civil::Date>,
    /// These cells alone, as `ledger show` writes them; `*` stands for any run of characters
    #[arg(long = "cell", value_name = "PATTERN")]
    pub(crate) cells: Vec<String>,
    /// These metrics alone
    #[arg(long = "metric", value_name = "PATTERN")]
    pub(crate) metrics: Vec<String>,
}
