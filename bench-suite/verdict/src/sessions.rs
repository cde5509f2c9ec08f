//! Everything that one session compares; and two groups of sessions, a session as the unit: what lies
//! between sessions, such as boots of a machine, is the noise.

use std::collections::{BTreeMap, BTreeSet};

use metrics::Rows;
use record::{Record, Session, SidesCompared};

use crate::{CompareError, Options, Side, Verdicts, Warning, compare};

/// Every comparison that a session makes: what it was to decide on, or else every image against
/// its first one. Images without a run are left out; one image alone compares nothing.
pub fn compare_session(
    session: &Session,
    records: &[Record],
    options: &Options,
) -> Result<Vec<Verdicts>, CompareError> {
    let ran: BTreeSet<&str> = records.iter().map(|run| run.image.as_str()).collect();
    let images: Vec<&str> = session
        .images
        .iter()
        .map(|image| image.name.as_str())
        .filter(|image| ran.contains(image))
        .collect();
    let side = |image| Side::pick(session, records, Some(image));
    let sides = session.deciding.as_ref().map(|deciding| &deciding.sides);
    if let Some(SidesCompared::Axis { axis, base, head }) = sides {
        let mut all = Vec::new();
        for image in images {
            let whole = side(image)?;
            let (base, head) = (whole.along(axis, base)?, whole.along(axis, head)?);
            all.push(compare(&base, &head, options)?);
        }
        return Ok(all);
    }
    let base = match sides {
        Some(SidesCompared::Images { base }) => Some(base.as_str()),
        _ => images.first().copied(),
    };
    let Some(base) = base.filter(|base| ran.contains(base)) else {
        return Ok(Vec::new());
    };
    let base_side = side(base)?;
    images
        .into_iter()
        .filter(|image| *image != base)
        .map(|image| compare(&base_side, &side(image)?, options))
        .collect()
}

/// Sessions that were measured in one way, under a name for the group.
#[derive(Debug, Clone, Copy)]
pub struct Sessions<'a> {
    pub name: &'a str,
    pub sessions: &'a [(Session, Vec<Record>)],
}

/// Judges an image between two groups of sessions, whose drivers may differ and whose machines may
/// not. Each session counts as one block, with the mean of its blocks for each cell.
///
/// # Errors
/// [`CompareError`] where a group has no run of the image, or another machine, device or method.
pub fn compare_sessions(
    base: Sessions<'_>,
    head: Sessions<'_>,
    image: &str,
    options: &Options,
) -> Result<Verdicts, CompareError> {
    let (one, other) = (base.merged(), head.merged());
    let base = Side::pick(&one.0, &one.1, Some(image))?;
    let head = Side::pick(&other.0, &other.1, Some(image))?;
    let mut verdicts = compare(&base, &head, options)?;
    // No two drivers run by turns; that is why sessions are the unit.
    let is_known = |warning: &Warning| *warning == Warning::NotInterleaved;
    verdicts.warnings.retain(|warning| !is_known(warning));
    Ok(verdicts)
}

impl Sessions<'_> {
    /// One session whose blocks are the sessions of the group.
    fn merged(self) -> (Session, Vec<Record>) {
        let mut merged = Session::default();
        let mut records = Vec::new();
        for ((session, runs), block) in self.sessions.iter().zip(0..) {
            if block == 0 {
                merged = session.clone();
                merged.deciding = None;
            }
            records.extend(means(session, runs).into_iter().map(|run| Record {
                session: self.name.to_owned(),
                block,
                ..run
            }));
        }
        self.name.clone_into(&mut merged.session);
        for machine in merged.hosts.values_mut() {
            machine.driver_version = None;
        }
        (merged, records)
    }
}

/// A record for each cell, with the means over its blocks; a failure where half of them failed.
fn means(session: &Session, runs: &[Record]) -> Vec<Record> {
    let rows = Rows::with(&session.metrics);
    let mut cells: BTreeMap<_, BTreeMap<u32, &Record>> = BTreeMap::new();
    for run in runs {
        let cell = (&run.image, &run.suite, &run.scenario, run.axes.to_string());
        // The last attempt counts.
        cells.entry(cell).or_default().insert(run.block, run);
    }
    let of_cell = |blocks: BTreeMap<u32, &Record>| {
        // A cell that fails in half of the blocks has failed: what is left of it would speak for it.
        let (ended, failed): (Vec<&Record>, Vec<&Record>) =
            blocks.values().partition(|run| run.outcome.is_ok());
        let has_failed = !failed.is_empty() && failed.len() >= ended.len();
        let shown = *if has_failed { &failed } else { &ended }.first()?;
        let mut mean = Record {
            series: BTreeMap::new(),
            attempt: 1,
            ..shown.clone()
        };
        for metric in rows.all() {
            let values = blocks.values().filter_map(|run| metric.of(run));
            let values: Vec<f64> = values.collect();
            if !values.is_empty() && !has_failed {
                let value = values.iter().sum::<f64>() / values.len() as f64;
                mean.values.insert(metric.name.to_owned(), value);
            }
        }
        Some(mean)
    };
    cells.into_values().filter_map(of_cell).collect()
}
