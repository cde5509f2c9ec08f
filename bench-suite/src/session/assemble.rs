//! One record, out of what was asked, what the executor saw and what the workload told.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use metrics::{Kind, Metric, Role};
use protocol::{Axes, Kernel, Module, Shortage, Snapshot, Values, bad_values};
use record::{
    CellPlan, DeclaredMetric, Monitor, Outcome, Place, Rank, Reason, Record, Session, Stage,
};

use crate::{
    evaluation::Evaluation,
    executors::{Execution, Order},
    hook::NEEDS,
    host::Host,
    plan::Run,
    results::{RankResults, Results},
    validity, values,
};

/// The record of a run, and the metrics that its program says how to compare.
pub(super) fn record(
    session: &Session,
    hosts: &[&dyn Host],
    run: &Run,
    order: &Order,
    execution: Execution,
) -> (Record, Vec<DeclaredMetric>) {
    let mut evaluated = Evaluation::of(order, &execution);
    let limits = execution.record.validity.limits.clone().unwrap_or_default();
    let contaminated = validity::contamination(
        &limits,
        &execution.record.monitor,
        hosts,
        order.machine_memory_bytes,
        &session.policy,
    );
    let cell = &order.cell;
    check(&mut evaluated, session, order, &execution);
    let Evaluation {
        mut outcome,
        results,
        mut ranks,
        mut values,
        phase_began_seconds,
        measured,
    } = evaluated;
    let mut record = execution.record;
    outcome = in_hindsight(outcome, &record.monitor, &contaminated);
    let method = cell.method(&session.engine.kind, &record.isolation);
    let cell = &cell.plan;
    if let Some(expected) = cell.expected {
        outcome = outcome.expecting(expected);
    }
    record.validity.contamination = contaminated;
    record.monitor.close(measured);
    let failed = results.failed().filter(|_| !outcome.is_ok());
    let shortage = failed.and_then(|failed| failed.shortage);
    let note = failed.and_then(|failed| memory_note(&failed.values, shortage.as_ref()));
    record.notes.extend(note);
    let notes = [
        values::leak_note(&values),
        values::modes_note(&values),
        head_start(&cell.axes, cell.steps.warmup).filter(|_| outcome.is_ok()),
    ];
    record.warnings.extend(notes.into_iter().flatten());
    let reported = outcome.is_ok().then(|| reported(&results));
    if !cell.steps.snapshot.is_never() {
        ranks.iter_mut().for_each(leave_out_speed);
        leave_out_speed(&mut values);
        note_snapshot(cell, &outcome, &mut record);
    }
    let (first, others) = split(&results, ranks, order);
    if outcome.is_ok() && first.started.is_none() {
        record.notes.extend(silence(order));
    }
    let asked = Some(cell.steps.profiled).filter(|_| outcome.is_ok());
    let (kernels, note) = profiled(asked, first.kernels);
    let (modules, other) = attributed(cell.steps.attribution && outcome.is_ok(), first.modules);
    record.warnings.extend(note.into_iter().chain(other));
    let record = Record {
        version: record::VERSION,
        run: run.name.clone(),
        session: session.session.clone(),
        image: cell.image.clone(),
        suite: cell.suite.clone(),
        scenario: cell.scenario.clone(),
        workload: cell.workload.clone(),
        axes: cell.axes.clone(),
        host: order.cell.places[0].host.clone(),
        device: order.cell.device(),
        block: run.block,
        order: run.order,
        attempt: order.attempt,
        method,
        outcome,
        started: first.started,
        values,
        series: values::series(&first.steps),
        facts: first.facts,
        kernels,
        modules,
        memory_points: first.memory_points,
        ranks: others,
        phase_seconds: first.phase_seconds,
        phase_began_seconds,
        shortage,
        ..record
    };
    (record, reported.unwrap_or_default())
}

/// What there is to know of a program whose hook yielded nothing.
fn silence(order: &Order) -> Option<String> {
    let program = order.cell.work.program()?;
    let note = || format!("the program reported nothing and was measured from outside: {NEEDS}");
    program.file.hook.then(note)
}

/// What ran in profiled steps, the longest first, and what is wrong where nothing did.
fn profiled(asked: Option<u32>, found: BTreeMap<String, Kernel>) -> (Vec<Kernel>, Option<String>) {
    let mut kernels: Vec<Kernel> = found.into_values().collect();
    kernels.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let asked = asked.filter(|steps| *steps > 0 && kernels.is_empty());
    let note = asked.map(|steps| {
        format!(
            "no kernel of {steps} profiled steps was reported; the log has the cause where it is known"
        )
    });
    (kernels, note)
}

/// The modules of a run, and what is wrong with them: those that do not add up to their step are
/// left out, and the rest of the run stays.
fn attributed(is_asked: bool, found: BTreeMap<String, Module>) -> (Vec<Module>, Option<String>) {
    let modules: Vec<Module> = found.into_values().collect();
    let note = match Module::mismatch(&modules) {
        Some(mismatch) => format!("the modules are left out: {mismatch}"),
        None if is_asked && modules.is_empty() => {
            "no module was attributed; the log has the cause where it is known".to_owned()
        }
        None => return (modules, None),
    };
    (Vec::new(), Some(note))
}

/// Leaves out the times and rates of a run that recorded allocations, which slows it.
fn leave_out_speed(values: &mut Values) {
    let stays = |of: &Metric| of.kind != Kind::TimeLike || of.role == Role::Describes;
    values.retain(|name, _| Metric::named(name).is_none_or(stays));
}

/// What the warm-up of a run leaves of the batches that a data loader's workers made before it.
fn head_start(axes: &Axes, warmup: u32) -> Option<String> {
    let number = |axis: &str| axes.get(axis)?.parse::<u64>().ok();
    let ahead = number("loader_workers")? * number("prefetch_factor").unwrap_or(2);
    let used = u64::from(warmup) * number("accumulation").unwrap_or(1);
    (used < ahead).then(|| {
        format!(
            "the workers had made up to {ahead} batches in advance, and the warm-up used {used}: \
             waiting and throughput are better than they stay; expected `steps: {{warmup: {ahead}}}` \
             or more"
        )
    })
}

/// What to know of a run that recorded allocations.
fn note_snapshot(cell: &CellPlan, outcome: &Outcome, record: &mut Record) {
    let speed = "not for speed: allocations were recorded, and times and rates are left out";
    record.warnings.push(speed.to_owned());
    let ran_out = outcome.reason() == Some(Reason::OutOfMemory);
    if let Some(file) = &record.snapshot {
        record.notes.push(format!(
            "allocations recorded: {file}; open it at https://docs.pytorch.org/memory_viz, or with \
             `python3 -m torch.cuda._memory_viz trace_plot {file} -o memory.html`"
        ));
    } else if ran_out || (cell.steps.snapshot == Snapshot::Always && outcome.is_ok()) {
        let missing = "no snapshot was written; the log has the cause where it is known";
        record.warnings.push(missing.to_owned());
    }
}

/// The metrics of a program's own that have a unit and a direction.
fn reported(results: &Results) -> Vec<DeclaredMetric> {
    let all = results.ranks.iter().flat_map(|rank| &rank.reported);
    let own = all.filter(|(name, _)| Metric::built_in(name).is_none());
    own.filter_map(|(name, told)| Some(DeclaredMetric::reported(name, told.unit?, told.better?)))
        .collect()
}

/// Holds what a run that says to have ended well yielded against what was asked, and against what
/// the machine and its image are.
fn check(evaluated: &mut Evaluation, session: &Session, order: &Order, execution: &Execution) {
    let Evaluation {
        outcome,
        results,
        ranks,
        values,
        ..
    } = evaluated;
    // What the harness adds, and what several processes report, may be too many.
    let problem = ranks.iter().chain([&*values]).find_map(bad_values);
    if problem.is_some() {
        let all = ranks.iter_mut().chain([values]);
        all.for_each(Values::clear);
    }
    if !outcome.is_ok() {
        return;
    }
    let contradiction = || {
        let asked = order.builtin();
        let mut told = ranks.iter().zip(&results.ranks);
        let contradiction = told.find_map(|(values, told)| {
            values::contradiction(values, told, asked.as_ref(), execution)
        });
        let mut places = results.ranks.iter().zip(&order.cell.places);
        let is_program = asked.is_none();
        let wrong = |(told, place): (&RankResults, &Place)| {
            // Of what took no step nothing is known.
            if is_program && told.steps.is_empty() {
                return None;
            }
            wrong_gpu(session, place, told)
        };
        contradiction.or_else(|| places.find_map(wrong))
    };
    if let Some(message) = problem.or_else(contradiction) {
        *outcome = Outcome::failed(Reason::Invalid, Stage::Validate, message);
    } else if let Some(message) = other_libtorch(session, &order.cell.plan.image, results.first()) {
        *outcome = Outcome::failed(Reason::ImageBroken, Stage::Validate, message);
    }
}

/// The outcome once it is known what happened around the run. A GPU that broke and a machine that
/// was in use say more about a run than its metrics, and than an end that they may have caused.
fn in_hindsight(outcome: Outcome, monitor: &Monitor, contaminated: &[String]) -> Outcome {
    let (reason, stage, ended) = match outcome.failure() {
        None => (None, Stage::Validate, "it ended well".to_owned()),
        Some(failure) => {
            let (reason, message) = (failure.reason, &failure.message);
            let ended = format!("it ended with {}: {message}", reason.word());
            (Some(reason), failure.stage, ended)
        }
    };
    if let Some(lost) = monitor.gpus.iter().find_map(|gpu| gpu.lost.as_ref())
        && !matches!(reason, Some(Reason::Interrupted | Reason::GpuLost))
    {
        return Outcome::failed(Reason::GpuLost, stage, format!("{lost}; {ended}"));
    }
    let may_be_caused = matches!(
        reason,
        None | Some(Reason::OutOfMemory | Reason::TimeLimit | Reason::Hang)
    );
    if contaminated.is_empty() || !may_be_caused {
        return outcome;
    }
    Outcome::failed(
        Reason::Contaminated,
        stage,
        format!("{}; {ended}", contaminated.join("; ")),
    )
}

/// The first process of a run, and all of them where there are several.
fn split(results: &Results, values: Vec<Values>, order: &Order) -> (RankResults, Vec<Rank>) {
    let ranks = (0..).zip(results.ranks.iter().zip(values).zip(&order.cell.places));
    let ranks = ranks.map(|(rank, ((told, values), place))| Rank {
        rank,
        place: place.clone(),
        started: told.started.clone(),
        values,
    });
    let ranks: Vec<Rank> = ranks.collect();
    let several = if ranks.len() > 1 { ranks } else { Vec::new() };
    (results.first().clone(), several)
}

/// Why the workload did not run on the GPU that it was to run on; `None` where it did.
fn wrong_gpu(session: &Session, place: &Place, results: &RankResults) -> Option<String> {
    let device = place.device;
    if !device.is_cuda() {
        return None;
    }
    let machine = session.hosts.get(&place.host);
    let asked = machine.unwrap_or(session.machine()).gpu(device);
    let got = results
        .started
        .as_ref()
        .and_then(|started| started.cuda.as_ref());
    let bare = |uuid: &str| uuid.trim_start_matches("GPU-").to_ascii_lowercase();
    match (asked, got) {
        (Some(asked), Some(got))
            if !got.uuid.is_empty() && bare(&asked.uuid) != bare(&got.uuid) =>
        {
            Some(format!(
                "it ran on the GPU {}, but {device} is {}",
                got.uuid, asked.uuid
            ))
        }
        (_, None) => Some(format!(
            "it was to run on {device}, but reports no GPU: it worked on the CPU; does its PyTorch \
             have CUDA?"
        )),
        _ => None,
    }
}

/// Where an image was taken for one of another libtorch than its workload was compiled with.
fn other_libtorch(session: &Session, image: &str, results: &RankResults) -> Option<String> {
    let facts = session.images.iter().find(|facts| facts.name == image)?;
    let taken = &facts.libtorch_version;
    let told = &results.started.as_ref()?.libtorch_version;
    (release(taken)? != release(told)?).then(|| {
        format!(
            "the image {image} is declared to hold libtorch {taken}, and its workload is of libtorch \
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

fn memory_note(values: &Values, shortage: Option<&Shortage>) -> Option<String> {
    let size = |bytes: u64| ByteSize(bytes).display().iec().to_string();
    if let Some(shortage) = shortage {
        return Some(format!(
            "when memory ran out: {} asked for, {} free of {}; the allocator held {}, of them {} in \
             tensors",
            size(shortage.requested_bytes),
            size(shortage.free_bytes),
            size(shortage.capacity_bytes),
            size(shortage.reserved_bytes),
            size(shortage.allocated_bytes),
        ));
    }
    let metrics = [
        ("allocated", "allocated_bytes"),
        ("reserved", "reserved_bytes"),
        ("used on the GPU", "device_used_bytes"),
        ("the GPU has", "device_total_bytes"),
    ];
    let known: Vec<_> = metrics
        .iter()
        .filter_map(|(what, name)| {
            Some(format!(
                "{what} {}",
                size(values::whole(*values.get(*name)?))
            ))
        })
        .collect();
    (!known.is_empty()).then(|| format!("memory when it failed: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_shorter_than_what_workers_made_in_advance_is_named() {
        let of = |axes: &str, warmup| head_start(&serde_json::from_str(axes).unwrap(), warmup);
        let eight = r#"{"loader_workers":"8","accumulation":"2"}"#;
        assert_eq!(of(eight, 8), None);
        insta::assert_snapshot!(of(eight, 7).unwrap(), @"the workers had made up to 16 batches in advance, and the warm-up used 14: waiting and throughput are better than they stay; expected `steps: {warmup: 16}` or more");
        let deep = r#"{"loader_workers":"8","prefetch_factor":"4"}"#;
        insta::assert_snapshot!(of(deep, 31).unwrap(), @"the workers had made up to 32 batches in advance, and the warm-up used 31: waiting and throughput are better than they stay; expected `steps: {warmup: 32}` or more");
        assert_eq!(of(r#"{"accumulation":"2"}"#, 0), None);
    }

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
