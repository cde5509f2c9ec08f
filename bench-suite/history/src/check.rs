//! Whether the file is as it was written.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use crate::{
    History, HistoryError, Salvage,
    database::structure_problems,
    fault::Fault,
    recover::survey,
    rows::{
        BaselineRow, BranchRow, CellInSessionRow, CellRow, PointRow, RevisionRow, Row, RunRow,
        SeriesRow, SessionRow,
    },
};

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// What is wrong; empty where all is well.
    pub problems: Vec<String>,
    /// What [`recover`](crate::recover()) would find; only counted where something is wrong.
    pub salvage: Option<Salvage>,
}

impl Health {
    /// Whether all is well.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

impl History {
    /// Reads everything: the structure, every row against its seal, every count against the rows.
    pub fn check(&self) -> Result<Health, HistoryError> {
        let problems = self.read("check the history", |connection| Ok(problems(connection)))?;
        let salvage = if problems.is_empty() {
            None
        } else {
            survey(self.path()).ok()
        };
        Ok(Health { problems, salvage })
    }
}

fn problems(connection: &Connection) -> Vec<String> {
    let mut problems = match structure_problems(connection, 20) {
        Ok(problems) => problems,
        Err(error) => vec![error.to_string()],
    };
    if let Err(fault) = counts(connection, &mut problems) {
        problems.push(match fault {
            Fault::Seal(table) => format!("a row of the table {table} does not fit its seal"),
            Fault::Damage(problem) => problem,
            Fault::Sqlite(error) => error.to_string(),
            Fault::Told(error) => error.to_string(),
            Fault::Busy(_) => "another process is in the way".to_owned(),
        });
    }
    problems
}

fn counts(connection: &Connection, problems: &mut Vec<String>) -> Result<(), Fault> {
    let mut sessions: HashMap<i64, (i64, i64)> = HashMap::new();
    let mut runs: HashMap<i64, i64> = HashMap::new();
    let mut series: HashMap<i64, i64> = HashMap::new();
    PointRow::visit(connection, "", &[], |point| {
        *series.entry(point.series_id).or_default() += 1;
        if let Some(session) = point.session_id {
            sessions.entry(session).or_default().1 += 1;
            *runs.entry(point.ordinal).or_default() += 1;
        }
        Ok(())
    })?;
    let mut compare = |what: &str, name: &str, said: i64, there: i64| {
        if said != there {
            problems.push(format!("{what} {name} should have {said}, has {there}"));
        }
    };
    let mut ran = HashSet::new();
    RunRow::visit(connection, "", &[], |run| {
        ran.insert((run.cell_id, run.session_id));
        sessions.entry(run.session_id).or_default().0 += 1;
        let there = runs.remove(&run.id).unwrap_or(0);
        compare("points of run", &run.name, run.point_count, there);
        Ok(())
    })?;
    SessionRow::visit(connection, "", &[], |row| {
        let (runs, points) = sessions.remove(&row.id).unwrap_or_default();
        compare("runs of session", &row.name, row.run_count, runs);
        compare("points of session", &row.name, row.point_count, points);
        Ok(())
    })?;
    SeriesRow::visit(connection, "", &[], |row| {
        let there = series.remove(&row.id).unwrap_or(0);
        compare("points of series", &row.metric, row.point_count, there);
        Ok(())
    })?;
    let left = sessions.len() + runs.len() + series.len();
    if left > 0 {
        problems.push(format!(
            "rows belong to {left} sessions, runs or series that are gone"
        ));
    }
    CellRow::select(connection, "", &[])?;
    RevisionRow::select(connection, "", &[])?;
    BranchRow::select(connection, "", &[])?;
    BaselineRow::select(connection, "", &[])?;
    let said = CellInSessionRow::select(connection, "", &[])?;
    let said: HashSet<_> = said
        .iter()
        .map(|row| (row.cell_id, row.session_id))
        .collect();
    let silent = ran.difference(&said).count();
    if silent > 0 {
        problems.push(format!(
            "{silent} cells of sessions have lost their cards and margins"
        ));
    }
    Ok(())
}
