//! A session: carries a plan out, run after run, and keeps every result.
//!
//! Each record is on the disk before the next run begins, a failed run is a record, and a session
//! that was cut off can be resumed: what is finished is not run again.

mod assemble;
mod decide;
mod difference;
mod error;
mod folder;
mod progress;
mod runs;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    time::Instant,
};

use jiff::{Timestamp, tz::TimeZone};
use rand::Rng as _;
use record::{
    Asked, Deciding, EngineFacts, ImageFacts, Machine, Record, RunPolicy, SessionFolder, Tool,
};
use tokio_util::sync::CancellationToken;

pub use decide::{DecideError, check_sides, options, until_decided};
pub use difference::Difference;
pub use error::SessionError;
pub use folder::{check_folder, check_new_folder};
pub use progress::{Both, Progress, Silent, Subscriber};

use crate::{
    executors::{self, Executor},
    plan::Plan,
};
use folder::lock;
use runs::{AttemptLog, Stopped};

/// What a session is to do, and with what.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What runs.
    pub plan: Plan,
    /// The images of the plan.
    pub images: Vec<ImageFacts>,
    /// The machine.
    pub machine: Machine,
    /// Where runs execute.
    pub engine: EngineFacts,
    /// What measures.
    pub tool: Tool,
    /// What the command line asked for.
    pub asked: Option<Asked>,
    /// Whether GPUs are shared, and how often the engine may fail a run.
    pub policy: RunPolicy,
    /// Add blocks until this is decided, in place of a fixed number of blocks; see
    /// [`until_decided`].
    pub deciding: Option<Deciding>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs that were planned.
    pub planned: usize,
    /// Runs that ended as they were to end.
    pub ok: usize,
    /// Runs that failed for good.
    pub failed: usize,
    /// Runs that are still to do.
    pub remaining: usize,
}

impl Totals {
    /// Whether every planned run is finished.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.remaining == 0
    }
}

/// A session that is ready to run. While it lives, no other process can work on its folder.
#[derive(Debug)]
pub struct Session {
    folder: SessionFolder,
    about: record::Session,
    plan: Plan,
    attempts: AttemptLog,
    stopped: Stopped,
    _lock: File,
}

/// A name for a session that begins now: the time, and four letters by chance.
#[must_use]
pub fn fresh_name() -> String {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let mut random = rand::rng();
    let letters: String = (0..4)
        .map(|_| char::from(random.random_range(b'a'..=b'z')))
        .collect();
    format!("{}-{letters}", now.strftime("%Y%m%d-%H%M%S"))
}

impl Session {
    /// Makes the folder of a new session with this name.
    pub fn create(folder: &Path, name: &str, mut spec: Spec) -> Result<Self, SessionError> {
        if let Some(deciding) = &spec.deciding {
            decide::check_sides(&spec.plan, &deciding.sides)?;
            // Every further block is added when it is needed.
            spec.plan.blocks = 1;
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
        let session = record::Session {
            version: record::VERSION,
            session: name.to_owned(),
            started_at: Timestamp::now(),
            ended_at: None,
            complete: false,
            tool: spec.tool,
            machine: spec.machine,
            engine: spec.engine,
            device: spec.plan.device,
            suites: spec.plan.suites.clone(),
            questions: spec.plan.questions.clone(),
            images: spec.images,
            cells: spec
                .plan
                .cells
                .iter()
                .map(|cell| cell.plan.clone())
                .collect(),
            blocks: spec.plan.blocks,
            order_seed: spec.plan.order_seed,
            claims: spec.plan.claims.clone(),
            deciding: spec.deciding,
            asked: spec.asked,
            policy: RunPolicy {
                gpus: spec.plan.gpus(),
                ..spec.policy
            },
            labels: record::Labels::default(),
            notes: spec.notes,
        };
        folder.write_session(&session)?;
        Ok(Self {
            folder,
            about: session,
            plan: spec.plan,
            attempts: AttemptLog::default(),
            stopped: Stopped::default(),
            _lock: lock,
        })
    }

    /// Continues the session in this folder. Blocks and order are those it was begun with;
    /// cells, images, machine and engine must be the same, or nothing is touched.
    pub fn resume(folder: &Path, spec: Spec) -> Result<Self, SessionError> {
        let path = folder.canonicalize().map_err(|source| SessionError::Io {
            path: folder.to_owned(),
            source,
        })?;
        let folder = SessionFolder::at(path.clone());
        let mut session = folder.read_session()?;
        let differences = difference::between(&session, &spec);
        if !differences.is_empty() {
            return Err(SessionError::Different { path, differences });
        }
        let lock = lock(&path)?;
        let records = folder.read_records()?;
        let note = if records.torn_after.is_some() {
            folder.cut_torn_line(&records)?;
            "resumed after the last record was cut off while it was written"
        } else {
            "resumed after it was cut off"
        };
        session.notes.push(note.to_owned());
        if !records.bad_lines.is_empty() {
            let lines = records.bad_lines.len();
            let note = format!("resumed without {lines} damaged lines; their runs are repeated");
            session.notes.push(note);
        }
        for note in &spec.notes {
            if !session.notes.contains(note) {
                session.notes.push(note.clone());
            }
        }
        let left = executors::sweep(&path.join("work"));
        if left > 0 {
            let note = format!("{left} processes that a killed session left behind were ended");
            session.notes.push(note);
        }
        folder::sweep_work(&path)?;
        session.policy.engine_retries = spec.policy.engine_retries;
        session.policy.shares_gpu |= spec.policy.shares_gpu;
        session.version = record::VERSION;
        session.asked = session.asked.or_else(|| spec.asked.clone());
        decide_from_here(&mut session, &spec, &records.records, &path)?;
        session.ended_at = None;
        folder.create()?;
        folder.write_session(&session)?;
        let mut plan = spec.plan;
        (plan.blocks, plan.order_seed) = (session.blocks, session.order_seed);
        Ok(Self {
            folder,
            about: session,
            plan,
            attempts: AttemptLog::of(&records.records),
            stopped: Stopped::default(),
            _lock: lock,
        })
    }

    /// The session's file, as it stands.
    #[must_use]
    pub fn session(&self) -> &record::Session {
        &self.about
    }

    /// The session's folder.
    #[must_use]
    pub fn folder(&self) -> &SessionFolder {
        &self.folder
    }

    /// Where the session stands.
    #[must_use]
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
            session: &self.about,
            totals: self.totals(),
        });
        let mut block = 0;
        while block < self.plan.blocks {
            let began = Instant::now();
            let runs = self.plan.block(block);
            let ran = self.carry(&runs, executor, subscriber, cancel).await?;
            if let Some(deciding) = &mut self.about.deciding {
                deciding.spent_seconds += began.elapsed().as_secs_f64();
            }
            // Without the engine or a GPU there is nothing to add blocks to.
            if cancel.is_cancelled() || self.stopped.ends(self.is_deciding()) {
                break;
            }
            if ran {
                let of = self.plan.blocks;
                subscriber.tell(Progress::BlockEnded { block, of });
            }
            block += 1;
            if block == self.plan.blocks {
                self.go_on_or_end(subscriber)?;
            }
        }
        let totals = self.totals();
        self.about.ended_at = Some(Timestamp::now());
        self.about.complete = totals.is_complete() && !self.is_deciding();
        self.folder.write_session(&self.about)?;
        if self.about.complete {
            folder::drop_kernel_cache(self.folder.path());
        }
        subscriber.tell(Progress::SessionEnded { totals });
        Ok(totals)
    }

    /// Whether the session may still add a block.
    fn is_deciding(&self) -> bool {
        let deciding = self.about.deciding.as_ref();
        deciding.is_some_and(|deciding| deciding.end.is_none())
    }

    /// Looks where a look is due, and adds a block unless everything is decided or the budget
    /// ends. Does nothing in a session of fixed length.
    fn go_on_or_end(&mut self, subscriber: &mut dyn Subscriber) -> Result<(), SessionError> {
        let blocks = self.plan.blocks;
        let Some(deciding) = &mut self.about.deciding else {
            return Ok(());
        };
        if deciding.end.is_some() {
            return Ok(());
        }
        if let Some(look) = decide::due(deciding, blocks) {
            let records = self.folder.read_records()?.records;
            let verdicts = decide::take(&mut self.about, &records, look)?;
            if let Some(deciding) = &self.about.deciding
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
            self.plan.blocks += 1;
            self.about.blocks = self.plan.blocks;
        }
        Ok(self.folder.write_session(&self.about)?)
    }
}

/// Writes a session's records anew without the lines that hold none, while nobody works on it.
/// Gives the copy of the file as it was.
pub fn repair(path: &Path) -> Result<PathBuf, SessionError> {
    let _lock = lock(path)?;
    let folder = SessionFolder::at(path);
    let mut session = folder.read_session()?;
    let found = folder.read_records()?;
    let copy = folder.repair(&found)?;
    let recorded: BTreeSet<&str> = found.records.iter().map(|run| run.run.as_str()).collect();
    if session.complete && recorded.len() < session.cells.len() * session.blocks as usize {
        session.complete = false;
        folder.write_session(&session)?;
    }
    Ok(copy)
}

/// Makes a session of fixed length one that adds blocks until it is decided, where that is asked
/// for: its next look is the first. One that was begun so keeps its own budget.
fn decide_from_here(
    session: &mut record::Session,
    spec: &Spec,
    records: &[Record],
    path: &Path,
) -> Result<(), SessionError> {
    let Some(asked) = &spec.deciding else {
        return Ok(());
    };
    match &session.deciding {
        Some(own) if own.end.is_some() => Err(SessionError::Spent(path.to_owned())),
        Some(_) => Ok(()),
        None => {
            decide::check_sides(&spec.plan, &asked.sides)?;
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
