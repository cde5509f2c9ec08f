//! `session`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SessionCommand {
    /// Say what of a session's records cannot be read, and which runs are lost by it
    #[command(after_help = exit_codes!())]
    Check(CheckArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CheckArgs {
    /// The session's folder
    #[arg(value_name = "DIR")]
    pub(crate) session: PathBuf,
    /// Write the records anew without the lines that cannot be read; the file as it was is kept
    #[arg(long)]
    pub(crate) repair: bool,
}
