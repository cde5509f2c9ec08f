//! `cargo xtask bisect`: the image, or the revision, that brought a regression.

mod candidates;
mod step;
mod tell;

use std::path::{Path, PathBuf};

use bench_suite::{
    bisect::{Asked, Bisection, Build, Next, STATE},
    session,
};

use crate::{
    cli::{BisectArgs, TargetArgs},
    error::{Error, Result},
    printer::Printer,
};

/// Searches to the end, and tells.
pub(crate) async fn run(args: &BisectArgs, printer: &Printer) -> Result<()> {
    let (mut search, folder) = match &args.resume {
        Some(folder) => {
            let mut search = Bisection::read(folder)?;
            // What could not be made may be made now.
            for candidate in &mut search.candidates {
                candidate.problem = None;
            }
            (search, folder.clone())
        }
        None => begin(args)?,
    };
    // Its sessions lie in it.
    session::check_folder(&folder)?;
    if args.dry_run {
        tell::plan(&search, args.format, printer);
        return Ok(());
    }
    let target = target(args, &search.asked);
    if args.resume.is_none() {
        if folder.join(STATE).exists() {
            return Err(Error::SearchExists { folder });
        }
        std::fs::create_dir_all(&folder).map_err(|source| Error::Write {
            path: folder.clone(),
            source,
        })?;
        search.write(&folder)?;
    }
    printer.note(&format!("search in {}", folder.display()));
    loop {
        let (base, head, purpose) = match search.next() {
            Next::Done(_) => break,
            Next::Refuted => {
                let folder = folder.clone();
                return Err(match &search.change {
                    Some(change) if change.metric().is_none() => Error::OtherFailure { folder },
                    _ => Error::SmallerChange { folder },
                });
            }
            Next::Measure {
                base,
                head,
                purpose,
            } => (base, head, purpose),
        };
        for candidate in [base, head] {
            candidates::make(&mut search, candidate, &folder, &target, printer).await?;
            search.write(&folder)?;
        }
        let problem = |place: usize| search.candidates[place].problem.clone();
        match problem(base).or_else(|| problem(head)) {
            // Between the ends its neighbour is taken.
            Some(_) if head + 1 < search.candidates.len() => continue,
            Some(why) => return Err(Error::NoEnd { why }),
            None => {}
        }
        step::carry_out(
            &mut search,
            (base, head, purpose),
            &folder,
            &target,
            printer,
        )
        .await?;
        search.write(&folder)?;
    }
    tell::answer(&search, &folder, args.format, printer)
}

/// A search as the command line describes it.
fn begin(args: &BisectArgs) -> Result<(Bisection, PathBuf)> {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let (good, bad) = (given(&args.good), given(&args.bad));
    let build = match &args.build {
        Some(command) => Some(Build {
            command: command.clone(),
            repository: candidates::repository()?,
        }),
        None => None,
    };
    let found = match &build {
        Some(build) => candidates::revisions(&build.repository, &good, &bad)?,
        None => candidates::images(&good, &bad, &args.target.image)?,
    };
    let engine = args.target.engine.as_ref().map(ToString::to_string);
    let asked = Asked {
        suite: candidates::whole_suite(&given(&args.suite)),
        metric: args.metric.clone(),
        build,
        time_budget_seconds: args.time_budget.as_secs_f64(),
        most_blocks: args.blocks,
        device: args.target.device.clone(),
        engine,
        share_gpu: args.share_gpu,
    };
    step::check(&asked)?;
    let search = Bisection::new(asked, args.error, found)?;
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
