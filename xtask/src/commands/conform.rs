//! `scenarios conform`: whether a program reports its numbers as `docs/protocol.md` describes.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use bench_suite::{
    hook,
    outcome::signal_name,
    results::{self, EndWatch, Fault, RankEnd, RankResults, Results},
    suite::Launcher,
};
use clap::Args;
use metrics::Metric;
use protocol::{EVENTS_VARIABLE, ProgramRun, RUN_VARIABLE, Snapshot, Source, Until, VERSION};
use record::command_line;
use reports::format::{Quantity, plural, seconds, times};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{
    cli::{Format, exit_codes},
    commands::{bench::signalled, program::ReportingArgs, write_file},
    error::{Error, Result},
    exit_code::{Code, OwnError},
    printer::Printer,
    table::table,
};

const RUN: &str = "conform";
/// Most bytes of events, as suites have it where they set nothing, and of what it prints.
const MOST_BYTES: u64 = 64 << 20;
/// Lines of the output that are shown, and kernels.
const SHOWN: usize = 10;
/// Between two looks at the program.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a program whose steps are measured may take to end by itself, and then by SIGTERM.
const PATIENCE: [(Option<Signal>, Duration); 2] = [
    (None, Duration::from_secs(1)),
    (Some(Signal::TERM), Duration::from_secs(5)),
];

#[derive(Debug, Clone, Args)]
#[command(after_help = exit_codes!(), mut_arg("command", |command| {
    command.required(true).help("The program with its arguments")
}))]
pub(crate) struct ConformArgs {
    /// Samples of one step of one process, for the throughput, where the program does not say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    samples_per_step: Option<u32>,
    #[command(flatten)]
    reports: ReportingArgs,
}

/// Why a program's numbers cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConformError {
    #[error("cannot start {command}: {source}; check the command after `--`")]
    Start { command: String, source: io::Error },
    #[error("stopped before the program's end")]
    Stopped,
    #[error(
        "the program does not conform: {}; the protocol is in docs/protocol.md",
        plural(*.0, "violation", "violations")
    )]
    Violations(usize),
}

impl OwnError for ConformError {
    fn code(&self) -> Code {
        match self {
            Self::Start { .. } => Code::BadUsage,
            Self::Stopped => Code::Trouble,
            Self::Violations(_) => Code::GateSaysNo,
        }
    }
}

impl ConformArgs {
    fn ranks(&self) -> usize {
        self.reports.ranks.unwrap_or(1) as usize
    }

    fn steps(&self) -> u32 {
        self.reports.steps.unwrap_or(20)
    }

    fn time_limit(&self) -> Duration {
        self.reports.time_limit.unwrap_or(Duration::from_mins(10))
    }
}

/// How the program's run came to its end.
enum Over {
    ByItself,
    AfterSteps,
    TimeLimit,
    Flooded,
}

/// Runs the program and says what it reported.
pub(crate) async fn run(args: &ConformArgs, printer: &Printer) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|source| Error::Start {
        what: "the program, for want of a folder".into(),
        source,
    })?;
    hook::write(folder.path()).map_err(|source| Error::Write {
        path: folder.path().to_owned(),
        source,
    })?;
    let [events, log] = ["events", "log"].map(|name| folder.path().join(name));
    write_file(&events, "")?;
    let (over, status) = carry_out(args, folder.path(), &events, &log).await?;
    let (results, faults) = results::check(&events, RUN, args.ranks(), MOST_BYTES);
    show(&results, printer);
    printer.line(&match &over {
        Over::ByItself => format!("the program {}", ended(status)),
        Over::AfterSteps => format!("after its measured steps the program {}", ended(status)),
        Over::TimeLimit => format!(
            "the program took longer than {} and was ended",
            seconds(args.time_limit().as_secs_f64())
        ),
        Over::Flooded => format!("the program wrote more than {MOST_BYTES} bytes and was ended"),
    });
    let violations = violations(args, (&over, status), &results, &faults);
    if violations.is_empty() {
        printer.line("the program conforms");
        return Ok(());
    }
    for violation in &violations {
        printer.line(&format!("violation: {violation}"));
    }
    let output = bench_suite::log::tail(&log).unwrap_or_default();
    let lines: Vec<&str> = output.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        printer.note(&format!("  | {line}"));
    }
    Err(ConformError::Violations(violations.len()).into())
}

/// Starts the program in a process group of its own.
fn start(args: &ConformArgs, folder: &Path, events: &Path, log: &Path) -> Result<Child> {
    let asked = ProgramRun {
        version: VERSION,
        run: RUN.to_owned(),
        warmup: args.reports.warmup.unwrap_or(3),
        warmup_seconds: 0,
        measured: args.steps(),
        profiled: args.reports.profiled_steps.unwrap_or(0),
        attribution: false,
        snapshot: Snapshot::Never,
        snapshot_entries: 0,
        samples_per_step: args.samples_per_step.map(f64::from),
        until: if args.reports.until_exit {
            Until::Exit
        } else {
            Until::Measured
        },
    };
    let asked = serde_json::to_string(&asked).map_err(|source| Error::Json { source })?;
    let failed = |source| ConformError::Start {
        command: command_line(&args.reports.command),
        source,
    };
    let output = File::create(log).map_err(failed)?;
    let mut words = args.reports.command.clone();
    let launcher = args.reports.launcher();
    let ranks = args.reports.ranks.unwrap_or(1);
    if ranks > 1 && launcher.unwrap_or_else(|| Launcher::of(&words)) == Launcher::Torchgauge {
        words = hook::of_ranks(folder, events, ranks, &words);
    }
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env(EVENTS_VARIABLE, events)
        .env(RUN_VARIABLE, asked)
        .env_remove(hook::FIRST_VARIABLE)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(output)
        .process_group(0);
    if !args.reports.no_hook {
        let given = env::var_os("PYTHONPATH");
        command.env("PYTHONPATH", hook::python_path(folder.into(), given));
    }
    Ok(command.spawn().map_err(failed)?)
}

/// Runs the program to its end, or to where it is ended, and leaves nothing of it behind.
async fn carry_out(
    args: &ConformArgs,
    folder: &Path,
    events: &Path,
    log: &Path,
) -> Result<(Over, ExitStatus)> {
    let mut child = start(args, folder, events, log)?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let send = |signal| group.map(|group| kill_process_group(group, signal));
    let over = tokio::select! {
        _ = child.wait() => Some(Over::ByItself),
        over = watch(args, events, log) => Some(over),
        () = sleep(args.time_limit()) => Some(Over::TimeLimit),
        () = signalled() => None,
    };
    if matches!(over, Some(Over::AfterSteps)) {
        for (signal, patience) in PATIENCE {
            signal.map(send);
            if timeout(patience, child.wait()).await.is_ok() {
                break;
            }
        }
    }
    send(Signal::KILL);
    let status = child.wait().await.unwrap_or_default();
    Ok((over.ok_or(ConformError::Stopped)?, status))
}

/// Waits until the program has reported all that it was asked for, or more than it may.
async fn watch(args: &ConformArgs, events: &Path, log: &Path) -> Over {
    let length = |file| fs::metadata(file).map_or(0, |facts| facts.len());
    let mut watch = EndWatch::default();
    loop {
        sleep(PAUSE).await;
        let (length, printed) = (length(events), length(log));
        if length.max(printed) > MOST_BYTES {
            return Over::Flooded;
        }
        let read = || results::check(events, RUN, args.ranks(), MOST_BYTES).0;
        if !args.reports.until_exit && watch.is_over(length, read) {
            return Over::AfterSteps;
        }
    }
}

fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by {}", signal_name(signal)),
        None => format!("ended with status {}", status.code().unwrap_or(-1)),
    }
}

fn show(results: &Results, printer: &Printer) {
    let ranks = results.ranks.iter().enumerate();
    let ranks = ranks.filter(|(_, told)| told.started.is_some());
    let mut processes = table(
        Format::Text,
        ["rank", "measured steps", "of each", "phases"],
    );
    let mut values = table(Format::Text, ["rank", "value", "", "unit", "source"]);
    for (rank, told) in ranks.clone() {
        let phases = told.phase_seconds.iter().map(|(phase, time)| {
            let phase = serde_json::to_value(phase).unwrap_or_default();
            format!("{} {}", phase.as_str().unwrap_or_default(), seconds(*time))
        });
        let series: Vec<&str> = told.series.iter().map(String::as_str).collect();
        processes.add_row([
            rank.to_string(),
            told.steps.len().to_string(),
            series.join(", "),
            phases.collect::<Vec<_>>().join(", "),
        ]);
        for (name, value) in &told.values {
            let reported = told.reported.get(name);
            let unit = unit(told, name);
            let source = match reported.map(|reported| reported.source) {
                Some(Source::Hook) => "hook",
                Some(Source::Helper) => "helper",
                Some(Source::Program) | None => "program",
            };
            values.add_row([
                rank.to_string(),
                name.clone(),
                unit.map_or(Quantity::Plain, Quantity::from).write(*value),
                unit.map_or("", record::Unit::sign).to_owned(),
                source.to_owned(),
            ]);
        }
    }
    if ranks.clone().next().is_none() {
        return;
    }
    printer.line(&format!("{processes}\n\n{values}\n"));
    for (rank, told) in ranks {
        let facts = told
            .facts
            .iter()
            .map(|(name, fact)| format!("{name} {fact}"));
        let facts: Vec<String> = facts.collect();
        if !facts.is_empty() {
            printer.line(&format!("rank {rank}: {}", facts.join(", ")));
        }
        if told.steps.is_empty() {
            printer.line(&format!(
                "rank {rank}: no steps; its values are of the time from its start to its end"
            ));
        }
    }
    show_kernels(results.first(), printer);
}

/// What took most of a profiled step.
fn show_kernels(told: &RankResults, printer: &Printer) {
    let mut kernels: Vec<_> = told.kernels.values().collect();
    if kernels.is_empty() {
        return;
    }
    kernels.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let mut shown = table(Format::Text, ["kernel", "in a step", "for"]);
    for kernel in kernels.iter().take(SHOWN) {
        let time = seconds(kernel.seconds);
        shown.add_row([kernel.name.clone(), times(kernel.count), time]);
    }
    let all = plural(kernels.len(), "kernel", "kernels");
    printer.line(&format!("\n{shown}\n{all} in all"));
}

fn unit(told: &RankResults, name: &str) -> Option<record::Unit> {
    let reported = told.reported.get(name).and_then(|reported| reported.unit);
    reported.or_else(|| Metric::named(name).map(|metric| metric.unit))
}

/// What keeps these from being a run's results.
fn violations(
    args: &ConformArgs,
    (over, status): (&Over, ExitStatus),
    results: &Results,
    faults: &[Fault],
) -> Vec<String> {
    let mut found: Vec<String> = faults.iter().map(ToString::to_string).collect();
    if faults == [Fault::Empty] {
        found = vec![format!(
            "no event was written; {}, and any other program writes its events itself",
            hook::NEEDS
        )];
    }
    for (rank, told) in results.ranks.iter().enumerate() {
        let of_rank = of_rank(args, told).into_iter();
        found.extend(of_rank.map(|violation| format!("rank {rank}: {violation}")));
    }
    match over {
        Over::ByItself if !status.success() && results.failed().is_none() => {
            found.push(format!("the program {}", ended(status)));
        }
        Over::TimeLimit => found.push("it did not end within --time-limit".to_owned()),
        Over::Flooded if faults.is_empty() => found.push("it printed too much".to_owned()),
        _ => {}
    }
    found
}

fn of_rank(args: &ConformArgs, told: &RankResults) -> Vec<String> {
    let mut found = Vec::new();
    let steps = told.steps.len();
    match &told.end {
        Some(RankEnd::Failed { message, .. }) => found.push(format!("it failed: {message}")),
        Some(RankEnd::Finished) if steps > 0 && steps != args.steps() as usize => {
            found.push(format!(
                "{}, and {} were asked for",
                plural(steps, "measured step", "measured steps"),
                args.steps()
            ));
        }
        _ => {}
    }
    let untimed = |step: &&protocol::Step| !step.values.contains_key("step_seconds");
    if let Some(step) = told.steps.iter().find(untimed) {
        found.push(format!("step {} has no step_seconds", step.index));
    }
    for (name, reported) in &told.reported {
        if let Some((metric, unit)) = Metric::named(name).zip(reported.unit)
            && metric.unit != unit
        {
            let (expected, got) = (metric.unit.sign(), unit.sign());
            found.push(format!("{name} in `{got}`, expected `{expected}`"));
        }
    }
    let mut values = told.values.clone();
    let times = told.steps.iter();
    let times: Vec<f64> = times
        .filter_map(|step| step.values.get("step_seconds").copied())
        .collect();
    if !times.is_empty() {
        values.insert("steps_count".to_owned(), steps as f64);
        values.insert("step_sum_seconds".to_owned(), times.iter().sum());
    }
    found.extend(metrics::broken_rule(&values));
    found
}
