//! `torchgauge node`: carry out a part of a session, on whatever node this is.

use std::path::{Path, PathBuf};

use bench_suite::{executors::Choice, session::Totals};
use clap::Args;
use record::SessionFolder;

use super::bench::{self, Job, Place, Suites, resume, target::Target};
use crate::{
    cli::{ShareArgs, SourceArgs, TargetArgs, exit_codes},
    error::{Error, Result},
    printer::Printer,
};

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!())]
pub(crate) struct NodeArgs {
    /// The part: one of the folders `parts/…` of a session that `bench --engine nodes` or
    /// `--engine slurm:PROFILE` planned
    #[arg(value_name = "FOLDER")]
    pub(super) folder: PathBuf,
    /// Carry out this run of it alone, inside of its image
    #[arg(long, value_name = "RUN", hide = true)]
    pub(super) run: Option<String>,
    #[command(flatten)]
    share: ShareArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

/// Runs what is still to do of the part, and nothing else: what it records is gathered where the
/// session was planned.
pub(crate) async fn run(args: &NodeArgs, printer: &Printer) -> Result<()> {
    match carry_out(args, printer).await? {
        // Of one run, its record says how it ended.
        Some((folder, totals)) if args.run.is_none() => bench::end(totals, "node", &folder),
        _ => Ok(()),
    }
}

/// The same, or one run of it alone where `args` name one; nothing where every run is done.
pub(super) async fn carry_out(
    args: &NodeArgs,
    printer: &Printer,
) -> Result<Option<(SessionFolder, Totals)>> {
    let folder = &args.folder;
    let session = SessionFolder::at(folder).read_session()?;
    let Some(asked) = session
        .asked
        .clone()
        .filter(|_| session.first_block.is_some())
    else {
        return Err(Error::Input(format!(
            "{} is no part of a session; expected a folder `parts/…` of one that `bench --engine \
             nodes` planned (a whole session goes on with `bench --resume`)",
            folder.display()
        )));
    };
    if session.complete {
        printer.note("every run of this part is done");
        return Ok(None);
    }
    let (mut sources, mut share) = (args.sources.clone(), args.share.clone());
    resume::as_begun(&session, &mut sources, &mut share);
    let engine = match asked.engine.parse().map_err(Error::Input)? {
        Choice::Auto => Choice::Isolated,
        named => named,
    };
    let target = TargetArgs {
        image: asked.images,
        engine: Some(engine),
        device: Some(asked.device),
        sources,
    };
    let named = asked.suites.iter();
    let suites = Suites {
        named: named.map(|suite| own(suite, folder)).collect(),
        program: asked.program,
    };
    let loaded = bench::load(&suites)?;
    let mut target = Target::find(&target, &loaded, &session.images, printer).await?;
    let plan = target.plan(&loaded, Some(session.blocks), None)?;
    let plan = plan.only(&asked.cells)?.attributed_as(&session.cells);
    let mut plan = plan.spread(&target.places)?;
    plan.run.clone_from(&args.run);
    let job = Job {
        target: &mut target,
        suites: &suites,
        cells: &asked.cells,
        plan,
        deciding: None,
        share,
        place: Place::at(folder, Some(session.session)),
    };
    job.carry_out(printer).await.map(Some)
}

/// A suite's file as it was asked for, or the copy beside the part where this node does not have it.
fn own(suite: &str, part: &Path) -> String {
    let file = Path::new(suite);
    let copy = file.file_name().map(|name| part.join(name));
    match copy.filter(|copy| file.is_absolute() && !file.exists() && copy.exists()) {
        Some(copy) => copy.display().to_string(),
        None => suite.to_owned(),
    }
}
