//! `claims`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{compare::IgnoreArgs, format::Format, history::HistoryFolder};

/// What fails the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClaimsFailOn {
    /// A claim that is refuted
    Refuted,
    /// One that is inconclusive, too
    Inconclusive,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = concat!(
        "A session keeps the claims of its suites. With --of, those of another suite are judged by \
         its runs, as far as it measured what they are about.\n\n",
        exit_codes!()
    )
)]
pub(crate) struct ClaimsArgs {
    /// The session: a folder, `@NAME`, `branch=NAME` or `image=NAME`; `:IMAGE` behind it
    /// judges by the runs of one of its images alone
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Judge the claims of this suite in `scenarios/`, or file, in place of the session's own; may
    /// be given several times
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) of: Vec<String>,
    #[command(flatten)]
    pub(crate) method: IgnoreArgs,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Write what was found as a page, Markdown and JSON into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What fails the command with exit code 1; nothing unless given
    #[arg(long, value_enum)]
    pub(crate) fail_on: Option<ClaimsFailOn>,
    /// Where the folders of sessions lie that the history names
    #[arg(long, value_name = "DIR", default_value = "sessions")]
    pub(crate) sessions: PathBuf,
    #[command(flatten)]
    pub(crate) folder: HistoryFolder,
}
