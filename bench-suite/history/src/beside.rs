//! What a session says of a cell beside its figures: the card it ran on, and the margins that the
//! suite sets.

use std::collections::{BTreeMap, HashMap};

use record::{Record, Session};
use rusqlite::{Connection, params};

use crate::{
    SeriesKey,
    agree::differ,
    fault::Fault,
    rows::{CellInSessionRow, Row},
};

/// Margins by metric.
pub(crate) type Margins = BTreeMap<String, f64>;

/// Gathers what one session says.
pub(crate) struct Beside<'s> {
    session: &'s Session,
    session_id: i64,
    /// By image, suite, scenario and variant.
    planned: HashMap<[String; 4], &'s Margins>,
    /// By cell.
    said: HashMap<i64, CellInSessionRow>,
}

impl<'s> Beside<'s> {
    pub(crate) fn new(session: &'s Session, session_id: i64) -> Self {
        let with_margins = session
            .cells
            .iter()
            .filter(|plan| !plan.thresholds.is_empty());
        let planned = with_margins.map(|plan| {
            let place = [
                plan.image.clone(),
                plan.suite.clone(),
                plan.scenario.clone(),
                plan.variant.to_string(),
            ];
            (place, &plan.thresholds)
        });
        Self {
            session,
            session_id,
            planned: planned.collect(),
            said: HashMap::new(),
        }
    }

    /// Hears a run of a cell. Of a cell that ran on several cards the first stands.
    pub(crate) fn hear(&mut self, cell_id: i64, key: &SeriesKey, record: &Record) {
        let (planned, session_id) = (&self.planned, self.session_id);
        let said = self.said.entry(cell_id).or_insert_with(|| {
            let place = [&key.image, &key.suite, &key.scenario, &key.variant];
            let margins = planned.get(&place.map(Clone::clone));
            CellInSessionRow {
                cell_id,
                session_id,
                card: None,
                margins: margins.map(|margins| serde_json::json!(margins).to_string()),
            }
        });
        if said.card.is_none() {
            said.card = record.gpu_uuid(&self.session.machine);
        }
    }

    /// Writes what the history does not have yet; whether there was anything. Margins that
    /// contradict it are refused.
    pub(crate) fn finish(self, connection: &Connection) -> Result<bool, Fault> {
        let mut changed = false;
        let mut all: Vec<CellInSessionRow> = self.said.into_values().collect();
        all.sort_by_key(|row| row.cell_id);
        for mut row in all {
            let place = "WHERE cell_id = ? AND session_id = ?";
            let key = params![row.cell_id, row.session_id];
            if let Some(there) = CellInSessionRow::select(connection, place, key)?.pop() {
                if let (Some(there), Some(here)) = (&there.margins, &row.margins) {
                    let pair = ("set of margins", there.clone(), here.clone());
                    differ(&self.session.session, [pair])?;
                }
                row.card = there.card.clone().or(row.card);
                row.margins = there.margins.clone().or(row.margins);
                if row == there {
                    continue;
                }
                connection
                    .prepare_cached(&format!("DELETE FROM cells_in_sessions {place}"))?
                    .execute(params![row.cell_id, row.session_id])?;
            }
            row.insert(connection)?;
            changed = true;
        }
        Ok(changed)
    }
}

impl CellInSessionRow {
    /// A row in which nothing is said.
    pub(crate) fn silent(cell_id: i64, session_id: i64) -> Self {
        Self {
            cell_id,
            session_id,
            card: None,
            margins: None,
        }
    }

    /// The margin of a metric.
    pub(crate) fn margin(&self, metric: &str) -> Result<Option<f64>, Fault> {
        let Some(margins) = &self.margins else {
            return Ok(None);
        };
        let margins: Margins = serde_json::from_str(margins)
            .map_err(|error| Fault::Damage(format!("the margins of a cell: {error}")))?;
        Ok(margins.get(metric).copied())
    }
}

/// Gives every cell of every session that has a run of it a row, for a database that had none.
pub(crate) fn fill(connection: &Connection) -> rusqlite::Result<()> {
    let pairs: Vec<(i64, i64)> = connection
        .prepare("SELECT DISTINCT cell_id, session_id FROM runs ORDER BY 1, 2")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (cell_id, session_id) in pairs {
        CellInSessionRow::silent(cell_id, session_id).insert(connection)?;
    }
    Ok(())
}
