//! What an attempt comes to, before its metrics are checked against each other.

use std::collections::BTreeMap;

use protocol::{Phase, Values};
use record::{Outcome, Reason, Window};

use crate::{
    disk,
    executors::{Execution, Order},
    log,
    outcome::{End, judge},
    results::{RankResults, Results},
    values::{self, Seen},
};

/// What the executor saw and what the workload told, put together.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) outcome: Outcome,
    pub(crate) results: Results,
    /// What each process yielded, by rank.
    pub(crate) ranks: Vec<Values>,
    pub(crate) values: Values,
    pub(crate) phase_began_seconds: BTreeMap<Phase, f64>,
    pub(crate) measured: Option<Window>,
}

impl Evaluation {
    pub(crate) fn of(order: &Order, execution: &Execution) -> Self {
        let mut results = order.results();
        // Nobody asks a program to report anything.
        let lived = order.cell.work.program().is_some() && execution.end == End::Exited(0);
        let is_silent = lived && results.pass_silence();
        let first = results.first();
        let phases = |of: &RankResults| {
            of.phases_since(execution.record.started_at, execution.record.wall_seconds)
        };
        let phase_began_seconds = phases(first);
        let window = |began: &_, told: &RankResults| {
            let reported = Window::of(Phase::Measure, began, &told.phase_seconds);
            reported.or_else(|| is_silent.then(|| execution.life()))
        };
        let measured = window(&phase_began_seconds, first);
        let log = log::tail(&order.log).ok();
        let ranks = results.ranks.iter().enumerate().map(|(rank, told)| {
            values::of(&Seen {
                rank,
                told,
                execution,
                measured: window(&phases(told), told),
                has_life: lived,
            })
        });
        let mut ranks: Vec<Values> = ranks.collect();
        let held = values::count_once(&mut ranks, &order.cell.places);
        let mut outcome = judge(&execution.end, &results, log.as_deref());
        if let Outcome::Failed(failure) = &mut outcome
            && may_be_for_want_of_room(failure.reason)
            && disk::is_full(&order.folder)
        {
            let ended = format!("{}: {}", failure.reason.word(), failure.message);
            failure.message = format!("no space left in the session's folder ({ended})");
            failure.reason = Reason::DiskFull;
        }
        let mut together = values::together(&ranks);
        values::put(&mut together, "ranks_process_peak_bytes", held);
        Self {
            outcome,
            results,
            values: together,
            ranks,
            phase_began_seconds,
            measured,
        }
    }
}

/// Whether a workload that cannot write its results may end so.
fn may_be_for_want_of_room(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Crash | Reason::ExitStatus | Reason::UnreadableResults
    )
}
