//! What `bisect` takes.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{Format, TargetArgs, share, time};

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct BisectArgs {
    /// The suite that shows the change, by name or file, or one of its scenarios: `SUITE:SCENARIO`
    #[arg(value_name = "SUITE[:SCENARIO]", required_unless_present = "resume")]
    pub(crate) suite: Option<String>,
    /// The good end: an image as `bench --image` takes it, or with --build a git revision. Between the
    /// ends lie the images of --image, in their order; default: the specs of `images/` whose torch
    /// lies between the two ends' and is for the same devices
    #[arg(
        long,
        value_name = "IMAGE|REVISION",
        required_unless_present = "resume"
    )]
    pub(crate) good: Option<String>,
    /// The bad end
    #[arg(
        long,
        value_name = "IMAGE|REVISION",
        required_unless_present = "resume"
    )]
    pub(crate) bad: Option<String>,
    /// Make the image of a revision by this shell command, which runs in a work tree of it with
    /// `TORCHGAUGE_REVISION` set and prints the image's spec or reference on its last line; one that
    /// fails leaves the revision out
    #[arg(long, value_name = "COMMAND", conflicts_with = "image")]
    pub(crate) build: Option<String>,
    /// Follow this metric of the cell where it regressed most; default: the metric that did
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// How often the whole search may be wrong
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = error_share)]
    pub(crate) error: f64,
    /// How long a comparison may take, such as `20min`; an image that is not decided by then is left
    /// out
    #[arg(long, value_name = "TIME", default_value = "30min", value_parser = time)]
    pub(crate) time_budget: Duration,
    /// Most blocks of a comparison
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub(crate) blocks: u32,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Measure on a GPU although other sessions that say the same do so too
    #[arg(long)]
    pub(crate) share_gpu: bool,
    /// The search's folder; default: `sessions/bisect-` and its time
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with a search that was cut off, as it was begun: no other option is needed
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "suite", "good", "bad", "build", "metric", "error", "time_budget", "blocks", "image", "share_gpu"
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Say what would be searched, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

fn error_share(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| {
        if share > 0.0 {
            Ok(share)
        } else {
            Err(
                "a search that is never wrong takes for ever; expected a share above 0, such as \
                 0.05"
                    .to_owned(),
            )
        }
    })
}
