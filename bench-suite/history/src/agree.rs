//! Whether what is to be added is what the history knows under the same name.

use record::Session;
use rusqlite::Connection;

use crate::{
    HistoryError, Labels,
    add::seconds,
    fault::Fault,
    rows::{CellRow, Row, RunRow, SessionRow},
};

pub(crate) fn check_same(there: &SessionRow, here: &Session, labels: &Labels) -> Result<(), Fault> {
    let started = seconds(here.started_at);
    let revision = there.revision.clone().unwrap_or_else(|| "none".into());
    let differences = [
        ("start", there.started.to_string(), started.to_string()),
        ("machine", there.machine.clone(), here.machine.name.clone()),
        (
            "revision",
            revision.clone(),
            labels.revision.clone().unwrap_or(revision),
        ),
    ];
    differ(&there.name, differences)
}

pub(crate) fn check_same_run(
    connection: &Connection,
    session: &str,
    there: &RunRow,
    here: &RunRow,
) -> Result<(), Fault> {
    let outcome = |run: &RunRow| run.reason.clone().unwrap_or_else(|| "ok".into());
    let run = &here.name;
    differ(
        session,
        [
            (
                &*format!("start of run {run}"),
                there.started.to_string(),
                here.started.to_string(),
            ),
            (
                &*format!("outcome of run {run}"),
                outcome(there),
                outcome(here),
            ),
        ],
    )?;
    if there.cell_id == here.cell_id {
        return Ok(());
    }
    let cell = |id: i64| -> Result<String, Fault> {
        let row = CellRow::find(connection, "id", &id)?;
        Ok(row.map_or_else(String::new, |row| row.key("").to_string()))
    };
    let cells = (cell(there.cell_id)?, cell(here.cell_id)?);
    differ(
        session,
        [(&*format!("cell in run {run}"), cells.0, cells.1)],
    )
}

pub(crate) fn differ<const N: usize>(
    session: &str,
    differences: [(&str, String, String); N],
) -> Result<(), Fault> {
    match differences
        .into_iter()
        .find(|(_, there, here)| there != here)
    {
        None => Ok(()),
        Some((what, there, here)) => {
            let (session, what) = (session.to_owned(), what.to_owned());
            Err(HistoryError::Conflict {
                session,
                what,
                there,
                here,
            }
            .into())
        }
    }
}
