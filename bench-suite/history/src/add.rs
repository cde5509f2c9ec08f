//! Adding a session.

use std::collections::{HashMap, hash_map::Entry};

use jiff::Timestamp;
use metrics::Metric;
use record::{Outcome, Record, Session, SessionFolder};
use rusqlite::Connection;

use crate::{
    History, HistoryError, SeriesKey,
    agree::{check_same, check_same_run, differ},
    beside::Beside,
    fault::Fault,
    key::driver,
    names::check_name,
    rows::{BranchRow, PointRow, Row, RunRow, SessionRow, next_id},
    writer::{Measure, Writer},
};

/// What the user says about a session that its folder does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The branch it was measured on.
    pub branch: Option<String>,
    /// What was measured, such as a commit. Otherwise it is the commit that Torchgauge, with its
    /// image specs, was built from; where that is unknown, each image's ID.
    pub revision: Option<String>,
}

/// What adding a session did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that say nothing of each other"
)]
pub struct Added {
    /// The session's name.
    pub session: String,
    /// Whether the history did not know the session before.
    pub new: bool,
    /// Runs that were added, failed ones too.
    pub runs: usize,
    /// How many of them failed.
    pub failed: usize,
    /// Points that were added.
    pub points: usize,
    /// Runs that stood in the history already.
    pub known_runs: usize,
    /// The last line of the records was torn and left out: the writer was cut off, or writes still.
    pub torn: bool,
    /// Whether every planned run has a record.
    pub complete: bool,
    /// Whether the history stood like this before, down to the labels.
    pub unchanged: bool,
}

impl History {
    /// Adds a session, or the runs by which it has grown since. Adding it again changes nothing.
    ///
    /// When this returns, what was added is on the disk; when it fails or the process is killed,
    /// the history is as it was before.
    pub fn add(&self, folder: &SessionFolder, labels: &Labels) -> Result<Added, HistoryError> {
        self.add_watched(folder, labels, &mut |_, _| ())
    }

    /// As [`History::add`]; `progress` hears runs done and runs in all.
    pub fn add_watched(
        &self,
        folder: &SessionFolder,
        labels: &Labels,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Added, HistoryError> {
        let session = folder.read_session()?;
        let records = folder.read_records()?;
        check_session(folder, &session, &records.records)?;
        for (what, label) in [("branch", &labels.branch), ("revision", &labels.revision)] {
            if let Some(label) = label {
                check_name(what, label)?;
            }
        }
        self.write("add a session", |connection| {
            let torn = records.torn_after.is_some();
            add_session(connection, &session, &records.records, labels, progress)
                .map(|added| Added { torn, ..added })
        })
    }
}

fn check_session(
    folder: &SessionFolder,
    session: &Session,
    records: &[Record],
) -> Result<(), HistoryError> {
    let refuse = |message: String| {
        Err(HistoryError::Session {
            path: folder.path().to_owned(),
            message,
        })
    };
    if session.session.is_empty() {
        return refuse("its name is empty; `session` in session.json must name it".into());
    }
    if let Some(record) = records
        .iter()
        .find(|record| record.session != session.session)
    {
        return refuse(format!(
            "run {} belongs to session {}, but session.json is of {}; the two files must be of \
             one session",
            record.run, record.session, session.session
        ));
    }
    for record in records {
        if let Some((quantity, value)) = values(record).iter().find(|(_, value)| *value < 0.0) {
            return refuse(format!(
                "run {}: {} is {value}, expected a number that is not negative; a record like this \
                 was changed or is broken, and a comparison refuses it as well: measure again",
                record.run, quantity.name
            ));
        }
    }
    Ok(())
}

fn add_session(
    connection: &Connection,
    session: &Session,
    records: &[Record],
    labels: &Labels,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Added, Fault> {
    let before = SessionRow::find(connection, "name", &session.session)?;
    let new = before.is_none();
    let mut row = match before.clone() {
        Some(row) => {
            check_same(&row, session, labels)?;
            row
        }
        None => new_row(connection, session, labels)?,
    };
    if new {
        row.insert(connection)?;
    }
    let labelled = set_branch(connection, &row, labels.branch.as_deref())?;

    let mut known: HashMap<(String, i64), RunRow> =
        RunRow::select(connection, "WHERE session_id = ?", &[&row.id])?
            .into_iter()
            .map(|run| ((run.name.clone(), run.attempt), run))
            .collect();
    let mut added = Added {
        session: session.session.clone(),
        new,
        runs: 0,
        failed: 0,
        points: 0,
        known_runs: 0,
        torn: false,
        complete: session.complete,
        unchanged: false,
    };
    let mut writer = Writer::new(connection);
    let mut beside = Beside::new(session, row.id);
    let mut next_run = next_id::<RunRow>(connection)?;
    for (place, record) in records.iter().enumerate() {
        let key = SeriesKey::of_cell(session, record);
        let cell_id = writer.cell(&key)?;
        beside.hear(cell_id, &key, record);
        let values = values(record);
        let mut run = run_row(next_run, row.id, cell_id, record);
        run.point_count = i64::try_from(values.len()).unwrap_or(i64::MAX);
        let known = known.entry((run.name.clone(), run.attempt));
        match known {
            Entry::Vacant(vacant) => {
                next_run += 1;
                run.insert(connection)?;
                added.runs += 1;
                added.failed += usize::from(!record.outcome.is_ok());
                added.points += add_points(&mut writer, &row, &run, record, &values)?;
                vacant.insert(run);
            }
            Entry::Occupied(mut there) => {
                check_same_run(connection, &row.name, there.get(), &run)?;
                added.known_runs += 1;
                // Points that were lost, or that an older Torchgauge did not follow.
                if there.get().point_count < run.point_count {
                    run.id = there.get().id;
                    let missing = missing(connection, &mut writer, &run, &values)?;
                    added.points += add_points(&mut writer, &row, &run, record, &missing)?;
                    run.point_count =
                        there.get().point_count + i64::try_from(missing.len()).unwrap_or(i64::MAX);
                    run.update(connection)?;
                    there.insert(run);
                }
            }
        }
        progress(place + 1, records.len());
    }
    row.point_count += writer.finish()?;
    let said_more = beside.finish(connection)?;
    row.run_count += i64::try_from(added.runs).unwrap_or(i64::MAX);
    row.ended = session.ended_at.map(seconds).or(row.ended);
    // A copy of the folder from before the end does not undo the end.
    row.complete |= session.complete;
    added.complete = row.complete;
    let changed = before.as_ref() != Some(&row);
    if changed {
        row.update(connection)?;
    }
    added.unchanged = !changed && !labelled && !said_more;
    Ok(added)
}

type Values = Vec<(&'static Metric, f64)>;

fn values(record: &Record) -> Values {
    Metric::followed()
        .filter_map(|quantity| Some((quantity, quantity.of(record)?)))
        .collect()
}

fn measure(quantity: &Metric) -> Measure<'static> {
    Measure {
        metric: quantity.name,
        unit: quantity.unit.sign(),
        direction: quantity.direction,
        kind: quantity.kind,
    }
}

fn missing(
    connection: &Connection,
    writer: &mut Writer,
    run: &RunRow,
    values: &Values,
) -> Result<Values, Fault> {
    let mut missing = Values::new();
    for (metric, value) in values {
        let series_id = writer.series(run.cell_id, &measure(metric))?;
        let place = "WHERE series_id = ? AND timestamp = ? AND ordinal = ?";
        if PointRow::select(connection, place, &[&series_id, &run.started, &run.id])?.is_empty() {
            missing.push((metric, *value));
        }
    }
    Ok(missing)
}

fn add_points(
    writer: &mut Writer,
    session: &SessionRow,
    run: &RunRow,
    record: &Record,
    values: &Values,
) -> Result<usize, Fault> {
    let revision = session
        .revision
        .as_deref()
        .or(record.image_id.as_deref())
        .unwrap_or(&session.name);
    for (metric, value) in values {
        let point = PointRow {
            series_id: writer.series(run.cell_id, &measure(metric))?,
            timestamp: run.started,
            ordinal: run.id,
            session_id: Some(session.id),
            block: Some(run.block),
            revision_id: writer.revision(revision)?,
            value: *value,
        };
        writer.point(point);
    }
    Ok(values.len())
}

fn new_row(
    connection: &Connection,
    session: &Session,
    labels: &Labels,
) -> Result<SessionRow, Fault> {
    Ok(SessionRow {
        id: next_id::<SessionRow>(connection)?,
        name: session.session.clone(),
        started: seconds(session.started_at),
        ended: None,
        complete: session.complete,
        machine: session.machine.name.clone(),
        driver: driver(&session.machine),
        tool_version: session.tool.version.clone(),
        revision: labels
            .revision
            .clone()
            .or_else(|| session.tool.revision.clone()),
        run_count: 0,
        point_count: 0,
    })
}

fn run_row(id: i64, session_id: i64, cell_id: i64, record: &Record) -> RunRow {
    let (reason, stage, message) = match &record.outcome {
        Outcome::Ok => (None, None, None),
        Outcome::Failed {
            reason,
            stage,
            message,
        } => {
            let stage = serde_json::to_value(stage).ok();
            let stage = stage
                .as_ref()
                .and_then(|word| word.as_str())
                .unwrap_or("unknown");
            (
                Some(reason.word()),
                Some(stage.to_owned()),
                Some(message.clone()),
            )
        }
    };
    RunRow {
        id,
        session_id,
        cell_id,
        name: record.run.clone(),
        attempt: record.attempt.into(),
        block: record.block.into(),
        started: seconds(record.started_at),
        point_count: 0,
        image_id: record.image_id.clone(),
        reason,
        stage,
        message,
    }
}

/// Whether the label is new.
fn set_branch(
    connection: &Connection,
    session: &SessionRow,
    branch: Option<&str>,
) -> Result<bool, Fault> {
    let Some(branch) = branch else {
        return Ok(false);
    };
    if let Some(there) = BranchRow::find(connection, "session_id", &session.id)? {
        return differ(&session.name, [("branch", there.branch, branch.to_owned())])
            .map(|()| false);
    }
    let session_id = session.id;
    BranchRow {
        session_id,
        branch: branch.to_owned(),
    }
    .insert(connection)?;
    Ok(true)
}

/// Since 1970-01-01 UTC.
pub(crate) fn seconds(time: Timestamp) -> f64 {
    time.as_nanosecond() as f64 / 1e9
}
