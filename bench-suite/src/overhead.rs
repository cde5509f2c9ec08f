//! What watching a run costs: the same runs with the monitors and without, side by side.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use record::Outcome;
use tokio_util::sync::CancellationToken;

use crate::{
    execute::Executor,
    plan::{Cell, Plan},
    trial::{self, Ground, TrialError},
};

/// Throughput of one block's two runs; `None` where one failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Nobody looked on.
    pub unwatched: Option<f64>,
    /// The monitors looked on.
    pub watched: Option<f64>,
}

/// One run that ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// What it measured.
    pub cell: &'a Cell,
    /// The block, from 0.
    pub block: u32,
    /// Whether the monitors looked on.
    pub watched: bool,
    /// How it ended.
    pub outcome: &'a Outcome,
}

/// Runs every cell twice in each block, watched and not, in random order; gives the pairs of each
/// cell in the plan's order.
pub async fn measure(
    plan: &Plan,
    ground: Ground<'_>,
    executor: &dyn Executor,
    cancel: &CancellationToken,
    tell: &mut dyn FnMut(Ended<'_>),
) -> Result<Vec<Vec<Pair>>, TrialError> {
    let mut random = ChaCha8Rng::seed_from_u64(plan.order_seed);
    let mut pairs = vec![Vec::new(); plan.cells.len()];
    for block in 0..plan.blocks {
        for (number, cell) in plan.cells.iter().enumerate() {
            let mut pair = Pair {
                unwatched: None,
                watched: None,
            };
            let first = random.random_bool(0.5);
            for watched in [first, !first] {
                let kind = if watched { "watched" } else { "unwatched" };
                let name = format!("b{block}-{number:03}-{kind}");
                let change = |order: &mut crate::execute::Order| order.is_watched = watched;
                let (outcome, metrics) =
                    trial::run(ground, cell, &name, change, executor, cancel).await?;
                let speed = metrics.map(|metrics| metrics.throughput_samples_per_second);
                if watched {
                    pair.watched = speed;
                } else {
                    pair.unwatched = speed;
                }
                tell(Ended {
                    cell,
                    block,
                    watched,
                    outcome: &outcome,
                });
            }
            pairs[number].push(pair);
        }
    }
    Ok(pairs)
}
