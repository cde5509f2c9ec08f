//! `history` and what it shares with `trend`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, IgnoreArgs};

/// Where the history lies.
#[derive(Debug, Clone, Args)]
pub(crate) struct HistoryFile {
    /// The history's file; default: in the user's data folder
    #[arg(long, value_name = "FILE", env = "TORCHGAUGE_HISTORY", global = true)]
    pub(crate) db: Option<PathBuf>,
}

/// Which series; `*` stands for any run of characters.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SeriesArgs {
    /// Of these machines
    #[arg(long, value_name = "PATTERN")]
    pub(crate) machine: Option<String>,
    /// On these GPUs or CPUs
    #[arg(long, value_name = "PATTERN")]
    pub(crate) device: Option<String>,
    /// Along these tracks of images
    #[arg(long, value_name = "PATTERN")]
    pub(crate) track: Option<String>,
    /// Of these suites
    #[arg(long, value_name = "PATTERN")]
    pub(crate) suite: Option<String>,
    /// Of these scenarios
    #[arg(long, value_name = "PATTERN")]
    pub(crate) scenario: Option<String>,
    /// Of these variants, as reports write them
    #[arg(long, value_name = "PATTERN")]
    pub(crate) variant: Option<String>,
    /// Of these metrics
    #[arg(long, value_name = "PATTERN")]
    pub(crate) metric: Option<String>,
    /// Points of these images
    #[arg(long, value_name = "PATTERN")]
    pub(crate) image: Option<String>,
    /// Points under these drivers
    #[arg(long, value_name = "PATTERN")]
    pub(crate) driver: Option<String>,
    /// Points from sessions on these branches
    #[arg(long, value_name = "PATTERN")]
    pub(crate) branch: Option<String>,
    #[command(flatten)]
    pub(crate) method: IgnoreArgs,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) file: HistoryFile,
    #[command(subcommand)]
    pub(crate) command: HistoryCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Add sessions; adding one again changes nothing
    Add(AddArgs),
    /// List series, or sessions
    List(ListArgs),
    /// Write points into a file for other tools
    Export(ExportArgs),
    /// Add a series measured elsewhere: a CSV file with the header `timestamp,revision,value`
    Import(ImportArgs),
    /// Name sessions to compare with
    #[command(subcommand)]
    Baseline(BaselineCommand),
    /// Take a session, or an imported series, out
    Remove(RemoveArgs),
    /// Check that the file is consistent
    Check,
    /// Make the history again out of its sessions' folders
    Rebuild(RebuildArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct AddArgs {
    /// Folders of sessions
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<PathBuf>,
    /// The branch that was measured
    #[arg(long)]
    pub(crate) branch: Option<String>,
    /// What was measured, such as a commit
    #[arg(long)]
    pub(crate) revision: Option<String>,
    /// The track that an image is followed along, such as `main`; default: the image's name without
    /// versions, or the whole name where images of one session would share a track
    #[arg(long = "track", value_name = "[IMAGE=]NAME")]
    pub(crate) tracks: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// Sessions in place of series
    #[arg(
        long,
        conflicts_with_all = [
            "device", "driver", "track", "suite", "scenario", "variant", "metric", "ignore"
        ]
    )]
    pub(crate) sessions: bool,
    #[command(flatten)]
    pub(crate) series: SeriesArgs,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ExportArgs {
    /// The file; `-` for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) to: PathBuf,
    /// Its format; default: as the file's name ends, and CSV on standard output
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// Every run, in place of one median a session
    #[arg(long)]
    pub(crate) runs: bool,
    #[command(flatten)]
    pub(crate) series: SeriesArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArgs {
    /// The series' name
    pub(crate) name: String,
    /// The file
    pub(crate) file: PathBuf,
    /// The unit of its values; default: none
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) unit: String,
    /// Lower values are better
    #[arg(long)]
    pub(crate) lower_is_better: bool,
    /// The largest change that counts as none, such as 0.02; default: any counts
    #[arg(long, value_name = "SHARE", value_parser = super::share)]
    pub(crate) threshold: Option<f64>,
    /// Put the file's values in place of others at the same timestamp and revision
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RemoveArgs {
    /// The session's name
    pub(crate) session: Option<String>,
    /// The name of an imported series
    #[arg(long, value_name = "NAME")]
    pub(crate) imported: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RebuildArgs {
    /// Where to look for folders of sessions besides where they were: they, or folders with them;
    /// other sessions there are added
    #[arg(value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
    /// Leave out sessions whose folders are not found
    #[arg(long)]
    pub(crate) drop_missing: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BaselineCommand {
    /// Name a session; the name moves if it is taken
    Set {
        /// The baseline's name
        #[arg(value_parser = baseline_name)]
        name: String,
        /// The session's name
        session: String,
    },
    /// List the names
    List,
    /// Forget a name; its session stays
    Remove {
        /// The baseline's name
        name: String,
    },
}

/// `compare @NAME:IMAGE` could not name a baseline with a colon in it.
fn baseline_name(name: &str) -> Result<String, String> {
    if name.contains(':') {
        return Err(
            "a baseline's name has no `:` in it: `compare @NAME:IMAGE` reads what stands behind \
             one as an image; write `-` or `/`"
                .to_owned(),
        );
    }
    Ok(name.to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One header line, one point a line
    Csv,
    /// One JSON object a line
    Jsonl,
}
