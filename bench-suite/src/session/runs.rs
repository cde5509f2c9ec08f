//! Carrying runs out: those of one GPU one after another, GPUs side by side, and each again
//! where that is right.
//!
//! What the engine failed is tried again, a stated number of times. What something else on the
//! machine contaminated is repeated, within the suite's budget. What the workload itself failed is a
//! result, and never tried again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use protocol::Device;
use record::{Outcome, Reason, Record, SessionFolder, Validity};
use tokio_util::sync::CancellationToken;

use super::{Progress, Session, SessionError, Subscriber, Totals, assemble, folder::WorkFolder};
use crate::{
    execute::{Execution, Executor, Order, Place},
    monitor::Gpu,
    outcome::End,
    plan::{Plan, Run},
    validity::{self, Fitness},
};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Ok,
    Failed,
    /// To be run again.
    Open,
}

/// What earlier tries at a run came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    pub(super) attempt: u32,
    pub(super) standing: Standing,
    contaminated: u32,
}

/// The last try of each run that has one.
pub(super) type Pasts = BTreeMap<String, Past>;

/// Takes a record in, in the order in which they were written.
pub(super) fn note(pasts: &mut Pasts, record: &Record) -> Standing {
    let earlier = pasts.get(&record.run).map_or(0, |past| past.contaminated);
    let repeats = record
        .validity
        .limits
        .as_ref()
        .map_or(0, |limits| limits.repeats);
    let mut contaminated = earlier;
    let standing = match &record.outcome {
        Outcome::Ok => Standing::Ok,
        Outcome::Failed { reason, .. } => match reason {
            Reason::Interrupted | Reason::Engine | Reason::GpuLost => Standing::Open,
            Reason::Contaminated => {
                contaminated += 1;
                if contaminated <= repeats {
                    Standing::Open
                } else {
                    Standing::Failed
                }
            }
            _ => Standing::Failed,
        },
    };
    let past = Past {
        attempt: record.attempt,
        standing,
        contaminated,
    };
    pasts.insert(record.run.clone(), past);
    standing
}

/// Where a session stands.
pub(super) fn totals(plan: &Plan, pasts: &Pasts) -> Totals {
    let count = |wanted| {
        let standings = pasts.values().filter(|past| past.standing == wanted);
        standings.count()
    };
    let planned = plan.cells.len() * plan.blocks as usize;
    let (ok, failed) = (count(Standing::Ok), count(Standing::Failed));
    Totals {
        planned,
        ok,
        failed,
        remaining: planned.saturating_sub(ok + failed),
    }
}

/// What a try came to.
struct Tried<'a> {
    run: &'a Run,
    /// Tries before this one that the engine failed, since the session began or was resumed.
    engine_failures: u32,
    /// `None` where the engine did not come back, or the session was stopped before.
    record: Option<Result<Record, SessionError>>,
}

/// What comes after a try.
enum Next {
    /// The same run, `true` after the engine is back.
    Again(bool),
    /// The next run of the same GPU.
    Run,
    /// Nothing more on this GPU.
    NoGpu,
    /// Nothing more at all.
    NoEngine,
}

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
            gpus,
            last,
            stopped,
            ..
        } = self;
        let mut lanes: BTreeMap<Device, VecDeque<&Run>> = BTreeMap::new();
        for run in runs {
            let device = plan.cells[run.cell].device;
            let is_open = last
                .get(&run.name)
                .is_none_or(|past| past.standing == Standing::Open);
            if is_open && !stopped.on(device) {
                lanes.entry(device).or_default().push_back(run);
            }
        }
        if lanes.is_empty() || cancel.is_cancelled() {
            return Ok(false);
        }
        let carrier = Carrier {
            folder,
            about,
            plan,
            gpus,
            executor,
            cancel,
        };
        let mut flying = FuturesUnordered::new();
        let mut failure = None;
        let begin = |run, failures, again, last: &Pasts, subscriber: &mut dyn Subscriber| {
            let run: &Run = run;
            let attempt = last.get(&run.name).map_or(1, |past| past.attempt + 1);
            subscriber.tell(Progress::RunStarted {
                run,
                cell: &plan.cells[run.cell].plan,
                attempt,
                totals: totals(plan, last),
            });
            carrier.attempt(run, attempt, failures, again)
        };
        for lane in lanes.values_mut() {
            if let Some(run) = lane.pop_front() {
                flying.push(begin(run, 0, false, last, subscriber));
            }
        }
        while let Some(tried) = flying.next().await {
            let run = tried.run;
            let device = plan.cells[run.cell].device;
            let mut failures = tried.engine_failures;
            let next = match tried.record {
                None => Next::NoEngine,
                Some(Err(error)) => {
                    // What is under way is cleaned up before the error goes up.
                    failure.get_or_insert(error);
                    cancel.cancel();
                    continue;
                }
                Some(Ok(record)) => {
                    if let Err(error) = folder.append(&record) {
                        failure.get_or_insert(error.into());
                        cancel.cancel();
                        continue;
                    }
                    let standing = note(last, &record);
                    subscriber.tell(Progress::RunEnded {
                        record: &record,
                        totals: totals(plan, last),
                    });
                    let retries = about.conduct.engine_retries.unwrap_or_default();
                    next(&record.outcome, standing, &mut failures, retries)
                }
            };
            match next {
                Next::NoGpu => stopped.gpus.extend([device]),
                Next::NoEngine => stopped.everywhere = true,
                Next::Again(_) | Next::Run => {}
            }
            if cancel.is_cancelled() || stopped.on(device) {
                continue;
            }
            if let Next::Again(after_engine) = next {
                flying.push(begin(run, failures, after_engine, last, subscriber));
            } else if let Some(run) = lanes.get_mut(&device).and_then(VecDeque::pop_front) {
                flying.push(begin(run, 0, false, last, subscriber));
            }
        }
        failure.map_or(Ok(true), Err)
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

fn next(outcome: &Outcome, standing: Standing, failures: &mut u32, retries: u32) -> Next {
    let Outcome::Failed { reason, .. } = outcome else {
        return Next::Run;
    };
    match reason {
        Reason::Engine => {
            *failures += 1;
            if *failures <= retries {
                Next::Again(true)
            } else {
                Next::Run
            }
        }
        // A GPU that is lost stays so until somebody resets it.
        Reason::GpuLost => Next::NoGpu,
        Reason::Contaminated if standing == Standing::Open => Next::Again(false),
        _ => Next::Run,
    }
}

/// What a run needs, and does not change, of its session.
#[derive(Clone, Copy)]
struct Carrier<'a> {
    folder: &'a SessionFolder,
    about: &'a record::Session,
    plan: &'a Plan,
    gpus: &'a BTreeMap<Device, Gpu>,
    executor: &'a dyn Executor,
    cancel: &'a CancellationToken,
}

impl<'a> Carrier<'a> {
    fn attempt(
        self,
        run: &'a Run,
        attempt: u32,
        engine_failures: u32,
        after_engine: bool,
    ) -> BoxFuture<'a, Tried<'a>> {
        Box::pin(async move {
            let back = !after_engine || self.executor.recover(self.cancel).await;
            let record = if back {
                Some(self.once(run, attempt).await)
            } else {
                None
            };
            Tried {
                run,
                engine_failures,
                record,
            }
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
            Place {
                folder: work.path(),
                shared: self.folder.path(),
                log: &self.folder.path().join(&log),
            },
        );
        let shares_gpu = self.about.conduct.shares_gpu;
        let gpu = self.gpus.get(&cell.device);
        let (before, fitness) = validity::wait(&cell.validity, gpu, shares_gpu, self.cancel).await;
        let never = |end| Execution {
            end,
            ..Execution::new(self.executor.isolation())
        };
        let mut execution = match fitness {
            Fitness::Fit => self.executor.run(&order, self.cancel).await,
            Fitness::Busy(message) => never(End::NotIdle { message }),
            Fitness::Lost(message) => never(End::GpuLost { message }),
            Fitness::Interrupted => never(End::Interrupted),
        };
        execution.validity = Validity {
            limits: Some(cell.validity.clone()),
            before: Some(before),
            contamination: Vec::new(),
        };
        Ok(assemble::record(assemble::Parts {
            session: self.about,
            run,
            cell: &cell.plan,
            attempt,
            order: &order,
            execution,
            log: order.log.exists().then_some(log),
        }))
    }
}
