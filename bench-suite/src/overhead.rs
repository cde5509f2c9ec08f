//! What measuring a run costs: the same runs with an instrument and without, side by side.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use record::Outcome;
use tokio_util::sync::CancellationToken;

use crate::{
    executors::{Executor, Order},
    plan::{Cell, Plan},
    scratch_run::{self, ScratchError, ScratchRuns},
};

/// What measures, and whose cost is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    /// The monitors, which look on from outside.
    Monitors,
    /// Timing forward, backward and optimizer within each step. The monitors look on both ways.
    StepTimers,
}

impl Instrument {
    fn set(self, order: &mut Order, with: bool) {
        match self {
            Self::Monitors => order.is_watched = with,
            Self::StepTimers => order.asked.steps.parts = with,
        }
    }
}

/// One run that ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// Which of the plan's cells it measured.
    pub number: usize,
    /// That cell.
    pub cell: &'a Cell,
    /// The block, from 0.
    pub block: u32,
    /// Whether it had the instrument.
    pub with: bool,
    /// How it ended; as its suite expects where it does.
    pub outcome: &'a Outcome,
    /// Throughput; `None` where it failed.
    pub samples_per_second: Option<f64>,
}

/// Runs every cell twice in each block, with the instrument and without, in random order, and tells
/// of each run as it ends.
pub async fn measure(
    instrument: Instrument,
    plan: &Plan,
    runs: ScratchRuns<'_>,
    executor: &dyn Executor,
    cancel: &CancellationToken,
    tell: &mut dyn FnMut(Ended<'_>),
) -> Result<(), ScratchError> {
    let mut random = ChaCha8Rng::seed_from_u64(plan.order_seed);
    for block in 0..plan.blocks {
        for (number, cell) in plan.cells.iter().enumerate() {
            let first = random.random_bool(0.5);
            for with in [first, !first] {
                let kind = if with { "with" } else { "bare" };
                let name = format!("b{block}-{number:03}-{kind}");
                let change = |order: &mut Order| instrument.set(order, with);
                let ran = scratch_run::run(runs, cell, &name, change, executor, cancel).await?;
                let outcome = match cell.plan.expected {
                    Some(expected) => ran.outcome.expecting(expected),
                    None => ran.outcome,
                };
                let metrics = ran.metrics.filter(|_| outcome.is_ok());
                tell(Ended {
                    number,
                    cell,
                    block,
                    with,
                    outcome: &outcome,
                    samples_per_second: metrics
                        .and_then(|metrics| metrics.summary.throughput_samples_per_second),
                });
            }
        }
    }
    Ok(())
}
