//! Carrying runs out: those of one GPU one after another, side by side where they share none, and
//! each again where that is right.
//!
//! What the engine failed is attempted again, a stated number of times. What something else on the
//! machine contaminated is repeated, within the suite's budget. What the workload itself failed is
//! a result, and never attempted again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use record::{
    DeclaredMetric, MOST_DECLARED, Outcome, Place, Reason, Record, SessionFolder, Stage, Validity,
    word_of,
};
use tokio_util::sync::CancellationToken;

use super::folder::{WORK, keep_snapshot, work_folder};
use super::{Progress, Session, SessionError, Subscriber, Totals, assemble};
use crate::{
    executors::{Execution, Executor, Order, RunPaths},
    host::Host,
    outcome::End,
    plan::{Plan, Run},
    validity::{self, Fitness},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunStatus {
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

    /// Opens anew what a part finished on another node or GPU, where other runs of the same scenario
    /// and block are still to do: what is compared with each other is of one node and one GPU.
    pub(super) fn keep_together(&mut self, plan: &Plan, records: &[Record]) {
        let session = &plan.session;
        let records = records.iter().map(|record| (record.run.as_str(), record));
        let last: BTreeMap<&str, &Record> = records.collect();
        let is_elsewhere = |run: &Run| {
            let place = &plan.cells[run.cell].places[0];
            let machine = session.hosts.get(&place.host);
            let gpu = machine.and_then(|machine| machine.gpu(place.device)?.uuid());
            last.get(run.name.as_str()).is_some_and(|record| {
                let then = record.gpu_uuid(session.machine_of(record));
                record.host != place.host || then.zip(gpu).is_some_and(|(then, now)| then != now)
            })
        };
        let group = |run: &Run| {
            let cell = &plan.cells[run.cell].plan;
            (run.block, &cell.suite, &cell.scenario)
        };
        let runs: Vec<Run> = session
            .numbers()
            .flat_map(|block| plan.block(block))
            .collect();
        // Run by run, what had finished elsewhere may come after what ran here.
        let is_here = |run: &Run| last.contains_key(run.name.as_str()) && !is_elsewhere(run);
        let open = runs.iter().filter(|run| self.is_open(run) || is_here(run));
        let open = open.map(group);
        let open: BTreeSet<_> = open.collect();
        for run in runs.iter().filter(|run| open.contains(&group(run))) {
            if let Some(attempts) = self.0.get_mut(&run.name).filter(|_| is_elsewhere(run)) {
                attempts.status = RunStatus::Open;
            }
        }
    }

    pub(super) fn note(&mut self, record: &Record) -> RunStatus {
        let earlier = self.0.get(&record.run);
        let mut contaminated = earlier.map_or(0, |attempts| attempts.contaminated);
        let repeats = record.validity.limits.as_ref();
        let repeats = repeats.map_or(0, |limits| limits.repeats);
        let status = match &record.outcome {
            Outcome::Ok | Outcome::Expected(_) => RunStatus::Ok,
            Outcome::Failed(failure) => match failure.reason {
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

    pub(super) fn is_open(&self, run: &Run) -> bool {
        let attempts = self.0.get(&run.name);
        attempts.is_none_or(|attempts| attempts.status == RunStatus::Open)
    }

    pub(super) fn count(&self, run: &str) -> u32 {
        self.0.get(run).map_or(0, |attempts| attempts.count)
    }

    /// Where a session of this plan stands.
    pub(super) fn totals(&self, plan: &Plan) -> Totals {
        let of = |status| {
            let attempts = self.0.values();
            attempts.filter(|of| of.status == status).count()
        };
        let planned = plan.session.planned();
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
    gpus: BTreeSet<Place>,
}

impl Stopped {
    /// Whether the session ends here: where nothing can run any more, and, where it adds blocks
    /// until it is decided, already without one of its GPUs.
    pub(super) fn ends(&self, is_deciding: bool) -> bool {
        self.everywhere || is_deciding && !self.gpus.is_empty()
    }

    /// Learns where nothing can run any more from how a run ended; tells why where the machine is not
    /// fit.
    fn learn<'r>(
        &mut self,
        record: &'r Record,
        status: RunStatus,
        places: &[Place],
    ) -> Option<&'r str> {
        let failure = record.outcome.failure()?;
        match (failure.reason, failure.stage) {
            // A GPU that is lost stays so until somebody resets it.
            (Reason::GpuLost, _) => self.gpus.extend(places.iter().cloned()),
            // Every further run would wait as long for a machine that is not fit.
            (Reason::Contaminated, Stage::Create) if status == RunStatus::Failed => {
                self.everywhere = true;
                return Some(&failure.message);
            }
            _ => {}
        }
        None
    }

    fn on(&self, places: &[Place]) -> bool {
        self.everywhere || places.iter().any(|place| self.gpus.contains(place))
    }
}

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
        let Outcome::Failed(failure) = outcome else {
            return None;
        };
        self.after_engine = failure.reason == Reason::Engine;
        self.engine_failures += u32::from(self.after_engine);
        let again = match failure.reason {
            Reason::Engine => self.engine_failures <= retries,
            Reason::Contaminated => status == RunStatus::Open,
            _ => false,
        };
        again.then_some(self)
    }
}

/// What an attempt came to: `None` where the engine did not come back, or the session was stopped
/// before it did.
type Attempted<'a> = (Attempt<'a>, Option<Result<Ran, SessionError>>);

/// A run's record, and the metrics that its program says how to compare.
type Ran = (Record, Vec<DeclaredMetric>);

impl Session {
    /// Carries out what is open of these runs; tells whether there was something.
    pub(super) async fn carry(
        &mut self,
        runs: &[Run],
        executor: &dyn Executor,
        subscriber: &mut dyn Subscriber,
        cancel: &CancellationToken,
    ) -> Result<bool, SessionError> {
        let (folder, plan) = (&self.folder, &mut self.plan);
        let (attempts, stopped) = (&mut self.attempts, &mut self.stopped);
        let runner = Runner {
            folder,
            plan,
            executor,
            cancel,
        };
        let is_open = |run: &&Run| attempts.is_open(run) && !stopped.on(runner.places(run));
        let mut waiting: Vec<&Run> = runs.iter().filter(is_open).collect();
        if waiting.is_empty() || cancel.is_cancelled() {
            return Ok(false);
        }
        let mut under_way = FuturesUnordered::new();
        let mut taken = BTreeSet::new();
        for run in runner.next(&mut waiting, &mut taken) {
            under_way.push(runner.begin(Attempt::first(run), attempts, subscriber));
        }
        let (mut failure, mut reported) = (None, Vec::new());
        while let Some((attempt, record)) = under_way.next().await {
            let places = runner.places(attempt.run);
            let Some(record) = record else {
                stopped.everywhere = true;
                continue;
            };
            let kept = record.and_then(|(record, own)| {
                folder.append(&record)?;
                reported.extend(own);
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
            if let Some(full) = disk_full(folder, &record) {
                failure.get_or_insert(full);
                cancel.cancel();
                continue;
            }
            if let Some(message) = stopped.learn(&record, status, places) {
                subscriber.tell(Progress::Unfit { message });
            }
            waiting.retain(|run| !stopped.on(runner.places(run)));
            if cancel.is_cancelled() || stopped.everywhere {
                continue;
            }
            let retries = plan.session.policy.engine_retries.unwrap_or_default();
            let again = attempt.next(&record.outcome, status, retries);
            if let Some(again) = again.filter(|_| !stopped.on(places)) {
                under_way.push(runner.begin(again, attempts, subscriber));
                continue;
            }
            taken.retain(|place| !places.contains(place));
            for run in runner.next(&mut waiting, &mut taken) {
                under_way.push(runner.begin(Attempt::first(run), attempts, subscriber));
            }
        }
        drop(under_way);
        // Each run's folder went with it.
        let _ = fs::remove_dir(folder.path().join(WORK));
        declare(&mut plan.session, reported);
        failure.map_or(Ok(true), Err)
    }
}

/// Adds what programs report beside what suites declare, which counts where both have one name.
pub(super) fn declare(session: &mut record::Session, reported: Vec<DeclaredMetric>) {
    for metric in reported {
        let mut known = session.metrics.iter();
        match known.find(|one| one.name == metric.name) {
            Some(known) if (known.unit, known.better) == (metric.unit, metric.better) => {}
            Some(known) => {
                let words = |of: &DeclaredMetric| {
                    format!(
                        "in `{}` with `better: {}`",
                        word_of(of.unit),
                        word_of(of.better)
                    )
                };
                let (name, reported, compared) = (&metric.name, words(&metric), words(known));
                let note = format!("{name}: reported {reported}; compared {compared}");
                if !session.notes.contains(&note) {
                    session.notes.push(note);
                }
            }
            None if session.metrics.len() < MOST_DECLARED => session.metrics.push(metric),
            None => {}
        }
    }
}

fn disk_full(folder: &SessionFolder, record: &Record) -> Option<SessionError> {
    let failure = record.outcome.failure()?;
    (failure.reason == Reason::DiskFull).then(|| SessionError::DiskFull {
        folder: folder.path().to_owned(),
        message: failure.message.clone(),
    })
}

/// What a run needs, and does not change, of its session.
#[derive(Clone, Copy)]
struct Runner<'a> {
    folder: &'a SessionFolder,
    plan: &'a Plan,
    executor: &'a dyn Executor,
    cancel: &'a CancellationToken,
}

impl<'a> Runner<'a> {
    fn places(self, run: &Run) -> &'a [Place] {
        &self.plan.cells[run.cell].places
    }

    /// Takes the runs whose places are all free out of those that wait, and takes their places. A
    /// run never waits for one that comes after it.
    fn next<'r>(self, waiting: &mut Vec<&'r Run>, taken: &mut BTreeSet<Place>) -> Vec<&'r Run> {
        let (mut next, mut claimed) = (Vec::new(), taken.clone());
        waiting.retain(|run| {
            let places = self.places(run);
            let is_free = places.iter().all(|place| !claimed.contains(place));
            claimed.extend(places.iter().cloned());
            if is_free {
                taken.extend(places.iter().cloned());
                next.push(*run);
            }
            !is_free
        });
        next
    }

    fn begin(
        self,
        attempt: Attempt<'a>,
        log: &AttemptLog,
        subscriber: &mut dyn Subscriber,
    ) -> BoxFuture<'a, Attempted<'a>> {
        let run = attempt.run;
        let number = log.count(&run.name) + 1;
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

    async fn once(self, run: &Run, attempt: u32) -> Result<Ran, SessionError> {
        let cell = &self.plan.cells[run.cell];
        let work = work_folder(self.folder.path(), &run.name)?;
        let name = match attempt {
            1 => run.name.clone(),
            _ => format!("{}.{attempt}", run.name),
        };
        let log = format!("{}/{name}.log", SessionFolder::LOGS);
        let order = Order::new(
            &self.plan.session.session,
            &run.name,
            attempt,
            cell,
            &self.plan.session.hosts,
            RunPaths {
                folder: work.path(),
                shared: self.folder.path(),
                log: &self.folder.path().join(&log),
            },
        );
        let host = |place: &Place| self.executor.host(&place.host);
        let places: BTreeSet<&Place> = cell.places.iter().collect();
        let places = places.into_iter().map(|place| (host(place), place.device));
        let places: Vec<_> = places.collect();
        let (limits, policy) = (&cell.validity, &self.plan.session.policy);
        let (before, fitness) = validity::wait(limits, &places, policy, self.cancel).await;
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
        execution.record.validity = Validity {
            limits: Some(limits.clone()),
            before: Some(before),
            contamination: Vec::new(),
        };
        let hosts: Vec<&dyn Host> = cell.places.iter().map(host).collect();
        execution.record.snapshot = keep_snapshot(&order, self.folder.path(), &name);
        execution.record.log = order.log.exists().then_some(log);
        let session = &self.plan.session;
        let ran = assemble::record(session, &hosts, run, &order, execution);
        if let Err(error) = work.close() {
            tracing::warn!("cannot remove the folder of a run: {error}");
        }
        Ok(ran)
    }
}
