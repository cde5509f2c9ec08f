//! What measuring a run costs: the same runs with a part of the measuring and without, side by side.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use record::Outcome;
use tokio_util::sync::CancellationToken;

use crate::{
    executors::{Executor, Order},
    plan::{Cell, Plan},
    scratch_run::{self, ScratchError, ScratchRuns},
};

/// The part of the measuring whose cost is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The monitors, which look on from outside.
    Monitors,
    /// Timing forward, backward and optimizer within each step. The monitors look on both ways.
    StepParts,
}

impl Part {
    fn set(self, order: &mut Order, with: bool) {
        match self {
            Self::Monitors => order.is_watched = with,
            Self::StepParts => order.asked.steps.parts = with,
        }
    }
}

/// Throughput of one block's two runs; `None` where one failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Without the part.
    pub without: Option<f64>,
    /// With it.
    pub with: Option<f64>,
}

/// One run that ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// What it measured.
    pub cell: &'a Cell,
    /// The block, from 0.
    pub block: u32,
    /// Whether it had the part.
    pub with: bool,
    /// How it ended.
    pub outcome: &'a Outcome,
}

/// Runs every cell twice in each block, with the part and without, in random order; gives the pairs
/// of each cell in the plan's order, and how it ended: whatever that is, the pairs until then count.
pub async fn measure(
    part: Part,
    plan: &Plan,
    runs: ScratchRuns<'_>,
    executor: &dyn Executor,
    cancel: &CancellationToken,
    tell: &mut dyn FnMut(Ended<'_>),
) -> (Vec<Vec<Pair>>, Result<(), ScratchError>) {
    let mut pairs = vec![Vec::new(); plan.cells.len()];
    let ended = fill(&mut pairs, part, plan, runs, executor, cancel, tell).await;
    (pairs, ended)
}

async fn fill(
    pairs: &mut [Vec<Pair>],
    part: Part,
    plan: &Plan,
    runs: ScratchRuns<'_>,
    executor: &dyn Executor,
    cancel: &CancellationToken,
    tell: &mut dyn FnMut(Ended<'_>),
) -> Result<(), ScratchError> {
    let mut random = ChaCha8Rng::seed_from_u64(plan.order_seed);
    for block in 0..plan.blocks {
        for (number, cell) in plan.cells.iter().enumerate() {
            let mut pair = Pair {
                without: None,
                with: None,
            };
            let first = random.random_bool(0.5);
            for with in [first, !first] {
                let kind = if with { "with" } else { "bare" };
                let name = format!("b{block}-{number:03}-{kind}");
                let change = |order: &mut Order| part.set(order, with);
                let ran = scratch_run::run(runs, cell, &name, change, executor, cancel).await?;
                let speed = ran
                    .metrics
                    .and_then(|metrics| metrics.summary.throughput_samples_per_second);
                if with {
                    pair.with = speed;
                } else {
                    pair.without = speed;
                }
                tell(Ended {
                    cell,
                    block,
                    with,
                    outcome: &ran.outcome,
                });
            }
            pairs[number].push(pair);
        }
    }
    Ok(())
}
