//! One record, out of what was asked, what the executor saw and what the workload told.

use bytesize::ByteSize;
use protocol::Event;
use record::{Monitor, Outcome, Reason, Record, Session, Stage};

use crate::{
    evaluation::Evaluation,
    executors::{Execution, Order},
    host::Host,
    invariants,
    plan::{Cell, Run},
    results::Results,
    validity,
};

pub(super) struct Pieces<'a> {
    pub(super) session: &'a Session,
    pub(super) host: &'a dyn Host,
    pub(super) run: &'a Run,
    pub(super) cell: &'a Cell,
    pub(super) attempt: u32,
    pub(super) order: &'a Order,
    pub(super) execution: Execution,
    /// Relative to the session folder.
    pub(super) log: Option<String>,
}

pub(super) fn record(pieces: Pieces<'_>) -> Record {
    let Pieces {
        session,
        host,
        run,
        cell,
        attempt,
        order,
        mut execution,
        log,
    } = pieces;
    let Evaluation {
        mut outcome,
        results,
        metrics,
        phase_began_seconds,
        measured,
    } = Evaluation::of(order, &execution);
    if outcome.is_ok() {
        let told = metrics.as_ref();
        let told = told.ok_or_else(|| "the run ended well, but told no metrics".to_owned());
        let (monitor, lived) = (&execution.monitor, execution.lived_seconds());
        outcome = told
            .and_then(|told| invariants::check(&order.asked, &results, told, monitor, lived))
            .and_then(|()| right_gpu(session, order, &results))
            .map_or_else(invalid, |()| Outcome::Ok);
    }
    if outcome.is_ok()
        && let Some(message) = other_libtorch(session, &cell.plan.image, &results)
    {
        outcome = Outcome::Failed {
            reason: Reason::ImageBroken,
            stage: Stage::Validate,
            message,
        };
    }
    let contaminated = validity::contamination(
        &execution.validity.limits.clone().unwrap_or_default(),
        &execution.monitor,
        host,
        session.machine.memory_bytes,
        session.policy.shares_gpu,
    );
    outcome = in_hindsight(outcome, &execution.monitor, &contaminated);
    let method = cell.method(&session.engine.kind, &execution.isolation);
    let cell = &cell.plan;
    if let Some(expected) = cell.expected {
        outcome = outcome.expecting(expected);
    }
    execution.validity.contamination = contaminated;
    execution.monitor.close(measured);
    let left = match &results.end {
        Some(Event::Failed { memory, .. }) if !outcome.is_ok() => memory.as_deref(),
        _ => None,
    };
    execution.notes.extend(left.map(memory_note));
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
        method,
        outcome,
        workload: results.started,
        metrics,
        steps: results.steps,
        phase_seconds: results.phase_seconds,
        phase_began_seconds,
        harness: execution.cost,
        monitor: execution.monitor,
        validity: execution.validity,
        log,
        shortage: left.and_then(|memory| memory.shortage),
        notes: execution.notes,
    }
}

fn invalid(message: String) -> Outcome {
    Outcome::Failed {
        reason: Reason::Invalid,
        stage: Stage::Validate,
        message,
    }
}

/// The outcome once it is known what happened around the run. A GPU that broke and a machine that
/// was in use say more about a run than its metrics, and than an end that they may have caused.
fn in_hindsight(outcome: Outcome, monitor: &Monitor, contaminated: &[String]) -> Outcome {
    let (reason, stage, ended) = match &outcome {
        Outcome::Ok => (None, Stage::Validate, "it ended well".to_owned()),
        Outcome::Expected {
            reason,
            stage,
            message,
        }
        | Outcome::Failed {
            reason,
            stage,
            message,
        } => (
            Some(*reason),
            *stage,
            format!("it ended with {}: {message}", reason.word()),
        ),
    };
    if let Some(lost) = &monitor.gpu_lost
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
    if contaminated.is_empty() || !may_be_caused {
        return outcome;
    }
    Outcome::Failed {
        reason: Reason::Contaminated,
        stage,
        message: format!("{}; {ended}", contaminated.join("; ")),
    }
}

/// Whether the workload ran on the GPU that it was to run on.
fn right_gpu(session: &Session, order: &Order, results: &Results) -> Result<(), String> {
    let protocol::Device::Cuda(index) = order.device else {
        return Ok(());
    };
    let asked = session.machine.gpus.iter().find(|gpu| gpu.index == index);
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
                "it ran on the GPU {}, but cuda:{index} is {}",
                got.uuid, asked.uuid
            ))
        }
        (_, None) => Err(format!("it was to run on cuda:{index}, but told of no GPU")),
        _ => Ok(()),
    }
}

/// Where an image was taken for one of another libtorch than its workload was compiled with.
fn other_libtorch(session: &Session, image: &str, results: &Results) -> Option<String> {
    let facts = session.images.iter().find(|facts| facts.name == image)?;
    let taken = &facts.libtorch_version;
    let told = &results.started.as_ref()?.libtorch_version;
    (release(taken)? != release(told)?).then(|| {
        format!(
            "the image {image} is said to hold libtorch {taken}, and its workload is of libtorch \
             {told}; build the image anew, or take the one that was meant"
        )
    })
}

/// `[2, 11, 0]` of `2.11.0a0+cu130`: what headers state of a version.
fn release(version: &str) -> Option<Vec<u32>> {
    let numbers = version.splitn(3, '.').map(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_digit());
        part[..end.unwrap_or(part.len())].parse().ok()
    });
    let numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
    (numbers.len() == 3).then_some(numbers)
}

fn memory_note(memory: &protocol::Memory) -> String {
    let size = |bytes: u64| ByteSize(bytes).display().iec().to_string();
    if let Some(shortage) = &memory.shortage {
        return format!(
            "when memory ran out: {} asked for, {} free of {}; the allocator held {}, of them {} in \
             tensors",
            size(shortage.requested_bytes),
            size(shortage.free_bytes),
            size(shortage.capacity_bytes),
            size(shortage.reserved_bytes),
            size(shortage.allocated_bytes),
        );
    }
    let metrics = [
        ("allocated", memory.allocated_bytes),
        ("reserved", memory.reserved_bytes),
        ("used on the GPU", memory.device_used_bytes),
        ("the GPU has", memory.device_total_bytes),
    ];
    let known: Vec<_> = metrics
        .iter()
        .filter_map(|(name, bytes)| bytes.map(|bytes| format!("{name} {}", size(bytes))))
        .collect();
    format!("memory when it failed: {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_what_headers_state() {
        for (version, numbers) in [
            ("2.11.0", Some(vec![2, 11, 0])),
            ("2.11.0+cu130", Some(vec![2, 11, 0])),
            ("2.4.0a0+f70bd71a48.nv24.06", Some(vec![2, 4, 0])),
            ("2.11", None),
            ("", None),
        ] {
            assert_eq!(release(version), numbers, "{version}");
        }
    }
}
