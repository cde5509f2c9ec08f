//! What a session says of its cells beside their metrics: the GPU each ran on, and the noise
//! thresholds that the suite sets.

use std::collections::{BTreeMap, HashMap};

use metrics::Metric;
use record::{CellPlan, Record, Session};
use rusqlite::Connection;

use crate::SeriesKey;

/// GPU and thresholds by cell.
#[derive(Default)]
pub(crate) struct CellMetadata {
    of_cell: HashMap<i64, (Option<String>, Option<String>)>,
}

impl CellMetadata {
    /// Hears a run of a cell. Of a cell that ran on several GPUs the first stands.
    pub(crate) fn hear(&mut self, cell: i64, key: &SeriesKey, session: &Session, record: &Record) {
        let (gpu, _) = self.of_cell.entry(cell).or_insert_with(|| {
            let plan = session.cells.iter().find(|plan| {
                plan.image == key.image
                    && plan.suite == key.suite
                    && plan.scenario == key.scenario
                    && plan.variant == record.variant
                    && !plan.thresholds.is_empty()
            });
            (None, plan.map(thresholds))
        });
        if gpu.is_none() {
            *gpu = record.gpu_uuid(&session.machine);
        }
    }

    pub(crate) fn write(&self, connection: &Connection, session: i64) -> rusqlite::Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO cell_metadata (cell_id, session_id, gpu, thresholds) VALUES (?, ?, ?, ?) \
             ON CONFLICT DO UPDATE SET gpu = coalesce(excluded.gpu, gpu), \
             thresholds = coalesce(excluded.thresholds, thresholds) \
             WHERE excluded.gpu IS NOT gpu AND excluded.gpu IS NOT NULL \
             OR excluded.thresholds IS NOT thresholds AND excluded.thresholds IS NOT NULL",
        )?;
        for (cell, (gpu, thresholds)) in &self.of_cell {
            insert.execute((cell, session, gpu, thresholds))?;
        }
        Ok(())
    }
}

/// By the metrics' names of today.
fn thresholds(plan: &CellPlan) -> String {
    let named = plan.thresholds.iter().map(|(name, threshold)| {
        let metric = Metric::named(name).map_or(name.as_str(), |metric| metric.name);
        (metric, *threshold)
    });
    let named: BTreeMap<&str, f64> = named.collect();
    serde_json::json!(named).to_string()
}
