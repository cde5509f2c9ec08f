//! The command line, as clap sees it.

/// What stands below the help of every command that can end in several ways.
macro_rules! exit_codes {
    () => {
        "Exit codes: 0 success; 1 a gate failed; 2 wrong input; 3 some runs failed; 4 environment: \
         engine, GPU, disk or network."
    };
}

mod bisect;
mod claims;
mod compare;
mod history;
mod images;
mod ledger;
#[cfg(test)]
mod reference;
mod session;
mod site;

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use bench_suite::executors::{self, EXECUTORS};
use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{PossibleValue, TypedValueParser},
};

pub(crate) use bisect::BisectArgs;
pub(crate) use claims::{ClaimsArgs, ClaimsFailOn};
pub(crate) use compare::{By, CompareArgs, IgnoreArgs};
pub(crate) use history::{
    AddArgs, BaselineCommand, ExportArgs, ExportFormat, HistoryArgs, HistoryCommand, HistoryFile,
    ImportArgs, RebuildArgs, RemoveArgs, SeriesArgs,
};
pub(crate) use images::{
    CacheChoice, CompressionChoice, ImagesCommand, PruneArgs, PushArgs, SlimArgs,
};
pub(crate) use ledger::{AcceptArgs, LedgerArgs, LedgerCommand};
pub(crate) use session::{CheckArgs, SessionCommand};
pub(crate) use site::SiteArgs;

/// What does this PyTorch-CUDA image cost in memory and give in speed, and can I believe it?
#[derive(Debug, Parser)]
#[command(
    name = "torchgauge",
    bin_name = crate::workspace::program(),
    version = concat!(env!("CARGO_PKG_VERSION"), " (", env!("TORCHGAUGE_REVISION"), ")"),
    max_term_width = 100
)]
#[command(after_help = exit_codes!())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run suites in images and draw the report
    Bench(BenchArgs),
    /// Find the image, or the revision, that brought a regression
    Bisect(Box<BisectArgs>),
    /// Find the largest batch that trains within a memory budget
    Fit(FitArgs),
    /// Show what monitors or timed parts cost: the same runs with them and without
    Overhead(OverheadArgs),
    /// Draw the report of sessions that have run
    Report(ReportArgs),
    /// Compare two images or two sessions, cell by cell
    Compare(CompareArgs),
    /// Hold a session against what somebody claimed
    Claims(ClaimsArgs),
    /// Find change points in the history, or in a CSV series
    Trend(Box<TrendArgs>),
    /// Make a static site of sessions, comparisons and trends
    Site(SiteArgs),
    /// Keep sessions, and read them over time
    History(HistoryArgs),
    /// List regressions that `trend --gate` found, and accept them
    Ledger(LedgerArgs),
    /// Build, lock, verify, compare and remove images
    #[command(subcommand, after_help = exit_codes!())]
    Images(ImagesCommand),
    /// Check and repair the folder of a session
    #[command(subcommand)]
    Session(SessionCommand),
    /// List, show and check suites
    #[command(subcommand)]
    Scenarios(ScenariosCommand),
    /// Say what works on this machine, and the fix where something does not
    Doctor(DoctorArgs),
    /// Print completions for a shell
    #[command(
        after_help = "For bash, into ~/.local/share/bash-completion/completions/torchgauge; for zsh, into \
        a file _torchgauge in a folder of $fpath; for fish, into \
        ~/.config/fish/completions/torchgauge.fish."
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages: `torchgauge.1`, and one for each command
    Man {
        /// Where to write them, such as ~/.local/share/man/man1
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Pack this program with suites, image specs, completions and manual into one archive, for
    /// machines that build nothing; needs a checkout
    Dist(DistArgs),
    /// Run the whole test suite; needs a checkout
    Test(TestArgs),
}

/// Where the parts that take long to make come from.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    /// A libtorch that is there already, in place of the wheel: a folder with `lib` and `include`
    #[arg(long, value_name = "DIR", env = "LIBTORCH")]
    pub(crate) libtorch: Option<PathBuf>,
    /// A `scenario` binary that is there already, in place of building one
    #[arg(long, value_name = "FILE", env = "TORCHGAUGE_SCENARIO")]
    pub(crate) scenario_binary: Option<PathBuf>,
    /// An archive to stand images on, in place of the base in their specs
    #[arg(long, value_name = "FILE", env = "TORCHGAUGE_BASE")]
    pub(crate) base_archive: Option<PathBuf>,
    /// How large the cache may become: beyond that, what was used longest ago is removed
    #[arg(
        long,
        value_name = "SIZE",
        env = "TORCHGAUGE_CACHE_SIZE",
        default_value = "50GB"
    )]
    pub(crate) cache_size: bytesize::ByteSize,
}

/// Where runs execute.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetArgs {
    /// An image in `images/`, all that match a pattern (`torch-*-cpu`), a spec's file, or a complete
    /// image, for which nothing is built: `NAME:TAG` in the engine, or `NAME@sha256:…`, which is
    /// pulled where the engine lacks it; may be given several times. Default: the one that fits the
    /// device
    #[arg(long, value_name = "NAME|FILE|REFERENCE")]
    pub(crate) image: Vec<String>,
    /// Where runs execute; default: auto
    #[arg(long, value_name = "ENGINE", value_parser = EngineParser)]
    pub(crate) engine: Option<executors::Choice>,
    /// `auto`, `cpu`, `cuda`, `cuda:N`, or several GPUs for `bench` to spread the runs over:
    /// `cuda:0,1`; default: auto
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}

/// Reads the word of an executor, and lists them in the help.
#[derive(Debug, Clone)]
struct EngineParser;

impl TypedValueParser for EngineParser {
    type Value = executors::Choice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let parser = |text: &str| text.parse::<executors::Choice>();
        parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let auto = PossibleValue::new("auto")
            .help("the first of these that works; where CI=true, docker alone");
        let engines = EXECUTORS.iter().map(|executor| {
            PossibleValue::new(executor.word)
                .help(executor.help)
                .hide(executor.is_hidden)
        });
        Some(Box::new(std::iter::once(auto).chain(engines)))
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct BenchArgs {
    /// A suite in `scenarios/`, or a file; may be given several times. Default: smoke
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) suite: Vec<String>,
    /// Of the suites this cell alone, as reports name it, or this scenario; may be given several
    /// times
    #[arg(long, value_name = "SCENARIO[ · VARIANT]")]
    pub(crate) cell: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Measure on a GPU although other sessions that say the same do so too
    #[arg(long)]
    pub(crate) share_gpu: bool,
    /// How many times every cell runs, with --until-decided at most; default: what the suite says, and 1000 with --until-decided
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) blocks: Option<u32>,
    /// Add blocks until every gated metric is decided between the first image and the others (or
    /// as --by says), or the time budget ends
    #[arg(long)]
    pub(crate) until_decided: bool,
    /// How long --until-decided may take, such as `90min` or `2h`; default: 1h
    #[arg(long, value_name = "TIME", requires = "until_decided", value_parser = time)]
    pub(crate) time_budget: Option<Duration>,
    /// Decide between two values of one axis, such as `precision=fp32,amp-bf16`, in place of images
    #[arg(long, value_name = "AXIS=BASE,HEAD", requires = "until_decided", value_parser = compare::by)]
    pub(crate) by: Option<By>,
    /// The session's folder; default: `sessions/` and the session's name
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with a session that was cut off, as it was begun: no other option is needed
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Serve the live session's metrics to Prometheus: `PORT` on this machine alone, or
    /// `ADDRESS:PORT`
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics_listen: Option<String>,
    /// Say what would run, and start nothing; a complete image is pulled for its name
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FitArgs {
    /// A suite, by name or file, or one of its scenarios: `SUITE:SCENARIO`. Every combination of
    /// its axes but the batch is tried
    #[arg(value_name = "SUITE[:SCENARIO]")]
    pub(crate) scenario: String,
    /// The memory to fit, such as 8GiB: all that the process holds of the GPU, CUDA context and
    /// libraries included; on the CPU the container's
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: bytesize::ByteSize,
    /// Largest batch that is tried
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) most: u32,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Search on a GPU although other sessions that say the same use it
    #[arg(long)]
    pub(crate) share_gpu: bool,
    /// Say what would be searched, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Draw the search: `fit.html`, with `fit.md` and `fit.json`, into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverheadOf {
    /// What watches from outside
    Monitors,
    /// The timing of a step's parts
    Parts,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OverheadArgs {
    /// Whose cost: `monitors`, which watch from outside, or `parts`, the timing of forward,
    /// backward and optimizer within each step
    #[arg(long, value_name = "monitors|parts", default_value = "monitors")]
    pub(crate) of: OverheadOf,
    /// A suite in `scenarios/`, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "smoke")]
    pub(crate) suite: String,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// How many times every cell runs each way
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) blocks: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Folders of sessions
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<PathBuf>,
    /// Where to write; default: into the folder of the first session
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The history to draw beside the metrics; without it none is
    #[arg(long, value_name = "FILE", env = "TORCHGAUGE_HISTORY")]
    pub(crate) db: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a pull request
    Markdown,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct TrendArgs {
    /// A series, in place of the history: a CSV file with the header `timestamp,revision,value`
    #[arg(
        long,
        value_name = "FILE.csv",
        conflicts_with_all = [
            "machine", "device", "track", "suite", "scenario", "variant", "metric", "image", "driver",
            "branch", "ignore"
        ]
    )]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) file: HistoryFile,
    #[command(flatten)]
    pub(crate) series: SeriesArgs,
    /// Lower values of --input are better
    #[arg(long, requires = "input")]
    pub(crate) lower_is_better: bool,
    /// The largest change of --input that counts as none, such as 0.02; default: any counts
    #[arg(long, value_name = "SHARE", requires = "input", value_parser = share)]
    pub(crate) threshold: Option<f64>,
    /// Days without a result after which a series is reported as stale; default: from its own
    /// pace, and never for --input
    #[arg(long, value_name = "DAYS", value_parser = days)]
    pub(crate) stale_after: Option<f64>,
    /// Exit with 1 where a gated metric regressed and the ledger did not know, or where its results
    /// have stopped coming; with --metric, where any metric named by it did
    #[arg(long)]
    pub(crate) gate: bool,
    /// The ledger of regressions, in a file that a repository can hold; default: the history's own,
    /// and none with --input
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) ledger: Option<PathBuf>,
    /// Run this command, with a report as JSON on its standard input, where entries of the ledger
    /// open or close
    #[arg(long, value_name = "COMMAND", requires = "gate")]
    pub(crate) notify: Option<String>,
    #[arg(
        long,
        value_name = "FILE.xml",
        help = "Write JUnit XML into this file: a case for each gated series"
    )]
    pub(crate) junit: Option<PathBuf>,
    /// Write Markdown into this file, for the job's summary
    #[arg(long, value_name = "FILE.md")]
    pub(crate) summary: Option<PathBuf>,
    /// Print GitHub's workflow commands as well
    #[arg(long)]
    pub(crate) annotations: bool,
    /// Draw the series: `trend.html`, with `trend.md` and `trend.json`, into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How to print the change points
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ScenariosCommand {
    /// Name the suites
    List,
    /// Show a suite with every cell that it expands to
    Show {
        /// A suite in `scenarios/`, or a file
        suite: String,
        /// The device to expand for; default: a GPU where there is one, else the CPU
        #[arg(long, value_enum)]
        device: Option<DeviceWord>,
    },
    /// Check suites without running them
    Check {
        /// Suites in `scenarios/`, or files; default: all
        suites: Vec<String>,
    },
    /// Print the JSON Schema of suites
    Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceWord {
    /// The CPU
    Cpu,
    /// A GPU
    Cuda,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DistArgs {
    /// Where to write the archive; default: `dist` in cargo's target folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A `torchgauge` that is compiled already, of whatever size, in place of compiling it
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TestArgs {
    /// Leave out what needs libtorch: the `scenario` crates and the end-to-end tests
    #[arg(long)]
    pub(crate) without_libtorch: bool,
    /// Leave out what needs a second engine: the tests of engines and images on Podman
    #[arg(long)]
    pub(crate) without_podman: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok())
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("`{text}` is no time; expected one with its unit, such as 90min"))
}

/// A relative change.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| {
            format!("`{text}` is no share; expected a number from 0 to below 1, such as 0.02")
        })
}

fn days(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|days| days.is_finite() && *days > 0.0)
        .ok_or_else(|| format!("`{text}` is no number of days above 0"))
}
