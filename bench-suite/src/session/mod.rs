//! A session: carries a plan out, run after run, and keeps every result.
//!
//! Each record is on the disk before the next run begins, a failed run is a record, and a session
//! that was cut off can be resumed: what is finished is not run again.

mod assemble;
mod decide;
mod difference;
mod error;
mod folder;
mod parts;
mod progress;
mod runs;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::Path,
    time::Instant,
};

use jiff::{Timestamp, tz::TimeZone};
use rand::Rng as _;
use record::{Deciding, Record, RunPolicy, SessionFolder};
use tokio_util::sync::CancellationToken;

pub use decide::{check_sides, options, until_decided};
pub use difference::Difference;
pub use error::SessionError;
pub use folder::{check_folder, check_new_folder};
pub use parts::{Due, PARTS, Part};
pub use progress::{Progress, Subscriber};

use crate::{
    executors::{self, Executor},
    plan::Plan,
};
use folder::lock;
pub(crate) use folder::remove_folder;
use runs::{AttemptLog, Stopped};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub planned: usize,
    /// Runs that ended as they were to end.
    pub ok: usize,
    pub failed: usize,
    /// Runs that are still to do.
    pub remaining: usize,
}

impl Totals {
    /// Whether every planned run is finished.
    pub fn is_complete(&self) -> bool {
        self.remaining == 0
    }
}

/// A session that is ready to run. While it lives, no other process can work on its folder.
#[derive(Debug)]
pub struct Session {
    folder: SessionFolder,
    plan: Plan,
    attempts: AttemptLog,
    stopped: Stopped,
    /// Blocks that nodes have completed, and whose records were taken over.
    gathered: BTreeSet<u32>,
    _lock: File,
}

/// A name for a session that begins now: the time, and eight letters by chance, for a thousand
/// machines may begin one in the same second.
pub fn fresh_name() -> String {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let mut random = rand::rng();
    let letters: String = (0..8)
        .map(|_| char::from(random.random_range(b'a'..=b'z')))
        .collect();
    format!("{}-{letters}", now.strftime("%Y%m%d-%H%M%S"))
}

impl Session {
    /// Makes the folder of a new session with this name. One that is to decide adds blocks until
    /// it has, in place of a fixed number; see [`until_decided`].
    pub fn create(folder: &Path, name: &str, mut plan: Plan) -> Result<Self, SessionError> {
        if let Some(deciding) = &plan.session.deciding {
            decide::check_sides(&plan, &deciding.sides)?;
            // Every further block is added when it is needed.
            plan.session.blocks = 1;
        }
        check_folder(folder)?;
        let io = |source| SessionError::Io {
            path: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(io)?;
        // Containers take absolute paths alone.
        let path = folder.canonicalize().map_err(io)?;
        let lock = lock(&path)?;
        // Another process may have begun one meanwhile.
        check_new_folder(folder)?;
        let folder = SessionFolder::at(path);
        folder.create()?;
        plan.session = record::Session {
            version: record::VERSION,
            session: name.to_owned(),
            started_at: Timestamp::now(),
            cells: plan.cells.iter().map(|cell| cell.plan.clone()).collect(),
            policy: RunPolicy {
                places: plan.places(),
                ..plan.session.policy
            },
            ..plan.session
        };
        folder.write_session(&plan.session)?;
        Ok(Self::of(folder, plan, AttemptLog::default(), lock))
    }

    /// Continues the session in this folder. Blocks and order are those it was begun with;
    /// cells, images, machine and engine must be the same, or nothing is touched.
    pub fn resume(folder: &Path, mut plan: Plan) -> Result<Self, SessionError> {
        let path = folder.canonicalize().map_err(|source| SessionError::Io {
            path: folder.to_owned(),
            source,
        })?;
        let folder = SessionFolder::at(path.clone());
        let mut session = folder.read_session()?;
        let (earlier, was_begun) = parts::settle(&mut session, &mut plan);
        let differences = difference::between(&session, &plan);
        if !differences.is_empty() {
            return Err(SessionError::Different { path, differences });
        }
        folder.open_records()?;
        let lock = lock(&path)?;
        let records = folder.read_records()?;
        let note = if records.torn_after.is_some() {
            folder.cut_torn_line(&records)?;
            "resumed after the last record was cut off while it was written"
        } else {
            "resumed after it was cut off"
        };
        let was_cut = was_begun && plan.run.is_none() || records.torn_after.is_some();
        session.notes.extend(was_cut.then(|| note.to_owned()));
        parts::add_hosts(&mut session, earlier);
        if !records.bad_lines.is_empty() {
            let lines = records.bad_lines.len();
            let note = format!("resumed without {lines} damaged lines; their runs are repeated");
            session.notes.push(note);
        }
        let now = &plan.session;
        parts::add_notes(&mut session, &now.notes);
        let left = executors::sweep(&path.join(folder::WORK));
        if left > 0 {
            let note = format!("{left} processes that a killed session left behind were ended");
            session.notes.push(note);
        }
        folder::sweep_work(&path)?;
        session.policy.engine_retries = now.policy.engine_retries;
        session.policy.shares_gpu |= now.policy.shares_gpu;
        session.policy.shares_cpu |= now.policy.shares_cpu;
        session.policy.oversubscribes_gpu |= now.policy.oversubscribes_gpu;
        session.version = record::VERSION;
        session.asked = session.asked.or_else(|| now.asked.clone());
        decide_from_here(&mut session, &plan, &records.records, &path)?;
        session.ended_at = None;
        folder.create()?;
        folder.write_session(&session)?;
        let clock = parts::clock_note(&path.join(SessionFolder::SESSION));
        session
            .notes
            .extend(clock.filter(|_| session.first_block.is_some()));
        let plan = Plan { session, ..plan };
        let mut attempts = AttemptLog::of(&records.records);
        if plan.session.first_block.is_some() {
            attempts.keep_together(&plan, &records.records);
        }
        Ok(Self::of(folder, plan, attempts, lock))
    }

    fn of(folder: SessionFolder, plan: Plan, attempts: AttemptLog, lock: File) -> Self {
        Self {
            folder,
            plan,
            attempts,
            stopped: Stopped::default(),
            gathered: BTreeSet::new(),
            _lock: lock,
        }
    }

    /// The session's file, as it stands.
    pub fn session(&self) -> &record::Session {
        &self.plan.session
    }

    pub fn folder(&self) -> &SessionFolder {
        &self.folder
    }

    pub fn totals(&self) -> Totals {
        self.attempts.totals(&self.plan)
    }

    /// Runs what is still to do, until everything is done or `cancel` says to stop.
    ///
    /// # Errors
    /// Where a record cannot be written. A run that fails is a record, not an error.
    pub async fn run(
        &mut self,
        executor: &dyn Executor,
        subscriber: &mut dyn Subscriber,
        cancel: &CancellationToken,
    ) -> Result<Totals, SessionError> {
        subscriber.tell(Progress::SessionStarted {
            session: &self.plan.session,
            totals: self.totals(),
        });
        let mut block = self.plan.session.numbers().start;
        while block < self.plan.session.numbers().end {
            let began = Instant::now();
            let mut runs = self.plan.block(block);
            let only = self.plan.run.as_ref();
            runs.retain(|run| only.is_none_or(|only| run.name == *only));
            let ran = self.carry(&runs, executor, subscriber, cancel).await?;
            if let Some(deciding) = &mut self.plan.session.deciding {
                deciding.spent_seconds += began.elapsed().as_secs_f64();
            }
            // Without the engine or a GPU there is nothing to add blocks to.
            if cancel.is_cancelled() || self.stopped.ends(self.is_deciding()) {
                break;
            }
            if ran {
                let of = self.plan.session.numbers().end;
                subscriber.tell(Progress::BlockEnded { block, of });
            }
            block += 1;
            if block == self.plan.session.blocks {
                self.go_on_or_end(subscriber)?;
            }
        }
        let totals = self.totals();
        self.plan.session.ended_at = Some(Timestamp::now());
        self.plan.session.complete = totals.is_complete() && !self.is_deciding();
        self.folder.write_session(&self.plan.session)?;
        if self.plan.session.complete {
            folder::drop_kernel_cache(self.folder.path());
        }
        subscriber.tell(Progress::SessionEnded { totals });
        Ok(totals)
    }

    /// Whether the session may still add a block.
    fn is_deciding(&self) -> bool {
        let deciding = self.plan.session.deciding.as_ref();
        deciding.is_some_and(|deciding| deciding.end.is_none())
    }

    /// Looks where a look is due, and adds a block unless everything is decided or the budget
    /// ends. Does nothing in a session of fixed length.
    fn go_on_or_end(&mut self, subscriber: &mut dyn Subscriber) -> Result<(), SessionError> {
        let blocks = self.plan.session.blocks;
        let Some(deciding) = &mut self.plan.session.deciding else {
            return Ok(());
        };
        if deciding.end.is_some() {
            return Ok(());
        }
        if let Some(look) = decide::due(deciding, blocks) {
            let records = self.folder.read_records()?.records;
            let verdicts = decide::take(&mut self.plan.session, &records, look)?;
            if let Some(deciding) = &self.plan.session.deciding
                && let Some(look) = deciding.looks.last()
            {
                let verdicts = &verdicts;
                subscriber.tell(Progress::Looked {
                    look,
                    deciding,
                    verdicts,
                });
            }
        }
        if self.is_deciding() {
            self.plan.session.blocks += 1;
        }
        Ok(self.folder.write_session(&self.plan.session)?)
    }
}

/// Makes a session of fixed length one that adds blocks until it is decided, where that is asked
/// for: its next look is the first. One that was begun so keeps its own budget.
fn decide_from_here(
    session: &mut record::Session,
    plan: &Plan,
    records: &[Record],
    path: &Path,
) -> Result<(), SessionError> {
    let Some(asked) = &plan.session.deciding else {
        return Ok(());
    };
    match &session.deciding {
        Some(own) if own.end.is_some() => Err(SessionError::Refused(format!(
            "the session in {} has taken its last look, and its error budget is spent; begin a new \
             session, with a longer --time-budget",
            path.display()
        ))),
        Some(_) => Ok(()),
        None => {
            decide::check_sides(plan, &asked.sides)?;
            let spent_seconds = records.iter().map(|record| record.wall_seconds).sum();
            session.deciding = Some(Deciding {
                spent_seconds,
                most_blocks: asked.most_blocks.max(session.blocks),
                ..asked.clone()
            });
            Ok(())
        }
    }
}
