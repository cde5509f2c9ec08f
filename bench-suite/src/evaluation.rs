//! What an attempt comes to, before its metrics are checked against each other.

use std::collections::BTreeMap;

use protocol::{Phase, Values};
use record::{Outcome, Reason, Window};

use crate::{
    disk,
    executors::{Execution, Order},
    log,
    outcome::{End, judge},
    results::{self, RankResults, Results},
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
        let limit = order.limits.results_bytes;
        let ranks = order.places.len();
        let mut results = results::read(&order.results_file(), order.asked.run(), ranks, limit);
        // Nobody asks a program to report anything.
        let lived = order.asked.program().is_some() && execution.end == End::Exited(0);
        let is_silent = lived && results.pass_silence();
        let first = results.first();
        let phase_began_seconds = first.phases_since(execution.started_at, execution.wall_seconds);
        let window = |began: &_, told: &RankResults| {
            let reported = Window::of(Phase::Measure, began, &told.phase_seconds);
            reported.or_else(|| is_silent.then(|| execution.life()))
        };
        let measured = window(&phase_began_seconds, first);
        let log = log::tail(&order.log).ok();
        let ranks = results.ranks.iter().enumerate().map(|(rank, told)| {
            let began = told.phases_since(execution.started_at, execution.wall_seconds);
            values::of(&Seen {
                rank,
                told,
                execution,
                measured: window(&began, told),
                has_life: lived,
            })
        });
        let ranks: Vec<Values> = ranks.collect();
        let mut outcome = judge(&execution.end, &results, log.as_deref());
        if let Outcome::Failed {
            reason, message, ..
        } = &mut outcome
            && may_be_for_want_of_room(*reason)
            && disk::is_full(&order.folder)
        {
            *message = format!(
                "no space left in the session's folder ({}: {message})",
                reason.word()
            );
            *reason = Reason::DiskFull;
        }
        Self {
            outcome,
            results,
            values: values::together(&ranks),
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
