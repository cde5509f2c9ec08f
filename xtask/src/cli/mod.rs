//! Arguments that several commands take.

/// What stands below the help of every command that can end in several ways.
macro_rules! exit_codes {
    () => {
        "Exit codes: 0 success; 1 a gate failed; 2 wrong input; 3 some runs failed; 4 environment: \
         engine, GPU, disk or network."
    };
}
pub(crate) use exit_codes;

pub(crate) mod history;

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use bench_suite::executors::{self, EXECUTORS};
use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use serde::de::DeserializeOwned;
use verdict::MethodKey;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a pull request
    Markdown,
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
    /// An archive to build images on, in place of the base in their specs
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
    /// pulled where the engine lacks it, or, without an engine, its archive `FILE.tar`; may be given
    /// several times. Default: the one that fits the device
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

/// Who else may use the devices meanwhile, and what the user allows on them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ShareArgs {
    /// Measure on a GPU that other processes use, and other sessions with this option
    #[arg(long)]
    pub(crate) share_gpu: bool,
    /// Measure on CPUs that other processes use, and other sessions with this option
    #[arg(long, env = "TORCHGAUGE_SHARE_CPU", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) share_cpu: bool,
    /// Allow cells with `allocator: managed` more memory than the GPU has, where their
    /// `limits.gpu_memory` is beyond it
    #[arg(long)]
    pub(crate) allow_oversubscription: bool,
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

/// Reads a room's own type by its words, each with its help.
pub(crate) fn word<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    words: &[(&'static str, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let values = words
        .iter()
        .map(|(word, help)| PossibleValue::new(word).help(*help));
    let words = PossibleValuesParser::new(values);
    words.try_map(|word| serde_json::from_value::<T>(word.into()))
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

/// Two values of one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct By {
    pub(crate) axis: String,
    pub(crate) base: String,
    pub(crate) head: String,
}

/// What may differ in the method.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct IgnoreArgs {
    /// Take together what was measured by different methods where this setting differs:
    /// `method.limits.cpus`; all below a key: `method.limits`; whatever differs: `method`; may be
    /// given several times
    #[arg(long, value_name = "KEY")]
    pub(crate) ignore: Vec<MethodKey>,
}

pub(crate) fn by(text: &str) -> Result<By, String> {
    let parts = text.split_once('=').and_then(|(axis, values)| {
        let (base, head) = values.split_once(',')?;
        let named = [axis, base, head].iter().all(|part| !part.is_empty());
        (named && !head.contains(',')).then_some((axis, base, head))
    });
    let (axis, base, head) =
        parts.ok_or("expected AXIS=BASE,HEAD, such as precision=fp32,amp-bf16")?;
    if base == head {
        return Err(format!("both sides are {axis}={base}; give two values"));
    }
    Ok(By {
        axis: axis.to_owned(),
        base: base.to_owned(),
        head: head.to_owned(),
    })
}
