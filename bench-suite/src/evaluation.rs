//! What an attempt comes to, before its metrics are checked against each other.

use std::collections::BTreeMap;

use protocol::{Event, Phase};
use record::{Metrics, Outcome, Reason, Window};

use crate::{
    disk,
    executors::{Execution, Order},
    invariants, log,
    outcome::judge,
    results::{self, Results},
};

/// What the executor saw and what the workload told, put together.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) outcome: Outcome,
    pub(crate) results: Results,
    /// Where the workload told that it finished.
    pub(crate) metrics: Option<Metrics>,
    pub(crate) phase_began_seconds: BTreeMap<Phase, f64>,
    /// When the measured steps passed.
    pub(crate) measured: Option<Window>,
}

impl Evaluation {
    pub(crate) fn of(order: &Order, execution: &Execution) -> Self {
        let limit = order.limits.results_bytes;
        let results = results::read(&order.results_file(), &order.asked.run, limit);
        let phase_began_seconds =
            results.phases_since(execution.started_at, execution.wall_seconds);
        let measured = Window::of(Phase::Measure, &phase_began_seconds, &results.phase_seconds);
        let log = log::tail(&order.log).ok();
        let metrics = match &results.end {
            Some(Event::Finished(summary)) => {
                let monitor = &execution.monitor;
                Some(invariants::metrics(summary, &results, monitor, measured))
            }
            _ => None,
        };
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
            metrics,
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
