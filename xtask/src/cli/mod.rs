//! Arguments that commands take.

/// What stands below the help of every command that can end in several ways.
macro_rules! exit_codes {
    () => {
        "Exit codes: 0 success; 1 a gate failed; 2 wrong input; 3 some runs failed; 4 environment: \
         engine, GPU, disk or network."
    };
}
pub(crate) use exit_codes;

mod claims;
mod compare;
mod format;
pub(crate) mod history;
mod images;

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use crate::commands::program::ProgramArgs;
use bench_suite::executors::{self, EXECUTORS};
use clap::{
    Args,
    builder::{PossibleValue, TypedValueParser},
};

pub(crate) use claims::{ClaimsArgs, ClaimsFailOn};
pub(crate) use compare::{By, CompareArgs};
pub(crate) use format::Format;
pub(crate) use images::{ImagesCommand, PruneArgs, PushArgs};

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
    /// `cuda:0,1`, on each host where the executor has several; default: auto
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}

/// Who else may use the devices meanwhile.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ShareArgs {
    /// Measure on a GPU that other processes use, and other sessions with this option
    #[arg(long)]
    pub(crate) share_gpu: bool,
    /// Measure on CPUs that other processes use, and other sessions with this option
    #[arg(long, env = "TORCHGAUGE_SHARE_CPU", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) share_cpu: bool,
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
            .help("the first of these that works; where CI=true, container alone");
        let engines = EXECUTORS.iter().flat_map(|executor| {
            let word = PossibleValue::new(executor.word)
                .help(executor.help)
                .hide(executor.is_hidden);
            let aliases = executor.aliases.iter();
            let alias = |(word, _, help): &(&'static str, _, &'static str)| {
                PossibleValue::new(*word).help(*help)
            };
            std::iter::once(word).chain(aliases.map(alias))
        });
        Some(Box::new(std::iter::once(auto).chain(engines)))
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct BenchArgs {
    /// A suite in `scenarios/`, or a file; may be given several times. Default: smoke, or the
    /// program after `--`
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "command")]
    pub(crate) suite: Vec<String>,
    /// Of the suites this cell alone, as reports name it, or this scenario; may be given several
    /// times
    #[arg(long, value_name = "SCENARIO[ · VARIANT]")]
    pub(crate) cell: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) share: ShareArgs,
    /// How many times every cell runs, with --until-decided at most; default: what the suite says, and 1000 with --until-decided
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) blocks: Option<u32>,
    /// Attribute memory and time of a warm-up step to the modules of the model, for the report; it
    /// takes at least 3 warm-up steps
    #[arg(long)]
    pub(crate) attribution: bool,
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
    /// Say what would run, and start nothing; a complete image is pulled for its name
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// The suite of a program, of a session that goes on.
    #[arg(skip)]
    pub(crate) program_suite: Option<String>,
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
    /// Search on a GPU that other processes use, and other sessions with this option
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

#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Folders of sessions
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<PathBuf>,
    /// Where to write; default: into the folder of the first session
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The history to draw beside the metrics; without it none is
    #[arg(long, value_name = "DIR", env = "TORCHGAUGE_HISTORY")]
    pub(crate) history: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DistArgs {
    /// Where to write both; default: `dist` in cargo's target folder
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
    /// Leave out what needs a second engine: the tests of engines, images and programs on Podman
    #[arg(long)]
    pub(crate) without_podman: bool,
}

pub(crate) fn time(text: &str) -> Result<Duration, String> {
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
