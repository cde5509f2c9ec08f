//! Carrying runs out: those of one GPU one after another, GPUs side by side, and each again
//! where that is right.
//!
//! What the engine failed is attempted again, a stated number of times. What something else on the
//! machine contaminated is repeated, within the suite's budget. What the workload itself failed is
//! a result, and never attempted again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use protocol::Device;
use record::{Outcome, Reason, Record, SessionFolder, Stage, Validity};
use tokio_util::sync::CancellationToken;

use super::{Progress, Session, SessionError, Subscriber, Totals, assemble, folder::WorkFolder};
use crate::{
    executors::{Execution, Executor, Order, RunPaths},
    outcome::End,
    plan::{Plan, Run},
    validity::{self, Fitness},
};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunStatus {
    Ok,
    Failed,
    /// To be run again.
    Open,
}

/// What the attempts at a run have come to.
#[derive(Debug, Clone, Copy)]
struct Attempts {
    count: u32,
    contaminated: u32,
    status: RunStatus,
}

/// What the attempts at every run have come to, by the run's name.
#[derive(Debug, Default)]
pub(super) struct AttemptLog(BTreeMap<String, Attempts>);

impl AttemptLog {
    /// Of these records, in the order in which they were written.
    pub(super) fn of(records: &[Record]) -> Self {
        let mut log = Self::default();
        for record in records {
            log.note(record);
        }
        log
    }

    fn note(&mut self, record: &Record) -> RunStatus {
        let earlier = self.0.get(&record.run);
        let mut contaminated = earlier.map_or(0, |attempts| attempts.contaminated);
        let repeats = record.validity.limits.as_ref();
        let repeats = repeats.map_or(0, |limits| limits.repeats);
        let status = match &record.outcome {
            Outcome::Ok | Outcome::Expected { .. } => RunStatus::Ok,
            Outcome::Failed { reason, .. } => match reason {
                Reason::Interrupted | Reason::Engine | Reason::GpuLost | Reason::DiskFull => {
                    RunStatus::Open
                }
                Reason::Contaminated => {
                    contaminated += 1;
                    if contaminated <= repeats {
                        RunStatus::Open
                    } else {
                        RunStatus::Failed
                    }
                }
                _ => RunStatus::Failed,
            },
        };
        let attempts = Attempts {
            count: record.attempt,
            contaminated,
            status,
        };
        self.0.insert(record.run.clone(), attempts);
        status
    }

    fn is_open(&self, run: &Run) -> bool {
        let attempts = self.0.get(&run.name);
        attempts.is_none_or(|attempts| attempts.status == RunStatus::Open)
    }

    fn count(&self, run: &Run) -> u32 {
        self.0.get(&run.name).map_or(0, |attempts| attempts.count)
    }

    /// Where a session of this plan stands.
    pub(super) fn totals(&self, plan: &Plan) -> Totals {
        let of = |status| {
            let attempts = self.0.values();
            attempts.filter(|of| of.status == status).count()
        };
        let planned = plan.cells.len() * plan.blocks as usize;
        let (ok, failed) = (of(RunStatus::Ok), of(RunStatus::Failed));
        Totals {
            planned,
            ok,
            failed,
            remaining: planned.saturating_sub(ok + failed),
        }
    }
}

/// What a session cannot use any more.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    everywhere: bool,
    gpus: BTreeSet<Device>,
}

impl Stopped {
    /// Whether the session ends here: where nothing can run any more, and, where it adds blocks
    /// until it is decided, already without one of its GPUs.
    pub(super) fn ends(&self, is_deciding: bool) -> bool {
        self.everywhere || is_deciding && !self.gpus.is_empty()
    }

    fn on(&self, device: Device) -> bool {
        self.everywhere || self.gpus.contains(&device)
    }
}

/// A run that is to be attempted.
#[derive(Debug, Clone, Copy)]
struct Attempt<'a> {
    run: &'a Run,
    /// Attempts before this one that the engine failed, since the session began or was resumed.
    engine_failures: u32,
    /// Whether the engine has to come back first.
    after_engine: bool,
}

impl<'a> Attempt<'a> {
    fn first(run: &'a Run) -> Self {
        Self {
            run,
            engine_failures: 0,
            after_engine: false,
        }
    }

    /// The attempt that follows this one; `None` where its run is left as it is.
    fn next(mut self, outcome: &Outcome, status: RunStatus, retries: u32) -> Option<Self> {
        let Outcome::Failed { reason, .. } = outcome else {
            return None;
        };
        self.after_engine = *reason == Reason::Engine;
        self.engine_failures += u32::from(self.after_engine);
        let again = match reason {
            Reason::Engine => self.engine_failures <= retries,
            Reason::Contaminated => status == RunStatus::Open,
            _ => false,
        };
        again.then_some(self)
    }
}

/// What an attempt came to: `None` where the engine did not come back, or the session was stopped
/// before it did.
type Attempted<'a> = (Attempt<'a>, Option<Result<Record, SessionError>>);

impl Session {
    /// Carries out what is open of these runs; tells whether there was something.
    pub(super) async fn carry(
        &mut self,
        runs: &[Run],
        executor: &dyn Executor,
        subscriber: &mut dyn Subscriber,
        cancel: &CancellationToken,
    ) -> Result<bool, SessionError> {
        let Self {
            folder,
            about,
            plan,
            attempts,
            stopped,
            ..
        } = self;
        let runner = Runner {
            folder,
            about,
            plan,
            executor,
            cancel,
        };
        let mut lanes: BTreeMap<Device, VecDeque<&Run>> = BTreeMap::new();
        for run in runs.iter().filter(|run| attempts.is_open(run)) {
            let device = runner.device(run);
            if !stopped.on(device) {
                lanes.entry(device).or_default().push_back(run);
            }
        }
        if lanes.is_empty() || cancel.is_cancelled() {
            return Ok(false);
        }
        let mut under_way = FuturesUnordered::new();
        for run in lanes.values_mut().filter_map(VecDeque::pop_front) {
            under_way.push(runner.begin(Attempt::first(run), attempts, subscriber));
        }
        let mut failure = None;
        while let Some((attempt, record)) = under_way.next().await {
            let device = runner.device(attempt.run);
            let Some(record) = record else {
                stopped.everywhere = true;
                continue;
            };
            let kept = record.and_then(|record| {
                folder.append(&record)?;
                Ok(record)
            });
            // What is under way is cleaned up before an error goes up.
            let kept = kept.map_err(|error| failure.get_or_insert(error));
            let Ok(record) = kept else {
                cancel.cancel();
                continue;
            };
            let status = attempts.note(&record);
            subscriber.tell(Progress::RunEnded {
                record: &record,
                totals: attempts.totals(plan),
            });
            let reason = record.outcome.reason();
            if reason == Some(Reason::DiskFull) {
                failure.get_or_insert(SessionError::DiskFull {
                    folder: folder.path().to_owned(),
                    message: record.outcome.message().to_owned(),
                });
                cancel.cancel();
                continue;
            }
            // A GPU that is lost stays so until somebody resets it.
            if reason == Some(Reason::GpuLost) {
                stopped.gpus.insert(device);
            }
            if cancel.is_cancelled() || stopped.on(device) {
                continue;
            }
            let retries = about.policy.engine_retries.unwrap_or_default();
            let again = attempt.next(&record.outcome, status, retries);
            let of_lane = || lanes.get_mut(&device)?.pop_front().map(Attempt::first);
            if let Some(next) = again.or_else(of_lane) {
                under_way.push(runner.begin(next, attempts, subscriber));
            }
        }
        failure.map_or(Ok(true), Err)
    }
}

/// What a run needs, and does not change, of its session.
#[derive(Clone, Copy)]
struct Runner<'a> {
    folder: &'a SessionFolder,
    about: &'a record::Session,
    plan: &'a Plan,
    executor: &'a dyn Executor,
    cancel: &'a CancellationToken,
}

impl<'a> Runner<'a> {
    fn device(self, run: &Run) -> Device {
        self.plan.cells[run.cell].device
    }

    fn begin(
        self,
        attempt: Attempt<'a>,
        log: &AttemptLog,
        subscriber: &mut dyn Subscriber,
    ) -> BoxFuture<'a, Attempted<'a>> {
        let run = attempt.run;
        let number = log.count(run) + 1;
        subscriber.tell(Progress::RunStarted {
            run,
            cell: &self.plan.cells[run.cell].plan,
            attempt: number,
            totals: log.totals(self.plan),
        });
        Box::pin(async move {
            if attempt.after_engine && !self.executor.recover(self.cancel).await {
                return (attempt, None);
            }
            (attempt, Some(self.once(run, number).await))
        })
    }

    async fn once(self, run: &Run, attempt: u32) -> Result<Record, SessionError> {
        let cell = &self.plan.cells[run.cell];
        let work = WorkFolder::create(self.folder.path().join("work").join(&run.name))?;
        let log = match attempt {
            1 => format!("{}/{}.log", SessionFolder::LOGS, run.name),
            _ => format!("{}/{}.{attempt}.log", SessionFolder::LOGS, run.name),
        };
        let order = Order::new(
            &self.about.session,
            &run.name,
            attempt,
            cell,
            &self.about.machine,
            RunPaths {
                folder: work.path(),
                shared: self.folder.path(),
                log: &self.folder.path().join(&log),
            },
        );
        let host = self.executor.host().as_ref();
        let shares_gpu = self.about.policy.shares_gpu;
        let limits = &cell.validity;
        let (before, fitness) =
            validity::wait(limits, host, cell.device, shares_gpu, self.cancel).await;
        let never = |end| Execution {
            end,
            ..Execution::new(self.executor.isolation())
        };
        let mut execution = match fitness {
            Fitness::Fit => self.executor.run(&order, self.cancel).await,
            Fitness::Busy(message) => {
                never(End::never(Reason::Contaminated, Stage::Create, message))
            }
            Fitness::Lost(message) => never(End::never(Reason::GpuLost, Stage::Start, message)),
            Fitness::Interrupted => never(End::interrupted()),
        };
        execution.validity = Validity {
            limits: Some(limits.clone()),
            before: Some(before),
            contamination: Vec::new(),
        };
        Ok(assemble::record(assemble::Pieces {
            session: self.about,
            host,
            run,
            cell,
            attempt,
            order: &order,
            execution,
            log: order.log.exists().then_some(log),
        }))
    }
}
