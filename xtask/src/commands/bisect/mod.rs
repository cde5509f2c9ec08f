//! `bisect`: the image that brought a regression.

mod candidates;
mod step;
mod tell;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bench_suite::{
    bisect::{Asked, Bisection, STATE},
    session,
};
use clap::Args;

use crate::{
    cli::{ShareArgs, TargetArgs, exit_codes, share, time},
    commands::{
        bench::{resume::command, target::of_programs},
        program::{self, ProgramArgs},
    },
    error::{Error, Result, writing},
    printer::Printer,
};

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct BisectArgs {
    /// The suite that shows the change, by name or file, or one of its scenarios: `SUITE:SCENARIO`
    #[arg(value_name = "SUITE[:SCENARIO]", required_unless_present_any = ["resume", "command"],
          conflicts_with = "command")]
    pub(crate) suite: Option<String>,
    /// The good end: an image as `bench --image` takes it. Between the ends lie the images of --image,
    /// in their order; default: the specs of `images/` whose torch lies between the two ends' and is
    /// for the same devices
    #[arg(long, value_name = "IMAGE", required_unless_present = "resume")]
    pub(crate) good: Option<String>,
    /// The bad end
    #[arg(long, value_name = "IMAGE", required_unless_present = "resume")]
    pub(crate) bad: Option<String>,
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
    #[command(flatten)]
    pub(crate) share: ShareArgs,
    /// The search's folder; default: `sessions/bisect-` and its time
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with a search that was cut off, as it was begun: no other option is needed
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "suite", "good", "bad", "metric", "error", "time_budget", "blocks", "image", "share_gpu",
        "allow_oversubscription", "command"
    ])]
    pub(crate) resume: Option<PathBuf>,
    /// Name the images that would be searched, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

/// Searches to the end, and tells.
pub(crate) async fn run(args: &BisectArgs, printer: &Printer) -> Result<()> {
    let (mut search, folder) = match &args.resume {
        Some(folder) => {
            let search = Bisection::read(folder).map_err(Error::Input)?;
            (search, folder.clone())
        }
        None => begin(args)?,
    };
    // Its sessions lie in it.
    session::check_folder(&folder)?;
    if args.dry_run {
        for candidate in &search.candidates {
            printer.line(&candidate.name);
        }
        return Ok(());
    }
    let target = target(args, &search.asked);
    let failed = writing(&folder);
    if args.resume.is_none() {
        if folder.join(STATE).exists() {
            return Err(Error::Input(format!(
                "{} holds a search already; name another folder with --out, or go on with: {}",
                folder.display(),
                command("bisect", &folder)
            )));
        }
        session::check_new_folder(&folder)?;
        std::fs::create_dir_all(&folder).map_err(&failed)?;
        search.write(&folder).map_err(&failed)?;
    }
    printer.note(&format!("search in {}", folder.display()));
    while let Some(sides) = search.next() {
        step::carry_out(&mut search, sides, &folder, &target, printer).await?;
        search.write(&folder).map_err(&failed)?;
    }
    if search.is_refuted() {
        return Err(Error::Undecided(format!(
            "measured again, the bad end is not shown to be beyond half of the change that it showed \
             first; the sessions in {} have both. Begin anew with more --time-budget",
            folder.display()
        )));
    }
    tell::answer(&search, &folder, printer)
}

/// A search as the command line describes it.
fn begin(args: &BisectArgs) -> Result<(Bisection, PathBuf)> {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let (good, bad) = (given(&args.good), given(&args.bad));
    let program = match args.program.command.as_slice() {
        [] => None,
        _ => Some(args.program.suite_text()?),
    };
    let engine = args.target.engine.as_ref().map(ToString::to_string);
    let asked = Asked {
        suite: match &program {
            Some(_) => program::SUITE.to_owned(),
            None => candidates::whole_suite(&given(&args.suite)),
        },
        program,
        metric: args.metric.clone(),
        time_budget_seconds: args.time_budget.as_secs_f64(),
        most_blocks: args.blocks,
        device: args.target.device.clone(),
        engine,
        share_gpu: args.share.share_gpu,
        share_cpu: args.share.share_cpu,
        allow_oversubscription: args.share.allow_oversubscription,
    };
    let suite = step::suite(&asked)?;
    step::check(&asked, &suite)?;
    let found = match of_programs(std::slice::from_ref(&suite)) {
        Some(_) => candidates::own_images(&good, &bad, &args.target.image),
        None => candidates::images(&good, &bad, &args.target.image)?,
    };
    let search = Bisection::new(asked, args.error, found).map_err(Error::Input)?;
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| Path::new("sessions").join(format!("bisect-{}", session::fresh_name())));
    Ok((search, folder))
}

/// Where runs execute: as the search was begun, unless something else is said now.
fn target(args: &BisectArgs, asked: &Asked) -> TargetArgs {
    let mut target = args.target.clone();
    target.image = Vec::new();
    target.device = target.device.or_else(|| asked.device.clone());
    if target.engine.is_none() {
        target.engine = asked.engine.as_ref().and_then(|word| word.parse().ok());
    }
    target
}

fn error_share(text: &str) -> Result<f64, String> {
    const NEVER: &str =
        "a search that is never wrong takes for ever; expected a share above 0, such as 0.05";
    Some(share(text)?)
        .filter(|share| *share > 0.0)
        .ok_or(NEVER.to_owned())
}
