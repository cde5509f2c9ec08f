//! One record, out of what was asked, what the executor saw and what the workload told.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use record::{CellPlan, Monitor, Outcome, Reason, Record, Session, Stage, ValidityLimits};

use crate::{
    execute::{Execution, Order},
    invariants, monitor,
    outcome::judge,
    plan::Run,
    results::{self, Results, WorkloadEnd},
    validity,
};

pub(super) struct Parts<'a> {
    pub(super) session: &'a Session,
    pub(super) run: &'a Run,
    pub(super) cell: &'a CellPlan,
    pub(super) attempt: u32,
    pub(super) order: &'a Order,
    pub(super) execution: Execution,
    /// Relative to the session folder.
    pub(super) log: Option<String>,
}

pub(super) fn record(parts: Parts<'_>) -> Record {
    let Parts {
        session,
        run,
        cell,
        attempt,
        order,
        mut execution,
        log,
    } = parts;
    let results = results::read(&order.results_file(), &run.name);
    let said = tail(&order.log).ok();
    let mut outcome = judge(&execution.end, &results, said.as_deref());
    let metrics = match &results.end {
        Some(WorkloadEnd::Finished(summary)) => {
            Some(invariants::metrics(summary, &results, &execution.monitor))
        }
        _ => None,
    };
    if outcome.is_ok() {
        let checked = match &metrics {
            Some(metrics) => invariants::check(&order.asked, &results, metrics, &execution.monitor)
                .and_then(|()| right_card(session, order, &results)),
            None => Err("the run ended well, but told no figures".to_owned()),
        };
        if let Err(message) = checked {
            outcome = Outcome::Failed {
                reason: Reason::Invalid,
                stage: Stage::Validate,
                message,
            };
        }
    }
    let spoilt = validity::contamination(
        execution
            .validity
            .limits
            .as_ref()
            .unwrap_or(&ValidityLimits::default()),
        &execution.monitor,
        validity::Host {
            processors: monitor::processors(),
            memory_bytes: session.machine.memory_bytes,
        },
        session.conduct.shares_card,
    );
    outcome = in_hindsight(outcome, &execution.monitor, &spoilt);
    execution.validity.contamination = spoilt;
    let mut notes = execution.notes;
    if let (
        Some(WorkloadEnd::Failed {
            memory: Some(memory),
            ..
        }),
        false,
    ) = (&results.end, outcome.is_ok())
    {
        notes.push(memory_note(memory));
    }
    Record {
        version: record::VERSION,
        run: run.name.clone(),
        session: session.session.clone(),
        image: cell.image.clone(),
        image_id: execution.image_id,
        suite: cell.suite.clone(),
        scenario: cell.scenario.clone(),
        model: cell.model,
        task: cell.task,
        variant: cell.variant.clone(),
        device: order.device,
        block: run.block,
        order: run.order,
        attempt,
        started_at: execution.started_at,
        wall_seconds: execution.wall_seconds,
        isolation: execution.isolation,
        outcome,
        workload: results.started,
        metrics,
        steps: results.steps,
        phase_seconds: results.phase_seconds,
        harness: execution.cost,
        monitor: execution.monitor,
        validity: execution.validity,
        log,
        notes,
    }
}

/// The outcome once it is known what happened around the run. A card that broke and a machine that
/// was in use say more about a run than its figures, and than an end that they may have caused.
fn in_hindsight(outcome: Outcome, monitor: &Monitor, spoilt: &[String]) -> Outcome {
    let (reason, stage, ended) = match &outcome {
        Outcome::Ok => (None, Stage::Validate, "it ended well".to_owned()),
        Outcome::Failed {
            reason,
            stage,
            message,
        } => (
            Some(*reason),
            *stage,
            format!("it ended with {}: {message}", reason.word()),
        ),
    };
    if let Some(lost) = &monitor.card_lost
        && !matches!(reason, Some(Reason::Interrupted | Reason::GpuLost))
    {
        return Outcome::Failed {
            reason: Reason::GpuLost,
            stage,
            message: format!("{lost}; {ended}"),
        };
    }
    let may_be_caused = matches!(
        reason,
        None | Some(Reason::OutOfMemory | Reason::TimeLimit | Reason::Hang)
    );
    if spoilt.is_empty() || !may_be_caused {
        return outcome;
    }
    Outcome::Failed {
        reason: Reason::Contaminated,
        stage,
        message: format!("{}; {ended}", spoilt.join("; ")),
    }
}

/// Whether the workload ran on the card that it was to run on.
fn right_card(session: &Session, order: &Order, results: &Results) -> Result<(), String> {
    let protocol::Device::Cuda(index) = order.device else {
        return Ok(());
    };
    let asked = session
        .machine
        .cards
        .iter()
        .find(|card| card.index == index);
    let got = results
        .started
        .as_ref()
        .and_then(|started| started.cuda.as_ref());
    let bare = |uuid: &str| uuid.trim_start_matches("GPU-").to_ascii_lowercase();
    match (asked, got) {
        (Some(asked), Some(got))
            if !got.uuid.is_empty() && bare(&asked.uuid) != bare(&got.uuid) =>
        {
            Err(format!(
                "it ran on the card {}, but cuda:{index} is {}",
                got.uuid, asked.uuid
            ))
        }
        (_, None) => Err(format!(
            "it was to run on cuda:{index}, but told of no card"
        )),
        _ => Ok(()),
    }
}

fn memory_note(memory: &protocol::Memory) -> String {
    let figures = [
        ("allocated", memory.allocated_bytes),
        ("reserved", memory.reserved_bytes),
        ("used on the card", memory.device_used_bytes),
        ("card", memory.device_total_bytes),
    ];
    let known: Vec<_> = figures
        .iter()
        .filter_map(|(name, bytes)| bytes.map(|bytes| format!("{name} {bytes} bytes")))
        .collect();
    format!("memory when it failed: {}", known.join(", "))
}

/// The last few thousand bytes of a log.
fn tail(path: &Path) -> io::Result<String> {
    const LAST: u64 = 4096;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST)))?;
    let mut bytes = Vec::new();
    file.take(LAST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // Neither terminals nor records want what a program drew there.
    Ok(text.replace(|c: char| c.is_control() && c != '\n', " "))
}
