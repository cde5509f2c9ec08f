//! Putting rows that were found back together.

use std::{collections::HashMap, mem};

use rusqlite::Connection;

use super::{Found, Incomplete, Recovered};
use crate::{
    SeriesKey,
    fault::Fault,
    rows::{CellInSessionRow, RevisionRow, Row, RunRow},
};

/// Stands for revisions whose names are lost. Their values are as good as before.
const LOST_REVISION: &str = "lost in a damaged file";

/// Writes rows whose relations are there, with their counts put right.
pub(super) fn restore(connection: &Connection, found: &mut Found) -> Result<Recovered, Fault> {
    let mut recovered = Recovered::default();
    let before = found.runs.len() + found.points.len() + found.series.len();
    drop_orphans(found);
    let after = found.runs.len() + found.points.len() + found.series.len();
    recovered.orphans = (before - after) as u64;
    recovered.silent = say_nothing_of_lost_cells(found);
    name_revisions(found);

    let counts = Counts::of(found);
    for row in found.sessions.values_mut() {
        let (runs, points) = (
            counts.get(&counts.session_runs, row.id),
            counts.get(&counts.session_points, row.id),
        );
        if let Some(lost) = lost(&row.name, row.run_count - runs, row.point_count - points) {
            recovered.incomplete_sessions.push(lost);
        }
        (row.run_count, row.point_count) = (runs, points);
    }
    for row in found.series.values_mut() {
        let points = counts.get(&counts.series_points, row.id);
        let cell = &found.cells[&row.cell_id];
        if cell.machine == SeriesKey::IMPORTED
            && let Some(lost) = lost(&cell.scenario, 0, row.point_count - points)
        {
            recovered.incomplete_imports.push(lost);
        }
        row.point_count = points;
        (row.oldest, row.newest) = counts
            .spans
            .get(&row.id)
            .map_or((None, None), |(a, b)| (Some(*a), Some(*b)));
    }
    for row in found.runs.values_mut() {
        row.point_count = counts.get(&counts.run_points, row.id);
    }
    recovered
        .incomplete_sessions
        .sort_by(|a, b| a.name.cmp(&b.name));
    recovered
        .incomplete_imports
        .sort_by(|a, b| a.name.cmp(&b.name));
    recovered.saved = found.salvage();

    insert_all(connection, &found.sessions)?;
    insert_all(connection, &found.cells)?;
    insert_all(connection, &found.series)?;
    insert_all(connection, &found.revisions)?;
    insert_all(connection, &found.runs)?;
    insert_all(connection, &found.branches)?;
    insert_all(connection, &found.baselines)?;
    insert_all(connection, &found.said)?;
    let mut points: Vec<_> = found.points.values().collect();
    points.sort_by(|a, b| {
        a.series_id
            .cmp(&b.series_id)
            .then(a.timestamp.total_cmp(&b.timestamp))
            .then(a.ordinal.cmp(&b.ordinal))
    });
    for point in points {
        point.insert(connection)?;
    }
    Ok(recovered)
}

fn insert_all<K: Ord, T: Row>(connection: &Connection, rows: &HashMap<K, T>) -> Result<(), Fault> {
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_unstable_by_key(|(key, _)| *key);
    for (_, row) in rows {
        row.insert(connection)?;
    }
    Ok(())
}

/// A row without what it belongs to says nothing.
fn drop_orphans(found: &mut Found) {
    let Found {
        sessions,
        cells,
        series,
        runs,
        points,
        branches,
        baselines,
        ..
    } = found;
    series.retain(|_, row| cells.contains_key(&row.cell_id));
    runs.retain(|_, row| {
        cells.contains_key(&row.cell_id) && sessions.contains_key(&row.session_id)
    });
    points.retain(|_, row| {
        series.contains_key(&row.series_id)
            && (row.session_id.is_none() || runs.contains_key(&row.ordinal))
    });
    branches.retain(|id, _| sessions.contains_key(id));
    baselines.retain(|_, row| sessions.contains_key(&row.session_id));
}

/// Keeps exactly the rows of cells in sessions of which there is a run; how many had to be made.
fn say_nothing_of_lost_cells(found: &mut Found) -> u64 {
    let mut there = mem::take(&mut found.said);
    let mut made = 0;
    for run in found.runs.values() {
        let pair = (run.cell_id, run.session_id);
        found.said.entry(pair).or_insert_with(|| {
            there.remove(&pair).unwrap_or_else(|| {
                made += 1;
                CellInSessionRow::silent(pair.0, pair.1)
            })
        });
    }
    made
}

fn name_revisions(found: &mut Found) {
    let revisions = &mut found.revisions;
    let next = revisions
        .keys()
        .copied()
        .chain(found.points.values().map(|point| point.revision_id))
        .max()
        .unwrap_or(0)
        .saturating_add(1);
    let mut placeholder = revisions
        .values()
        .find(|row| row.revision == LOST_REVISION)
        .map(|row| row.id);
    for point in found.points.values_mut() {
        if !revisions.contains_key(&point.revision_id) {
            let id = *placeholder.get_or_insert(next);
            revisions.entry(id).or_insert_with(|| RevisionRow {
                id,
                revision: LOST_REVISION.to_owned(),
            });
            point.revision_id = id;
        }
    }
}

fn lost(name: &str, runs: i64, points: i64) -> Option<Incomplete> {
    let number = |count: i64| u64::try_from(count).unwrap_or(0);
    (runs > 0 || points > 0).then(|| Incomplete {
        name: name.to_owned(),
        lost_runs: number(runs),
        lost_points: number(points),
    })
}

/// How many rows belong to a row of this key.
#[derive(Default)]
struct Counts {
    session_runs: HashMap<i64, i64>,
    session_points: HashMap<i64, i64>,
    series_points: HashMap<i64, i64>,
    run_points: HashMap<i64, i64>,
    spans: HashMap<i64, (f64, f64)>,
}

impl Counts {
    fn of(found: &Found) -> Self {
        let mut counts = Self::default();
        for RunRow { session_id, .. } in found.runs.values() {
            *counts.session_runs.entry(*session_id).or_default() += 1;
        }
        for point in found.points.values() {
            *counts.series_points.entry(point.series_id).or_default() += 1;
            if let Some(session) = point.session_id {
                *counts.session_points.entry(session).or_default() += 1;
                *counts.run_points.entry(point.ordinal).or_default() += 1;
            }
            let at = point.timestamp;
            let span = counts.spans.entry(point.series_id).or_insert((at, at));
            *span = (span.0.min(at), span.1.max(at));
        }
        counts
    }

    #[expect(clippy::unused_self, reason = "reads better where it is called")]
    fn get(&self, counts: &HashMap<i64, i64>, id: i64) -> i64 {
        counts.get(&id).copied().unwrap_or(0)
    }
}
