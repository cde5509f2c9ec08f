//! `cargo xtask bench`: run suites in images and draw the report.

pub(crate) mod fleet;
pub(crate) mod prepare;
pub(crate) mod references;
pub(crate) mod resume;
pub(crate) mod target;
mod watch;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use bench_suite::{
    plan::Plan,
    session::{self, Session, Totals},
    suite::{MAX_BLOCKS, Suite},
};
use clap::Args;
use record::{Deciding, RunPolicy, SessionFolder, SidesCompared, Tool};
use reports::format::plural;
use tokio_util::sync::CancellationToken;

use self::{target::Target, watch::Watch};
use crate::{
    cli::{By, Format, ShareArgs, TargetArgs, by, exit_codes, time},
    commands::{
        program::{self, ProgramArgs},
        scenarios,
    },
    error::{Error, Result},
    printer::{self, Printer},
    table::table,
    workspace,
};

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
    /// How many times every cell runs, with --until-decided at most; default: the suite's, and 1000 with --until-decided
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) blocks: Option<u32>,
    /// Attribute memory and time of a warm-up step to the modules of the model, for the report; it
    /// takes at least 3 warm-up steps
    #[arg(long)]
    pub(crate) attribution: bool,
    /// Cells of fewer warm-up steps get as many.
    #[arg(skip)]
    pub(crate) least_warmup: u32,
    /// Add blocks until every gated metric is decided between the first image and the others (or
    /// between the two values of --by), or the time budget ends
    #[arg(long)]
    pub(crate) until_decided: bool,
    /// How long --until-decided may take, such as `90min` or `2h`; default: 1h
    #[arg(long, value_name = "TIME", requires = "until_decided", value_parser = time)]
    pub(crate) time_budget: Option<Duration>,
    /// Decide between two values of one axis, such as `precision=fp32,amp-bf16`, in place of images
    #[arg(long, value_name = "AXIS=BASE,HEAD", requires = "until_decided", value_parser = by)]
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

/// How often a run is attempted again that the engine and not the workload failed.
const ENGINE_RETRIES: u32 = 2;

/// The default of `--time-budget`.
const TIME_BUDGET: Duration = Duration::from_hours(1);

/// Plans, prepares, runs, reports.
pub(crate) async fn run(given: &BenchArgs, printer: &Printer) -> Result<()> {
    match measure(given, printer).await? {
        Some((folder, totals)) => end(totals, "bench", &folder),
        None => Ok(()),
    }
}

/// The same up to the report; nothing of a dry run.
pub(crate) async fn measure(
    given: &BenchArgs,
    printer: &Printer,
) -> Result<Option<(SessionFolder, Totals)>> {
    // What cannot be is said before anything is made ready.
    if let Some(folder) = &given.out {
        session::check_new_folder(folder)?;
    }
    if let Some(folder) = &given.resume {
        session::check_folder(folder)?;
    }
    let (args, resumed) = match &given.resume {
        Some(folder) => {
            let (args, session) = resume::settled(given, folder)?;
            (args, Some(session))
        }
        None => (given.clone(), None),
    };
    let args = &args;
    let asked = &suites(args)?;
    let suites = load(asked)?;
    let begun_with = resumed.as_ref().map(|session| session.images.as_slice());
    let begun_with = begun_with.unwrap_or_default();
    let mut target = Target::find(&args.target, &suites, begun_with, printer).await?;
    // With --until-decided the suite's number of blocks says nothing.
    let blocks = match &resumed {
        Some(session) => Some(session.blocks),
        None => args.blocks.or(args.until_decided.then_some(1)),
    };
    let plan = target.plan(&suites, blocks, None)?.only(&args.cell)?;
    let plan = match &resumed {
        Some(session) => plan.attributed_as(&session.cells),
        None => plan.warmed_up(args.least_warmup),
    };
    let plan = plan.attributed(args.attribution)?.spread(&target.places)?;
    tell_left_out(&plan, printer);
    let deciding = deciding(args, &plan);
    if let Some(deciding) = &deciding {
        session::check_sides(&plan, &deciding.sides)?;
    }
    if args.dry_run {
        show(&plan, args.until_decided, printer);
        return Ok(None);
    }
    let begun = resumed.map(|session| session.session);
    let place = match args.resume.as_ref().or(args.out.as_ref()) {
        Some(folder) => Place::at(folder, begun),
        None => Place::fresh(),
    };
    let job = Job {
        target: &mut target,
        suites: asked,
        cells: &args.cell,
        plan,
        deciding,
        share: args.share.clone(),
        place,
    };
    let (folder, totals) = job.carry_out(printer).await?;
    report(&folder, printer)?;
    Ok(Some((folder, totals)))
}

/// Where a session lies, or will lie.
pub(crate) struct Place {
    folder: PathBuf,
    name: String,
    /// Whether a session of this name was begun there.
    is_begun: bool,
}

impl Place {
    /// A folder, and the name of the session that was begun there, where one was.
    pub(crate) fn at(folder: &Path, begun: Option<String>) -> Self {
        Self {
            folder: folder.to_owned(),
            is_begun: begun.is_some(),
            name: begun.unwrap_or_else(session::fresh_name),
        }
    }

    /// Below `sessions`, by its name.
    fn fresh() -> Self {
        let name = session::fresh_name();
        Self {
            folder: Path::new("sessions").join(&name),
            name,
            is_begun: false,
        }
    }
}

/// A session to be carried out.
pub(crate) struct Job<'a> {
    pub(crate) target: &'a mut Target<'a>,
    /// The suites as they were asked for.
    pub(crate) suites: &'a Suites,
    /// Of their cells, those that were asked for; empty: all.
    pub(crate) cells: &'a [String],
    pub(crate) plan: Plan,
    pub(crate) deciding: Option<Deciding>,
    pub(crate) share: ShareArgs,
    pub(crate) place: Place,
}

impl Job<'_> {
    /// Prepares and runs, up to the end or a signal.
    pub(crate) async fn carry_out(self, printer: &Printer) -> Result<(SessionFolder, Totals)> {
        let target = self.target;
        if target.executor.scheduler().is_some() && self.deciding.is_some() {
            return Err(Error::Input(
                "on nodes all blocks are planned at once, and none is added until something is \
                 decided; give a fixed number of --blocks, or another --engine"
                    .to_owned(),
            ));
        }
        let Place {
            folder,
            name,
            is_begun,
        } = self.place;
        let ready = target.ready(&name, &self.share, printer).await?;
        let allows = self.share.allow_oversubscription;
        let mut plan = self.plan.oversubscribed(allows);
        plan.session = record::Session {
            deciding: self.deciding,
            asked: Some(target.asked(self.suites, self.cells)),
            images: ready.prepared.images.clone(),
            engine: ready.prepared.engine.clone(),
            notes: ready.prepared.notes.clone(),
            tool: tool(&target.root),
            // Nodes give theirs.
            hosts: match target.executor.scheduler() {
                Some(_) => BTreeMap::new(),
                None => target.hosts.clone(),
            },
            policy: RunPolicy {
                places: Vec::new(),
                shares_gpu: self.share.share_gpu,
                shares_cpu: self.share.share_cpu,
                oversubscribes_gpu: allows,
                engine_retries: Some(ENGINE_RETRIES),
            },
            ..plan.session
        };
        let mut session = if is_begun {
            Session::resume(&folder, plan)?
        } else {
            Session::create(&folder, &name, plan)?
        };
        let folder = session.folder().clone();
        printer.note(&format!("session {name} in {}", folder.path().display()));

        let cancel = CancellationToken::new();
        let stopper = stop_on_signal(cancel.clone(), printer.clone());
        let totals = if let Some(scheduler) = target.executor.scheduler() {
            fleet::carry(&mut session, scheduler, printer, &cancel).await
        } else {
            let mut watch = Watch::new(printer);
            let executor = target.executor.as_ref();
            let ran = session.run(executor, &mut watch, &cancel).await;
            ran.map_err(Error::from)
        };
        stopper.abort();
        target.executor.clean_up().await;
        Ok((folder, totals?))
    }
}

/// What `--until-decided` asks for.
fn deciding(args: &BenchArgs, plan: &Plan) -> Option<Deciding> {
    if !args.until_decided {
        return None;
    }
    let sides = match &args.by {
        Some(by) => SidesCompared::Axis {
            axis: by.axis.clone(),
            base: by.base.clone(),
            head: by.head.clone(),
        },
        None => SidesCompared::Images {
            base: plan.cells.first()?.plan.image.clone(),
        },
    };
    Some(session::until_decided(
        sides,
        args.time_budget.unwrap_or(TIME_BUDGET),
        args.blocks.unwrap_or(MAX_BLOCKS),
    ))
}

/// Suites as they were asked for: by name, or the text of a program's.
pub(crate) struct Suites {
    pub(crate) named: Vec<String>,
    pub(crate) program: Option<String>,
}

pub(crate) fn load(suites: &Suites) -> Result<Vec<Suite>> {
    if let Some(text) = &suites.program {
        return Ok(vec![program::suite(text)?]);
    }
    let (catalog, named) = (scenarios::catalog()?, suites.named.iter());
    named.map(|name| Ok(catalog.load(name)?)).collect()
}

/// The suites that the user named, or the one that says whether everything works.
fn suites(args: &BenchArgs) -> Result<Suites> {
    let (mut named, mut program) = (args.suite.clone(), args.program_suite.clone());
    if named.is_empty() && program.is_none() {
        if args.program.command.is_empty() {
            named.push("smoke".to_owned());
        } else {
            program = Some(args.program.suite_text()?);
        }
    }
    Ok(Suites { named, program })
}

fn tell_left_out(plan: &Plan, printer: &Printer) {
    for left_out in &plan.left_out {
        printer.note(&format!(
            "{}: {} of {} left out: {}",
            left_out.suite,
            plural(left_out.variants, "variant", "variants"),
            left_out.scenario,
            left_out.why
        ));
    }
}

fn show(plan: &Plan, until_decided: bool, printer: &Printer) {
    let mut table = table(
        Format::Text,
        ["image", "suite", "scenario", "variant", "warm-up", "steps"],
    );
    for cell in &plan.cells {
        let cell = &cell.plan;
        table.add_row([
            cell.image.clone(),
            cell.suite.clone(),
            cell.scenario.clone(),
            cell.axes.to_string(),
            cell.steps.warmup.to_string(),
            cell.steps.measured.to_string(),
        ]);
    }
    let (cells, blocks) = (plan.cells.len(), plan.session.blocks);
    let device = plan.session.device;
    let extent = if until_decided {
        format!("as many blocks as it takes on {device}")
    } else {
        let runs = plural(cells * blocks as usize, "run", "runs");
        let blocks = plural(blocks as usize, "block", "blocks");
        format!("{blocks} on {device}: {runs}")
    };
    let cells = plural(cells, "cell", "cells");
    printer.line(&format!(
        "{table}\n{cells} in {extent}; nothing was started"
    ));
}

/// The first signal lets the current run be cleaned up; the second ends at once.
pub(crate) fn stop_on_signal(
    cancel: CancellationToken,
    printer: Printer,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        signalled().await;
        printer.note("interrupted: cleaning up the current run; press Ctrl-C again to force quit");
        cancel.cancel();
        // Slurm signals every process of a step, and a container's runtime passes on what it gets.
        if std::env::var_os("SLURM_STEP_ID").is_some() {
            tokio::time::sleep(ONE_SIGNAL).await;
        }
        signalled().await;
        std::process::exit(130);
    })
}

/// How long what comes after a signal is still the same one.
const ONE_SIGNAL: Duration = Duration::from_millis(300);

/// Waits for a signal that asks this program to end.
pub(crate) async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let heard = async |kind| match signal(kind) {
        Ok(mut signals) => _ = signals.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = heard(SignalKind::terminate()) => {}
        // A connection that was lost; what `nohup` started goes on.
        () = heard(SignalKind::hangup()), if !ignores_hangup() => {}
    }
}

/// Whether this process was started to ignore SIGHUP.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

fn report(folder: &SessionFolder, printer: &Printer) -> Result<()> {
    let sources = [reports::Source::read(folder)?];
    let view = reports::View::of(&sources);
    let style = printer::table_style();
    printer.raw(&reports::text::table(&view, style));
    for session in &view.report.sessions {
        for verdicts in &session.comparisons {
            printer.raw("\n");
            let fail_on = verdict::FailOn::Regressed;
            printer.raw(&reports::comparison::text(verdicts, fail_on, style, false));
        }
        if !session.claims.is_empty() {
            printer.raw("\n");
            printer.raw(&reports::claims::text(&session.claims, style));
        }
    }
    let [page, ..] = reports::write(std::slice::from_ref(folder), folder.path())?;
    printer.line(&format!("report: {}", page.display()));
    Ok(())
}

pub(crate) fn end(totals: Totals, command: &str, folder: &SessionFolder) -> Result<()> {
    if totals.remaining > 0 {
        let runs = plural(totals.remaining, "run is", "runs are");
        return Err(Error::Undecided(format!(
            "{runs} still to do; go on with: {}",
            resume::command(command, folder.path())
        )));
    }
    if totals.failed > 0 {
        return Err(Error::runs_failed(totals.failed, totals.planned));
    }
    Ok(())
}

fn tool(root: &Path) -> Tool {
    // As `build.rs` does: a node's program, which has no checkout, is then known to be the same one.
    let described = || {
        let output = std::process::Command::new("git")
            .args(["describe", "--always", "--tags", "--dirty", "--abbrev=12"])
            .current_dir(root)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: workspace::carried_revision(root)
            .map(str::to_owned)
            .or_else(described),
        command: std::env::args().skip(1).collect(),
    }
}
