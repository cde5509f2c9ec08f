//! Importing a series that Torchgauge did not measure.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use judge::{
    compare::{Direction, Kind},
    trend::{self, Point, csv::Parsed},
};
use serde::{Deserialize, Serialize};

use crate::{
    History, HistoryError, Origin, Series, SeriesInfo, SeriesKey,
    disk::{file_name, read_json, remove, write_json},
    error::{check_name, refused},
    file::Version,
};

/// A file larger than this is no series; some, such as `/dev/zero`, have no end.
const MOST_BYTES: u64 = 256 << 20;

/// What an imported series is called and measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedSeries {
    /// Its name: the scenario of [`SeriesKey::imported`].
    pub name: String,
    /// Unit of its values, such as `ops/s`; may be empty.
    pub unit: String,
    pub direction: Direction,
    /// How they behave from run to run.
    pub kind: Kind,
    /// The largest relative change that counts as none; `None` where any counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

/// The file of an imported series.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Import {
    pub(crate) version: Version,
    #[serde(flatten)]
    pub(crate) series: ImportedSeries,
    pub(crate) points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub added: usize,
    pub known: usize,
}

impl Import {
    pub(crate) fn key(&self) -> SeriesKey {
        SeriesKey::imported(&self.series.name)
    }

    /// In order of time, and in that of their import where times are equal; `None` where there is
    /// no point.
    pub(crate) fn series(&self) -> Option<Series> {
        let mut points = self.points.clone();
        trend::put_in_order(&mut points);
        let (oldest, newest) = (points.first()?.timestamp, points.last()?.timestamp);
        let info = SeriesInfo {
            key: self.key(),
            settings: None,
            joined: Vec::new(),
            unit: self.series.unit.clone(),
            direction: self.series.direction,
            kind: self.series.kind,
            threshold: self.series.threshold,
            points: points.len() as u64,
            oldest: Some(oldest),
            newest: Some(newest),
        };
        let points = points.into_iter().map(|point| crate::Point {
            timestamp: point.timestamp,
            value: point.value,
            runs: 1,
            run: None,
            attempt: None,
            block: None,
            threshold: None,
            origin: Arc::new(Origin {
                revision: point.revision,
                ..Origin::default()
            }),
        });
        Some(Series {
            info,
            points: points.collect(),
        })
    }
}

impl History {
    /// Imports points of finite numbers. Those that are there already, with the same timestamp,
    /// revision and value, are passed over, so that a file that has grown can be imported again. One
    /// that has another value than is there at its timestamp and revision is refused, and all with
    /// it.
    pub fn import(
        &self,
        series: &ImportedSeries,
        points: &[Point],
    ) -> Result<Imported, HistoryError> {
        check_name("series", &series.name)?;
        let mut all = Vec::new();
        if let Some(there) = self.read_import(&series.name)? {
            check_same(&there.series, series)?;
            all = there.points;
        }
        let imported = merge(&series.name, &mut all, points)?;
        let import = Import {
            version: Version,
            series: series.clone(),
            points: all,
        };
        write_json(&self.import_path(&series.name), &import)?;
        Ok(imported)
    }

    /// Takes an imported series out; how many points it had.
    pub fn remove_import(&self, name: &str) -> Result<usize, HistoryError> {
        let Some(there) = self.read_import(name)? else {
            return refused(format!(
                "no imported series {name}; `history list --machine imported` names them"
            ));
        };
        remove(&self.import_path(name))?;
        Ok(there.points.len())
    }

    fn import_path(&self, name: &str) -> PathBuf {
        self.imports().join(file_name(name))
    }

    fn read_import(&self, name: &str) -> Result<Option<Import>, HistoryError> {
        let path = self.import_path(name);
        if !path.exists() {
            return Ok(None);
        }
        let read = read_json(&path).map(Some);
        read.or_else(|why| refused(format!("cannot read {}: {why}", path.display())))
    }
}

/// The points of a CSV file with the columns `timestamp`, `revision` and `value`, in the order of
/// its lines, and the unit of its timestamps where it is not seconds.
pub fn read_csv(path: &Path) -> Result<Parsed, HistoryError> {
    let text = regular_file::read(path, MOST_BYTES)
        .map_err(|error| error.to_string())
        .and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
    let parsed = match text {
        Ok(text) => trend::csv::parse(&text).map_err(|error| error.to_string()),
        Err(why) => return refused(format!("cannot read {}: {why}", path.display())),
    };
    parsed.or_else(|why| refused(format!("{}: {why}", path.display())))
}

/// Adds to the points of a series those of an import that are not among them.
fn merge(name: &str, all: &mut Vec<Point>, points: &[Point]) -> Result<Imported, HistoryError> {
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
    let contradicted = fresh
        .iter()
        .filter_map(|point| Some((*point, f64::from_bits(*left[&place(point)].first()?))));
    let contradicted: Vec<(&Point, f64)> = contradicted.collect();
    if let Some((here, there)) = contradicted.first() {
        return refused(format!(
            "{} points to import into {name} have other values than are there at the same timestamp \
             and revision; the first: timestamp {}, revision {:?}: there {there}, here {}. Nothing \
             was imported; `history remove --imported {name}` makes room for the new values",
            contradicted.len(),
            here.timestamp,
            here.revision,
            here.value
        ));
    }
    let added = fresh.len();
    all.extend(fresh.into_iter().cloned());
    Ok(Imported {
        added,
        known: points.len() - added,
    })
}

fn place(point: &Point) -> (u64, String) {
    (bits(point.timestamp), point.revision.clone())
}

/// -0.0 is kept as 0.
fn bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

fn check_same(there: &ImportedSeries, here: &ImportedSeries) -> Result<(), HistoryError> {
    let direction = |series: &ImportedSeries| match series.direction {
        Direction::HigherIsBetter => "higher-is-better",
        Direction::LowerIsBetter => "lower-is-better",
    };
    for (what, old, new) in [
        ("unit", &*there.unit, &*here.unit),
        ("direction", direction(there), direction(here)),
    ] {
        if old != new {
            return refused(format!(
                "the series {} is in the history with {what} {old:?}, not {new:?}; import it with \
                 the same, or under another name",
                here.name
            ));
        }
    }
    Ok(())
}
