//! What a session says of its cells beside their metrics: what each was measured with, and the noise
//! thresholds that the suite sets.

use std::collections::{BTreeMap, HashMap};

use metrics::Metric;
use record::{CellPlan, Record, Session};
use rusqlite::Connection;

/// What a point was measured with, by attribute: `image`, `image_id`, `libtorch`, `driver`, `engine`,
/// `kernel`, `gpu` (a UUID). What is not known, or not used, is left out.
pub type Attributes = BTreeMap<String, String>;

/// Attributes and thresholds by cell.
#[derive(Default)]
pub(crate) struct CellMetadata {
    of_cell: HashMap<i64, (Attributes, Option<String>)>,
}

impl CellMetadata {
    /// Hears a run of a cell. Of a cell that ran on several GPUs the first stands.
    pub(crate) fn hear(&mut self, cell: i64, session: &Session, record: &Record) {
        let (attributes, _) = self.of_cell.entry(cell).or_insert_with(|| {
            let plan = session.cells.iter().find(|plan| {
                plan.image == record.image
                    && plan.suite == record.suite
                    && plan.scenario == record.scenario
                    && plan.variant == record.variant
                    && !plan.thresholds.is_empty()
            });
            (Attributes::new(), plan.map(thresholds))
        });
        for (name, value) in known(session, record) {
            attributes.entry(name.to_owned()).or_insert(value);
        }
    }

    pub(crate) fn write(&self, connection: &Connection, session: i64) -> rusqlite::Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO cell_metadata (cell_id, session_id, attributes, thresholds) \
             VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET \
             attributes = json_patch(attributes, excluded.attributes), \
             thresholds = coalesce(excluded.thresholds, thresholds) \
             WHERE json_patch(attributes, excluded.attributes) IS NOT attributes \
             OR excluded.thresholds IS NOT thresholds AND excluded.thresholds IS NOT NULL",
        )?;
        for (cell, (attributes, thresholds)) in &self.of_cell {
            let attributes = serde_json::json!(attributes).to_string();
            insert.execute((cell, session, attributes, thresholds))?;
        }
        Ok(())
    }
}

fn known(session: &Session, record: &Record) -> impl Iterator<Item = (&'static str, String)> {
    let (machine, engine) = (&session.machine, &session.engine);
    let image = session
        .images
        .iter()
        .find(|image| image.name == record.image);
    let on_gpu = record.device != protocol::Device::Cpu;
    let driver = machine.driver_version.clone().filter(|_| on_gpu);
    let engine = match &engine.version {
        Some(version) => format!("{} {version}", engine.kind),
        None => engine.kind.clone(),
    };
    [
        ("image", Some(record.image.clone())),
        ("image_id", record.image_id.clone()),
        (
            "libtorch",
            image.map(|image| image.libtorch_version.clone()),
        ),
        ("driver", driver),
        ("engine", Some(engine)),
        ("kernel", Some(machine.kernel.clone())),
        ("gpu", record.gpu_uuid(machine)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
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
