//! `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use metrics::Metric;
use verdict::MethodKey;

use super::{format::Format, history::HistoryFolder};

/// What fails a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A gated metric that regressed
    Regressed,
    /// One that is inconclusive, too
    Inconclusive,
}

impl From<FailOn> for verdict::FailOn {
    fn from(chosen: FailOn) -> Self {
        match chosen {
            FailOn::Regressed => Self::Regressed,
            FailOn::Inconclusive => Self::Inconclusive,
        }
    }
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

#[derive(Debug, Clone, Args)]
#[command(
    after_help = concat!(
        "A side is a session's folder, or its name where that lies below --sessions; or out of the \
         history: `@NAME` the session of this name, `branch=NAME` the newest complete session of a branch, \
         `image=NAME` the newest complete session with an image; of those, the newest that shares a \
         cell with the other side. `:IMAGE` behind it picks one of several images.\n\n",
        exit_codes!()
    )
)]
pub(crate) struct CompareArgs {
    /// What to compare against: `SESSION[:IMAGE]`, `@NAME[:IMAGE]`, `branch=NAME[:IMAGE]` or
    /// `image=NAME`
    #[arg(value_name = "BASE")]
    pub(crate) base: String,
    /// What to compare, in the same forms; default: of a session with two images, the second against
    /// the first
    #[arg(value_name = "HEAD", conflicts_with = "by")]
    pub(crate) head: Option<String>,
    /// Compare two values of one axis within BASE, such as `precision=fp32,amp-bf16`
    #[arg(long, value_name = "AXIS=BASE,HEAD", value_parser = by)]
    pub(crate) by: Option<By>,
    /// How to print the verdicts
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print every verdict, and not only what changed most
    #[arg(long)]
    pub(crate) all: bool,
    /// Print GitHub's workflow commands as well, which annotate a pull request
    #[arg(long)]
    pub(crate) annotations: bool,
    #[arg(
        long,
        value_name = "FILE.xml",
        help = "Write the verdicts as JUnit XML"
    )]
    pub(crate) junit: Option<PathBuf>,
    /// Write the verdicts as Markdown, for a comment: the gate, what changed most, the rest folded
    #[arg(long, value_name = "FILE.md")]
    pub(crate) summary: Option<PathBuf>,
    /// Where the report can be read, for a link in the Markdown
    #[arg(long, value_name = "URL")]
    pub(crate) link: Option<String>,
    /// Write the verdicts as a page, Markdown and JSON into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What fails the command with exit code 1
    #[arg(long, value_enum, default_value_t = FailOn::Regressed)]
    pub(crate) fail_on: FailOn,
    /// Relative change of a metric that counts as none, in place of its own; by the metric's
    /// name or as tables print it, such as `throughput=0.02`
    #[arg(long, value_name = "QUANTITY=SHARE", value_parser = threshold)]
    pub(crate) threshold: Vec<(String, f64)>,
    /// Compare although machine, GPU or driver differ
    #[arg(long)]
    pub(crate) across_machines: bool,
    #[command(flatten)]
    pub(crate) method: IgnoreArgs,
    /// Where the folders of sessions lie that the history names
    #[arg(long, value_name = "DIR", default_value = "sessions")]
    pub(crate) sessions: PathBuf,
    #[command(flatten)]
    pub(crate) folder: HistoryFolder,
}

fn threshold(text: &str) -> Result<(String, f64), String> {
    let (name, share) = text
        .split_once('=')
        .ok_or("expected QUANTITY=SHARE, such as throughput=0.02")?;
    match share.parse::<f64>() {
        Ok(share) if share.is_finite() && (0.0..1.0).contains(&share) => {
            Ok((metric(name).to_owned(), share))
        }
        _ => Err(format!("`{share}` is no share from 0 to below 1")),
    }
}

/// The name of the metric that tables call so; any other word as it is.
fn metric(word: &str) -> &str {
    let word = word.trim();
    Metric::compared()
        .find(|metric| metric.label.eq_ignore_ascii_case(word))
        .map_or(word, |metric| metric.name)
}

pub(super) fn by(text: &str) -> Result<By, String> {
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
