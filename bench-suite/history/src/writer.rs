//! Rows that several points share, found or made once, and the points themselves.

use std::collections::{HashMap, hash_map::Entry};

use judge::compare::{Direction, Kind};
use rusqlite::{Connection, params};

use crate::{
    SeriesKey,
    fault::Fault,
    rows::{CellRow, PointRow, RevisionRow, Row, SeriesRow, next_id},
};

/// Adds points within one transaction.
pub(crate) struct Writer<'t> {
    connection: &'t Connection,
    cells: HashMap<SeriesKey, i64>,
    revisions: HashMap<String, i64>,
    series_ids: HashMap<(i64, String), i64>,
    series: HashMap<i64, SeriesRow>,
    points: Vec<PointRow>,
}

/// What a series measures.
pub(crate) struct Measure<'m> {
    pub(crate) metric: &'m str,
    pub(crate) unit: &'m str,
    pub(crate) direction: Direction,
    pub(crate) kind: Kind,
}

impl<'t> Writer<'t> {
    pub(crate) fn new(connection: &'t Connection) -> Self {
        Self {
            connection,
            cells: HashMap::new(),
            revisions: HashMap::new(),
            series_ids: HashMap::new(),
            series: HashMap::new(),
            points: Vec::new(),
        }
    }

    /// The cell of this key, whose metric is not looked at.
    pub(crate) fn cell(&mut self, key: &SeriesKey) -> Result<i64, Fault> {
        let key = SeriesKey {
            metric: String::new(),
            ..key.clone()
        };
        if let Some(id) = self.cells.get(&key) {
            return Ok(*id);
        }
        let id = if let Some(row) = find_cell(self.connection, &key)? {
            row.id
        } else {
            let id = next_id::<CellRow>(self.connection)?;
            let SeriesKey {
                machine,
                device,
                driver,
                image,
                suite,
                scenario,
                variant,
                ..
            } = key.clone();
            CellRow {
                id,
                machine,
                device,
                driver,
                image,
                suite,
                scenario,
                variant,
            }
            .insert(self.connection)?;
            id
        };
        self.cells.insert(key, id);
        Ok(id)
    }

    pub(crate) fn revision(&mut self, revision: &str) -> Result<i64, Fault> {
        if let Some(id) = self.revisions.get(revision) {
            return Ok(*id);
        }
        let found = RevisionRow::find(self.connection, "revision", &revision)?;
        let id = if let Some(row) = found {
            row.id
        } else {
            let id = next_id::<RevisionRow>(self.connection)?;
            RevisionRow {
                id,
                revision: revision.to_owned(),
            }
            .insert(self.connection)?;
            id
        };
        self.revisions.insert(revision.to_owned(), id);
        Ok(id)
    }

    pub(crate) fn series(&mut self, cell_id: i64, measure: &Measure) -> Result<i64, Fault> {
        let key = (cell_id, measure.metric.to_owned());
        let vacant = match self.series_ids.entry(key) {
            Entry::Occupied(found) => return Ok(*found.get()),
            Entry::Vacant(vacant) => vacant,
        };
        let found = find_series(self.connection, cell_id, measure.metric)?;
        let row = if let Some(row) = found {
            row
        } else {
            let row = SeriesRow {
                id: next_id::<SeriesRow>(self.connection)?,
                cell_id,
                metric: measure.metric.to_owned(),
                unit: measure.unit.to_owned(),
                direction: direction_word(measure.direction).to_owned(),
                kind: kind_word(measure.kind).to_owned(),
                point_count: 0,
                oldest: None,
                newest: None,
            };
            row.insert(self.connection)?;
            row
        };
        let id = *vacant.insert(row.id);
        self.series.insert(id, row);
        Ok(id)
    }

    /// Of a series that [`Writer::series`] gave.
    pub(crate) fn point(&mut self, point: PointRow) {
        if let Some(row) = self.series.get_mut(&point.series_id) {
            row.point_count += 1;
            row.oldest = Some(
                row.oldest
                    .map_or(point.timestamp, |at| at.min(point.timestamp)),
            );
            row.newest = Some(
                row.newest
                    .map_or(point.timestamp, |at| at.max(point.timestamp)),
            );
            self.points.push(point);
        }
    }

    /// Takes a point out of a series that [`Writer::series`] gave, for another at the same time.
    pub(crate) fn take_out(
        &mut self,
        series_id: i64,
        timestamp: f64,
        ordinal: i64,
    ) -> Result<(), Fault> {
        let gone = self
            .connection
            .prepare_cached(
                "DELETE FROM points WHERE series_id = ? AND timestamp = ? AND ordinal = ?",
            )?
            .execute(params![series_id, timestamp, ordinal])?;
        if let Some(row) = self.series.get_mut(&series_id) {
            row.point_count -= i64::try_from(gone).unwrap_or(i64::MAX);
        }
        Ok(())
    }

    /// Writes what was gathered; the number of points.
    pub(crate) fn finish(mut self) -> Result<i64, Fault> {
        // In the order of the table, so that neighbours share a page.
        self.points.sort_by(|a, b| {
            a.series_id
                .cmp(&b.series_id)
                .then(a.timestamp.total_cmp(&b.timestamp))
                .then(a.ordinal.cmp(&b.ordinal))
        });
        for point in &self.points {
            point.insert(self.connection)?;
        }
        for row in self.series.values() {
            row.update(self.connection)?;
        }
        Ok(i64::try_from(self.points.len()).unwrap_or(i64::MAX))
    }
}

pub(crate) fn find_cell(
    connection: &Connection,
    key: &SeriesKey,
) -> Result<Option<CellRow>, Fault> {
    let condition = "WHERE machine = ? AND device = ? AND driver = ? AND image = ? AND suite = ? \
                     AND scenario = ? AND variant = ?";
    let parameters = params![
        key.machine,
        key.device,
        key.driver,
        key.image,
        key.suite,
        key.scenario,
        key.variant
    ];
    Ok(CellRow::select(connection, condition, parameters)?.pop())
}

pub(crate) fn find_series(
    connection: &Connection,
    cell_id: i64,
    metric: &str,
) -> Result<Option<SeriesRow>, Fault> {
    let condition = "WHERE cell_id = ? AND metric = ?";
    Ok(SeriesRow::select(connection, condition, params![cell_id, metric])?.pop())
}

/// The word in the database and in exports.
pub(crate) fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::HigherIsBetter => "higher-is-better",
        Direction::LowerIsBetter => "lower-is-better",
    }
}

pub(crate) fn direction_of(word: &str) -> Option<Direction> {
    [Direction::HigherIsBetter, Direction::LowerIsBetter]
        .into_iter()
        .find(|direction| direction_word(*direction) == word)
}

/// The word in the database and in exports.
pub(crate) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::TimeLike => "time-like",
        Kind::MemoryLike => "memory-like",
    }
}

pub(crate) fn kind_of(word: &str) -> Option<Kind> {
    [Kind::TimeLike, Kind::MemoryLike]
        .into_iter()
        .find(|kind| kind_word(*kind) == word)
}
