//! The largest batch that trains within a memory budget.
//!
//! For each combination of the axes besides the batch, batches are attempted in throw-away runs with
//! the budget as a limit: on a GPU the allocator's limit, on the CPU the container's. The
//! search doubles at least until memory runs out and then narrows the gap, led by what the attempts
//! before took, so that a limit of some hundred takes half a dozen runs. Only a want of memory
//! counts as too large; any other failure ends the search of that combination and is told. On the
//! CPU a container whose memory is full and that gets nowhere wants memory, too: the kernel
//! ends it only when nothing is left that could be read from the disk again.

mod advice;
mod memory_limit;
mod search;

use protocol::Positive;
use record::{
    CellPlan, Reason,
    fit::{Attempt, Found},
};
use tokio_util::sync::CancellationToken;

pub use advice::advice;
use memory_limit::MemoryLimit;
use search::{Answer, Grain, Search};

use crate::{
    executors::Executor,
    plan::{Cell, Plan},
    scratch_run::{self, ScratchError, ScratchRuns},
    suite::Work,
    values,
};

/// No budget is smaller: engines refuse a container with less.
pub const LEAST_BYTES: u64 = 6 << 20;

#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// Every cell is attempted with other batches than its own; cells that differ in the batch alone
    /// are one question.
    pub plan: &'a Plan,
    pub runs: ScratchRuns<'a>,
    pub memory_bytes: u64,
    pub most_batch: u32,
}

/// Tries every combination. `tell` hears of each attempt, with the combination's name before it.
pub async fn find(
    question: &Question<'_>,
    executor: &dyn Executor,
    cancel: &CancellationToken,
    tell: &mut dyn FnMut(&Found, &Attempt),
) -> Result<Vec<Found>, ScratchError> {
    let mut all = Vec::new();
    for (number, cell) in combinations(question.plan).into_iter().enumerate() {
        let mut found = Found {
            image: cell.plan.image.clone(),
            suite: cell.plan.suite.clone(),
            scenario: cell.plan.scenario.clone(),
            model: cell.plan.workload.model().unwrap_or_default().to_owned(),
            combination: cell.plan.axes.without("batch"),
            accumulation: accumulation(cell),
            ..Found::default()
        };
        let grain = if cell.device().is_cuda() {
            Grain::FINE
        } else {
            Grain::COARSE
        };
        let mut search = Search::new(question.most_batch, question.memory_bytes, grain);
        let mut limit = MemoryLimit::new(question.memory_bytes, cell.device().is_cuda());
        while let Some(batch) = search.next() {
            let name = format!("{number:02}-b{batch}");
            let attempt = one(question, cell, &name, batch, &limit, executor, cancel).await?;
            tell(&found, &attempt);
            let answer = answer(&attempt);
            if answer == Answer::Fits {
                limit.took(batch, attempt.seconds);
            }
            if let Answer::Neither(words) = &answer {
                found.problem = Some(words.clone());
            }
            search.take(batch, &answer, attempt.peak_bytes);
            found.attempts.push(attempt);
        }
        found.largest_batch = search.largest();
        found.too_large_batch = search.too_large();
        found.reached_most = search.largest() == Some(question.most_batch);
        all.push(found);
    }
    Ok(all)
}

/// Cells that differ in more than the batch, each once; what idles has none.
pub fn combinations(plan: &Plan) -> Vec<&Cell> {
    let mut seen = std::collections::BTreeSet::new();
    let key = |cell: &Cell| {
        let CellPlan {
            image,
            suite,
            scenario,
            ..
        } = &cell.plan;
        let names = (image.clone(), suite.clone(), scenario.clone());
        (names, cell.plan.axes.without("batch"))
    };
    let mut cells: Vec<&Cell> = plan.cells.iter().collect();
    // What computes no model has no batch.
    cells.retain(|cell| cell.plan.workload.model().is_some() && seen.insert(key(cell)));
    cells
}

fn accumulation(cell: &Cell) -> u32 {
    let axis = cell.plan.axes.get("accumulation");
    axis.and_then(|value| value.parse().ok()).unwrap_or(1)
}

fn answer(attempt: &Attempt) -> Answer {
    match attempt.outcome.reason() {
        None => Answer::Fits,
        Some(_) if attempt.stalled => Answer::TooLarge,
        Some(Reason::OutOfMemory | Reason::HostOutOfMemory) => Answer::TooLarge,
        Some(reason) => {
            let message = attempt.outcome.message();
            Answer::Neither(format!("{}: {message}", reason.word()))
        }
    }
}

async fn one(
    question: &Question<'_>,
    cell: &Cell,
    name: &str,
    batch: u32,
    limit: &MemoryLimit,
    executor: &dyn Executor,
    cancel: &CancellationToken,
) -> Result<Attempt, ScratchError> {
    let mut cell = cell.clone();
    if let (Work::Builtin { variant, .. }, Some(batch)) = (&mut cell.work, Positive::new(batch)) {
        variant.batch = batch;
    }
    limit.shape(&mut cell, batch);
    let ran = scratch_run::run(question.runs, &cell, name, executor, cancel).await?;
    let of = |name: &str| ran.values.get(name).copied();
    let peak = if limit.is_cuda {
        of("process_peak_bytes").or(of("peak_allocated_bytes"))
    } else {
        of("run_container_peak_bytes").or(of("run_host_peak_resident_bytes"))
    };
    Ok(Attempt {
        batch,
        peak_bytes: peak.map(values::whole),
        throughput_samples_per_second: of("throughput_samples_per_second"),
        seconds: ran.seconds,
        stalled: limit.stalled(&ran.outcome, &ran.monitor),
        outcome: ran.outcome,
    })
}
