//! `cargo xtask attribution`: which modules of a model take memory and time.

use std::path::PathBuf;

use bench_suite::plan::ATTRIBUTION_WARMUP;
use clap::Args;

use crate::{
    cli::{ShareArgs, TargetArgs, exit_codes},
    commands::{
        bench::{self, BenchArgs},
        program::ProgramArgs,
        scenarios,
    },
    error::{Error, Result},
    printer::{self, Printer},
};

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct AttributionArgs {
    /// A suite, by name or file, or one of its scenarios: `SUITE:SCENARIO`. Every cell runs once,
    /// with at least 3 warm-up steps; those that train are attributed
    #[arg(value_name = "SUITE[:SCENARIO]")]
    scenario: String,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    share: ShareArgs,
    /// The session's folder; default: `sessions/` and the session's name
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs each cell once, and prints its modules after the report's table.
pub(crate) async fn run(args: &AttributionArgs, printer: &Printer) -> Result<()> {
    let (suite, scenario) = scenarios::split(&args.scenario);
    let args = BenchArgs {
        suite: vec![suite.to_owned()],
        cell: scenario.into_iter().map(str::to_owned).collect(),
        target: args.target.clone(),
        share: args.share.clone(),
        blocks: Some(1),
        attribution: true,
        least_warmup: ATTRIBUTION_WARMUP,
        until_decided: false,
        time_budget: None,
        by: None,
        out: args.out.clone(),
        resume: None,
        dry_run: false,
        program: ProgramArgs::default(),
        program_suite: None,
    };
    let Some((folder, totals)) = bench::measure(&args, printer).await? else {
        return Ok(());
    };
    let sources = [reports::Source::read(&folder)?];
    let view = reports::View::of(&sources);
    let tables = reports::attribution(&view, printer::table_style());
    printer.raw(&format!("\n{tables}"));
    bench::end(totals, "bench", &folder)?;
    if tables.is_empty() {
        return Err(Error::Undecided(format!(
            "no module was attributed; the notes and logs of {} have the reason, where it is known",
            folder.path().display()
        )));
    }
    Ok(())
}
