//! `cargo xtask fit`: the largest batch that trains within a memory budget.

use std::path::PathBuf;

use bench_suite::{
    fit::{self as search, Question},
    plan::Plan,
    scratch_run::ScratchRuns,
    session,
    suite::Suite,
};
use bytesize::ByteSize;
use clap::Args;
use record::fit::{self, Attempt, Fit, Found};
use reports::format::plural;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{Format, ShareArgs, TargetArgs},
    commands::{
        bench::{self, target::Target},
        scenarios,
    },
    error::{Error, Result, writing},
    printer::Printer,
    table::table,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct FitArgs {
    /// A suite, by name or file, or one of its scenarios: `SUITE:SCENARIO`. Every combination of
    /// its axes but the batch is tried
    #[arg(value_name = "SUITE[:SCENARIO]")]
    scenario: String,
    /// The memory to fit, such as 8GiB: all that the process holds of the GPU, CUDA context and
    /// libraries included; on the CPU the container's
    #[arg(long, value_name = "BYTES")]
    memory: ByteSize,
    /// Largest batch that is tried
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    most: u32,
    #[command(flatten)]
    target: TargetArgs,
    /// Search on a GPU that other processes use, and other sessions with this option
    #[arg(long)]
    share_gpu: bool,
    /// Say what would be searched, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Draw the search: `fit.html`, with `fit.md` and `fit.json`, into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Plans, prepares, searches, tells.
pub(crate) async fn run(args: &FitArgs, printer: &Printer) -> Result<()> {
    let suite = suite(&args.scenario)?;
    let mut target = Target::find(&args.target, &[], &[], printer).await?;
    let device = target.device();
    let budget = args.memory.as_u64();
    if budget < search::LEAST_BYTES {
        return Err(Error::Input(format!(
            "--memory {} is too little: an engine refuses a container with less than {}; give what a \
             container or a GPU has, such as 8GiB",
            size(Some(budget)),
            size(Some(search::LEAST_BYTES))
        )));
    }
    if !device.is_cuda() && budget > target.machine().memory_bytes {
        printer.note(&format!(
            "this machine has {} of memory: its own end comes before the budget's",
            size(Some(target.machine().memory_bytes))
        ));
    }
    let plan = target.plan(&[suite], Some(1), Some(1))?;
    if args.dry_run {
        return show(&plan, args, printer);
    }
    let name = session::fresh_name();
    if !device.is_cuda() && !target.executor.limits_memory() {
        return Err(Error::Trouble(format!(
            "on the CPU only a container's limit can be the limit, and runs would execute as plain \
             processes; start Docker or Podman (`{} doctor` shows how)",
            protocol::program()
        )));
    }
    // No time is measured, for which the CPU would have to be this search's alone.
    let share = ShareArgs {
        share_gpu: args.share_gpu,
        share_cpu: true,
        allow_oversubscription: false,
    };
    let _ready = target.ready(&name, &share, printer).await?;
    let folder = tempfile::Builder::new().prefix("torchgauge-fit-").tempdir();
    let folder = folder.map_err(writing(&std::env::temp_dir()))?;
    let cancel = CancellationToken::new();
    let stopper = bench::stop_on_signal(cancel.clone(), printer.clone());
    let question = Question {
        plan: &plan,
        runs: ScratchRuns {
            hosts: &target.hosts,
            session: &name,
            folder: folder.path(),
            is_watched: true,
        },
        memory_bytes: budget,
        most_batch: args.most,
    };
    let mut tell_of = |found: &_, attempt: &_| printer.note(&progress(found, attempt));
    let found = search::find(&question, target.executor.as_ref(), &cancel, &mut tell_of).await;
    stopper.abort();
    target.executor.clean_up().await;
    let found = found?;
    if found.is_empty() {
        return Err(nothing_to_fit(&args.scenario));
    }
    let fit = Fit {
        version: fit::VERSION,
        memory_bytes: budget,
        device: device.to_string(),
        machine: target.machine().name.clone(),
        advice: search::advice(&found, budget),
        found,
    };
    tell(&fit, args, printer)?;
    ended(&fit)
}

/// Whether every search came to its end, and something fits.
fn ended(fit: &Fit) -> Result<()> {
    let found = &fit.found;
    let problems = found.iter().filter(|one| one.problem.is_some()).count();
    if problems > 0 {
        return Err(Error::runs_failed(problems, found.len()));
    }
    if found.iter().all(|one| one.largest_batch.is_none()) {
        return Err(Error::Gate(format!(
            "nothing fits {}: not one sample in a batch, in any combination; the table shows how the \
             attempts ended. Give more --memory, or a scenario with a smaller model",
            size(Some(fit.memory_bytes))
        )));
    }
    Ok(())
}

fn nothing_to_fit(scenario: &str) -> Error {
    Error::Input(format!(
        "`{scenario}` has no batch that can be fitted; name a scenario that trains or serves \
         (`{} scenarios list` shows them)",
        protocol::program()
    ))
}

/// Every combination whose batch would be searched.
fn show(plan: &Plan, args: &FitArgs, printer: &Printer) -> Result<()> {
    let combinations = search::combinations(plan);
    if combinations.is_empty() {
        return Err(nothing_to_fit(&args.scenario));
    }
    let mut table = table(args.format, ["image", "scenario", "combination"]);
    for cell in &combinations {
        table.add_row([
            cell.plan.image.clone(),
            cell.plan.scenario.clone(),
            cell.plan.axes.without("batch"),
        ]);
    }
    let count = plural(combinations.len(), "combination", "combinations");
    printer.line(&format!(
        "{table}\nlargest batch up to {} of {count} within {} on {}; nothing was started",
        args.most,
        size(Some(args.memory.as_u64())),
        plan.session.device
    ));
    Ok(())
}

fn progress(found: &Found, attempt: &Attempt) -> String {
    let ended = match attempt.outcome.reason() {
        None => {
            let peak = size(attempt.peak_bytes);
            let speed = attempt.throughput_samples_per_second.unwrap_or_default();
            format!("fits, peak {peak}, {speed:.1} samples/s")
        }
        Some(reason) if attempt.stalled => {
            let word = reason.word();
            format!("too large: its memory was full, and it got nowhere ({word})")
        }
        Some(reason) => reason.word(),
    };
    format!(
        "{} {} at batch {}: {ended} ({:.0} s)",
        found.scenario, found.combination, attempt.batch, attempt.seconds
    )
}

fn size(bytes: Option<u64>) -> String {
    let shown = bytes.map(|bytes| ByteSize(bytes).display().iec().to_string());
    shown.unwrap_or_else(|| "–".to_owned())
}

/// The suite, cut down to one scenario where one is named: `SUITE:SCENARIO`.
pub(crate) fn suite(reference: &str) -> Result<Suite> {
    let catalog = scenarios::catalog()?;
    let (name, scenario) = scenarios::split(reference);
    let mut suite = catalog.load(name)?;
    let Some(scenario) = scenario else {
        return Ok(suite);
    };
    let known: Vec<String> = suite.scenarios.iter().map(|one| one.name.clone()).collect();
    suite.scenarios.retain(|one| one.name == scenario);
    if suite.scenarios.is_empty() {
        return Err(Error::Input(format!(
            "suite {} has no scenario `{scenario}`; it has: {}",
            suite.name,
            known.join(", ")
        )));
    }
    Ok(suite)
}

fn tell(fit: &Fit, args: &FitArgs, printer: &Printer) -> Result<()> {
    let format = args.format;
    if let Some(out) = &args.out {
        let page = reports::fit::write(fit, out)?;
        printer.note(&format!("drawn: {}", page.display()));
    }
    if format == Format::Json {
        return printer.json(fit);
    }
    let heads = "image,scenario,combination,largest batch,peak,samples/s,why no more";
    let mut all = table(format, heads.split(','));
    for one in &fit.found {
        let batch = one.largest_batch;
        let best = one.largest_attempt();
        all.add_row([
            one.image.clone(),
            one.scenario.clone(),
            one.combination.clone(),
            batch.map_or_else(|| "none".to_owned(), |batch| batch.to_string()),
            size(best.and_then(|attempt| attempt.peak_bytes)),
            best.and_then(|attempt| attempt.throughput_samples_per_second)
                .map_or_else(|| "–".to_owned(), |speed| format!("{speed:.1}")),
            reports::fit::why_no_more(one),
        ]);
    }
    printer.line(&all.to_string());
    for sentence in &fit.advice {
        printer.line(sentence);
    }
    Ok(())
}
