//! Importing a series that Torchgauge did not measure.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, Read},
    path::Path,
};

use judge::{
    compare::{Direction, Kind},
    trend,
};
use rusqlite::Connection;

use crate::{
    History, HistoryError, SeriesKey,
    fault::Fault,
    names::check_name,
    rows::{PointRow, Row},
    writer::{Measure, Writer, direction_word, find_cell, find_series, kind_word},
};

/// A file larger than this is no series.
const MOST_BYTES: u64 = 256 << 20;
/// Ordinals of imported points rise from here, and stay below those of runs.
const FIRST_ORDINAL: i64 = -(1 << 40);

/// What an imported series is called and measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSeries {
    /// Its name: the scenario of [`SeriesKey::imported`].
    pub name: String,
    /// Unit of its values, such as `ops/s`; may be empty.
    pub unit: String,
    /// Which way they improve.
    pub direction: Direction,
    /// How they behave from run to run.
    pub kind: Kind,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The series.
    pub key: SeriesKey,
    /// Points that were added.
    pub added: usize,
    /// Points that stood there already.
    pub known: usize,
    /// Points of the history that others took the place of.
    pub replaced: usize,
    /// Points that were older than the one before them. A series is read in order of time, and in
    /// the order of its import where times are equal.
    pub backwards: usize,
}

impl History {
    /// Imports points. Those that stand there already, with the same timestamp, revision and
    /// value, are passed over, so that a file that has grown can be imported again. One that has
    /// another value than stands there at its timestamp and revision is refused, and all with it.
    pub fn import(
        &self,
        series: &ImportedSeries,
        points: &[trend::Point],
    ) -> Result<Imported, HistoryError> {
        self.import_points(series, points, false)
    }

    fn import_points(
        &self,
        series: &ImportedSeries,
        points: &[trend::Point],
        replace: bool,
    ) -> Result<Imported, HistoryError> {
        check_name("series", &series.name)?;
        for (index, point) in points.iter().enumerate() {
            for (field, value) in [("timestamp", point.timestamp), ("value", point.value)] {
                if !value.is_finite() {
                    return Err(HistoryError::NotFinite {
                        index,
                        field,
                        value,
                    });
                }
            }
        }
        self.write("import a series", |connection| {
            import(connection, series, points, replace)
        })
    }

    /// Imports a CSV file with the columns `timestamp`, `revision` and `value`, as
    /// [`History::import`] does.
    pub fn import_csv(
        &self,
        series: &ImportedSeries,
        path: &Path,
    ) -> Result<Imported, HistoryError> {
        self.import_file(series, path, false)
    }

    /// As [`History::import_csv`], but the file's values take the place of others at the same
    /// timestamp and revision.
    pub fn import_csv_replacing(
        &self,
        series: &ImportedSeries,
        path: &Path,
    ) -> Result<Imported, HistoryError> {
        self.import_file(series, path, true)
    }

    fn import_file(
        &self,
        series: &ImportedSeries,
        path: &Path,
        replace: bool,
    ) -> Result<Imported, HistoryError> {
        self.import_points(series, &read_csv(path)?, replace)
    }
}

/// The points of a CSV file with the columns `timestamp`, `revision` and `value`, in the order of
/// its lines.
pub fn read_csv(path: &Path) -> Result<Vec<trend::Point>, HistoryError> {
    let failed = |source| HistoryError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(failed(io::Error::other(format!(
            "it has more than {} MiB, which no series has",
            MOST_BYTES >> 20
        ))));
    }
    let text = String::from_utf8(bytes).map_err(|source| {
        let place = source.utf8_error().valid_up_to();
        failed(io::Error::other(format!(
            "byte {place} is no UTF-8; save the series as UTF-8 CSV"
        )))
    })?;
    trend::csv::parse(&text).map_err(|source| HistoryError::Csv {
        path: path.to_owned(),
        source,
    })
}

fn import(
    connection: &Connection,
    series: &ImportedSeries,
    points: &[trend::Point],
    replace: bool,
) -> Result<Imported, Fault> {
    let key = SeriesKey::imported(&series.name);
    check_same(connection, &key, series)?;
    let mut writer = Writer::new(connection);
    let measure = Measure {
        metric: &key.metric,
        unit: &series.unit,
        direction: series.direction,
        kind: series.kind,
    };
    let cell_id = writer.cell(&key)?;
    let series_id = writer.series(cell_id, &measure)?;

    // The ordinals of what stands there, by what it says.
    let mut known: HashMap<(u64, i64, u64), Vec<i64>> = HashMap::new();
    let mut next = FIRST_ORDINAL;
    PointRow::visit(connection, "WHERE series_id = ?", &[&series_id], |row| {
        known.entry(identity(&row)).or_default().push(row.ordinal);
        if row.ordinal < 0 {
            next = next.max(row.ordinal + 1);
        }
        Ok(())
    })?;
    let mut imported = Imported {
        key,
        added: 0,
        known: 0,
        replaced: 0,
        backwards: trend::backwards(points),
    };
    let mut fresh = Vec::new();
    for point in points {
        let row = PointRow {
            series_id,
            // -0.0 is kept as 0.
            timestamp: point.timestamp + 0.0,
            ordinal: next,
            session_id: None,
            block: None,
            revision_id: writer.revision(&point.revision)?,
            value: point.value + 0.0,
        };
        // The same line twice in one file is two results.
        if known.get_mut(&identity(&row)).and_then(Vec::pop).is_some() {
            imported.known += 1;
            continue;
        }
        next += 1;
        fresh.push((row, &point.revision));
    }
    let contradicted = contradicted(&known, &fresh);
    if let (Some((row, revision, there)), false) = (contradicted.first(), replace) {
        return Err(HistoryError::OtherValue {
            name: series.name.clone(),
            count: contradicted.len(),
            timestamp: row.timestamp,
            revision: (*revision).to_owned(),
            there: *there,
            here: row.value,
        }
        .into());
    }
    let places: HashSet<(u64, i64)> = contradicted
        .iter()
        .map(|(row, ..)| (row.timestamp.to_bits(), row.revision_id))
        .collect();
    for (id, ordinals) in known
        .iter()
        .filter(|(id, _)| places.contains(&(id.0, id.1)))
    {
        for ordinal in ordinals {
            writer.take_out(series_id, f64::from_bits(id.0), *ordinal)?;
            imported.replaced += 1;
        }
    }
    imported.added = fresh.len();
    for (row, _) in fresh {
        writer.point(row);
    }
    writer.finish()?;
    Ok(imported)
}

/// Points at whose timestamp and revision something else stands, with their revision and a value
/// that stands there.
fn contradicted<'f>(
    left: &HashMap<(u64, i64, u64), Vec<i64>>,
    fresh: &'f [(PointRow, &'f String)],
) -> Vec<(&'f PointRow, &'f str, f64)> {
    let there: HashMap<(u64, i64), f64> = left
        .iter()
        .filter(|(_, ordinals)| !ordinals.is_empty())
        .map(|(id, _)| ((id.0, id.1), f64::from_bits(id.2)))
        .collect();
    fresh
        .iter()
        .filter_map(|(row, revision)| {
            let value = there.get(&(row.timestamp.to_bits(), row.revision_id))?;
            Some((row, revision.as_str(), *value))
        })
        .collect()
}

fn identity(row: &PointRow) -> (u64, i64, u64) {
    (
        row.timestamp.to_bits(),
        row.revision_id,
        row.value.to_bits(),
    )
}

fn check_same(
    connection: &Connection,
    key: &SeriesKey,
    series: &ImportedSeries,
) -> Result<(), Fault> {
    let there = match find_cell(connection, key)? {
        Some(cell) => find_series(connection, cell.id, &key.metric)?,
        None => None,
    };
    let Some(there) = there else {
        return Ok(());
    };
    let pairs = [
        ("unit", there.unit, series.unit.as_str()),
        (
            "direction",
            there.direction,
            direction_word(series.direction),
        ),
        ("kind", there.kind, kind_word(series.kind)),
    ];
    match pairs.into_iter().find(|(_, there, here)| there != here) {
        None => Ok(()),
        Some((what, there, here)) => Err(HistoryError::OtherMeasure {
            name: series.name.clone(),
            what,
            there,
            here: here.to_owned(),
        }
        .into()),
    }
}
