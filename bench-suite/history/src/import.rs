//! Importing a series that Torchgauge did not measure.

use std::{
    collections::HashMap,
    io::{self, Read},
    path::Path,
};

use judge::trend::{self, Point, csv::Parsed};
use record::Method;
use rusqlite::{Connection, OptionalExtension};

use crate::{
    History, HistoryError, SeriesKey,
    error::Fault,
    sessions::{check_name, drop_unused},
    sources::{ImportedSeries, forget_import, imported_points, write_import},
    sql::{Measure, cell_id, find_series, revision_id, series_id, word},
};

/// A file larger than this is no series; some, such as `/dev/zero`, have no end.
const MOST_BYTES: u64 = 256 << 20;

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Points that were added.
    pub added: usize,
    /// Points that stood there already.
    pub known: usize,
    /// Points of the history that others took the place of.
    pub replaced: usize,
}

impl History {
    /// Imports points of finite numbers. They are read in order of time, and in that of their import
    /// where times are equal. Those that stand there already, with the same timestamp, revision and
    /// value, are passed over, so that a file that has grown can be imported again. One that has
    /// another value than stands there at its timestamp and revision takes its place where it is
    /// to `replace`, and is refused, and all with it, where not.
    pub fn import(
        &self,
        series: &ImportedSeries,
        points: &[Point],
        replace: bool,
    ) -> Result<Imported, HistoryError> {
        check_name("series", &series.name)?;
        self.write("import a series", |connection| {
            check_same(connection, series)?;
            let mut all = imported_points(connection, &series.name)?;
            let imported = merge(&series.name, &mut all, points, replace)?;
            store(connection, series, &all)?;
            write_import(self.path(), &series.name, &all)?;
            Ok(imported)
        })
    }
}

impl History {
    /// Takes an imported series out; how many points it had.
    pub fn remove_import(&self, name: &str) -> Result<usize, HistoryError> {
        let removed = self.write("remove an imported series", |connection| {
            let Some((series, _)) = find_series(connection, &SeriesKey::imported(name))? else {
                return Err(HistoryError::NoImport(name.to_owned()).into());
            };
            let points = connection.execute("DELETE FROM points WHERE series_id = ?", [series])?;
            connection.execute("DELETE FROM series WHERE id = ?", [series])?;
            drop_unused(connection)?;
            Ok(points)
        })?;
        // Left behind, it belongs to nothing: what counts is that the sources do not name it.
        forget_import(self.path(), name);
        Ok(removed)
    }
}

/// The points of a CSV file with the columns `timestamp`, `revision` and `value`, in the order of
/// its lines, and the unit of its timestamps where it is not seconds.
pub fn read_csv(path: &Path) -> Result<Parsed, HistoryError> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        regular_file::open(path)?
            .take(MOST_BYTES + 1)
            .read_to_string(&mut text)?;
        if text.len() as u64 > MOST_BYTES {
            let most = MOST_BYTES >> 20;
            let error = format!("it has more than {most} MiB, which no series has");
            return Err(io::Error::other(error));
        }
        Ok(text)
    };
    let text = read().map_err(|source| HistoryError::Read {
        path: path.to_owned(),
        source,
    })?;
    trend::csv::parse(&text).map_err(|source| HistoryError::Csv {
        path: path.to_owned(),
        source,
    })
}

/// Puts the points of an imported series in place of those that were there.
pub(crate) fn store(
    connection: &Connection,
    series: &ImportedSeries,
    points: &[Point],
) -> rusqlite::Result<()> {
    let key = SeriesKey::imported(&series.name);
    let measure = Measure {
        metric: &key.metric,
        unit: &series.unit,
        direction: series.direction,
        kind: series.kind,
    };
    let series_id = series_id(
        connection,
        cell_id(connection, &key, &Method::default())?,
        &measure,
    )?;
    connection.execute(
        "UPDATE series SET threshold = ? WHERE id = ?",
        (series.threshold, series_id),
    )?;
    connection.execute("DELETE FROM points WHERE series_id = ?", [series_id])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO points VALUES (?, ?, ?, NULL, ?, ?)")?;
    for (ordinal, point) in (0_i64..).zip(points) {
        let revision = revision_id(connection, &point.revision)?;
        insert.execute((series_id, point.timestamp, ordinal, revision, point.value))?;
    }
    Ok(())
}

/// Adds to the points of a series those of an import that are not among them.
fn merge(
    name: &str,
    all: &mut Vec<Point>,
    points: &[Point],
    replace: bool,
) -> Result<Imported, HistoryError> {
    // Values of the history by timestamp and revision, without those that the import has too.
    let mut left: HashMap<(u64, String), Vec<u64>> = HashMap::new();
    for point in &*all {
        left.entry(place(point))
            .or_default()
            .push(bits(point.value));
    }
    let mut fresh = Vec::new();
    for point in points {
        let there = left.entry(place(point)).or_default();
        // The same line twice in one file is two results.
        match there.iter().position(|value| *value == bits(point.value)) {
            Some(known) => drop(there.swap_remove(known)),
            None => fresh.push(point),
        }
    }
    let contradicted: Vec<(&Point, f64)> = fresh
        .iter()
        .filter_map(|point| Some((*point, f64::from_bits(*left[&place(point)].first()?))))
        .collect();
    if let (Some((here, there)), false) = (contradicted.first(), replace) {
        return Err(HistoryError::OtherValue {
            name: name.to_owned(),
            count: contradicted.len(),
            timestamp: here.timestamp,
            revision: here.revision.clone(),
            there: *there,
            here: here.value,
        });
    }
    let before = all.len();
    let places = contradicted.iter().map(|(point, _)| place(point));
    let mut gone: HashMap<_, _> = places
        .filter_map(|place| left.remove_entry(&place))
        .collect();
    all.retain(|old| {
        let values = gone.get_mut(&place(old));
        let same = |values: &mut Vec<u64>| {
            let found = values.iter().position(|value| *value == bits(old.value))?;
            Some(values.swap_remove(found))
        };
        values.and_then(same).is_none()
    });
    let replaced = before - all.len();
    all.extend(fresh.iter().copied().cloned());
    Ok(Imported {
        added: fresh.len(),
        known: points.len() - fresh.len(),
        replaced,
    })
}

fn place(point: &Point) -> (u64, String) {
    (bits(point.timestamp), point.revision.clone())
}

/// -0.0 is kept as 0.
fn bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

fn check_same(connection: &Connection, series: &ImportedSeries) -> Result<(), Fault> {
    let Some((id, _)) = find_series(connection, &SeriesKey::imported(&series.name))? else {
        return Ok(());
    };
    let there = connection
        .query_row(
            "SELECT unit, direction, kind FROM series WHERE id = ?",
            [id],
            |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]),
        )
        .optional()?
        .unwrap_or_default();
    let here = [
        series.unit.clone(),
        word(series.direction),
        word(series.kind),
    ];
    let mut pairs = ["unit", "direction", "kind"]
        .into_iter()
        .zip(there.into_iter().zip(here));
    match pairs.find(|(_, (there, here))| there != here) {
        None => Ok(()),
        Some((what, (there, here))) => Err(HistoryError::OtherMeasure {
            name: series.name.clone(),
            what,
            there,
            here,
        }
        .into()),
    }
}
