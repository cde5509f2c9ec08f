//! What a history is made of, in plain files beside its database, so that it can be made again:
//! `sources.json` names sessions, baselines and imported series, `imports/` has the points of
//! these. Sessions lie in folders of their own.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    path::{Path, PathBuf},
};

use judge::{
    compare::{Direction, Kind},
    trend::Point,
};
use record::Labels;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::{
    HistoryError, SeriesKey,
    error::Fault,
    location::{escaped, sources_of},
    sql::{Json, Word, find_series},
};

const VERSION: u32 = 1;

/// `sources.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sources {
    version: u32,
    /// By name.
    pub(crate) sessions: BTreeMap<String, SessionSource>,
    /// Sessions by the baseline's name.
    pub(crate) baselines: BTreeMap<String, String>,
    /// By file in `imports/`.
    pub(crate) imports: BTreeMap<String, ImportedSeries>,
}

/// What is kept of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionSource {
    /// Where it was when it was added; `None` where an older Torchgauge added it.
    pub(crate) folder: Option<PathBuf>,
    /// Its revision may be that of the tool, which stands in the folder.
    #[serde(flatten)]
    pub(crate) labels: Labels,
}

/// What an imported series is called and measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedSeries {
    /// Its name: the scenario of [`SeriesKey::imported`].
    pub name: String,
    /// Unit of its values, such as `ops/s`; may be empty.
    pub unit: String,
    /// Which way they improve.
    pub direction: Direction,
    /// How they behave from run to run.
    pub kind: Kind,
    /// The largest relative change that counts as none; `None` where any counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            version: VERSION,
            sessions: BTreeMap::new(),
            baselines: BTreeMap::new(),
            imports: BTreeMap::new(),
        }
    }
}

impl Sources {
    /// Those of this database; `None` where it has none yet.
    pub(crate) fn read(database: &Path) -> Result<Option<Self>, HistoryError> {
        let path = sources_of(database).join("sources.json");
        let bytes = match regular_file::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(HistoryError::Read { path, source }),
        };
        let sources = serde_json::from_slice(&bytes).map_err(io::Error::other);
        let sources = sources.and_then(|sources: Self| match sources.version {
            VERSION => Ok(Some(sources)),
            got => Err(io::Error::other(format!(
                "it is of version {got}, this Torchgauge reads version {VERSION}"
            ))),
        });
        sources.map_err(|source| HistoryError::Read { path, source })
    }

    /// What the database holds.
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut sources = Self::default();
        let mut sessions = connection
            .prepare_cached("SELECT name, folder, branch, revision, tracks FROM sessions")?;
        let mut rows = sessions.query([])?;
        while let Some(row) = rows.next()? {
            let source = SessionSource {
                folder: row.get::<_, Option<String>>(1)?.map(PathBuf::from),
                labels: Labels {
                    branch: row.get(2)?,
                    revision: row.get(3)?,
                    tracks: row.get::<_, Json<_>>(4)?.0,
                },
            };
            sources.sessions.insert(row.get(0)?, source);
        }
        let mut baselines = connection.prepare_cached(
            "SELECT baselines.name, sessions.name FROM baselines \
             JOIN sessions ON sessions.id = session_id",
        )?;
        let mut rows = baselines.query([])?;
        while let Some(row) = rows.next()? {
            sources.baselines.insert(row.get(0)?, row.get(1)?);
        }
        let mut imports = connection.prepare_cached(
            "SELECT scenario, unit, direction, kind, threshold FROM series \
             JOIN cells ON cells.id = cell_id WHERE machine = ?",
        )?;
        let mut rows = imports.query([SeriesKey::IMPORTED])?;
        while let Some(row) = rows.next()? {
            let series = ImportedSeries {
                name: row.get(0)?,
                unit: row.get(1)?,
                direction: row.get::<_, Word<_>>(2)?.0,
                kind: row.get::<_, Word<_>>(3)?.0,
                threshold: row.get(4)?,
            };
            sources.imports.insert(file_name(&series.name), series);
        }
        Ok(sources)
    }
}

/// Keeps what the database holds in the files beside it. Called within the transaction that
/// changes it, so that nobody else writes, and that what was said to be written is there.
pub(crate) fn keep(connection: &Connection, database: &Path) -> Result<(), Fault> {
    let sources = Sources::of(connection)?;
    for (file, series) in &sources.imports {
        if !import_file(database, file).exists() {
            write_import(
                database,
                &series.name,
                &imported_points(connection, &series.name)?,
            )?;
        }
    }
    let path = sources_of(database).join("sources.json");
    let mut text = Vec::new();
    let written = serde_json::to_writer_pretty(&mut text, &sources);
    written.map_err(|error| HistoryError::Write {
        path: path.clone(),
        source: error.into(),
    })?;
    text.push(b'\n');
    if regular_file::read(&path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    Ok(write_whole(&path, |file| file.write_all(&text))?)
}

/// The points of an imported series, in order.
pub(crate) fn imported_points(connection: &Connection, name: &str) -> rusqlite::Result<Vec<Point>> {
    let Some((series_id, _)) = find_series(connection, &SeriesKey::imported(name))? else {
        return Ok(Vec::new());
    };
    connection
        .prepare_cached(
            "SELECT timestamp, revision, value FROM points \
             JOIN revisions ON revisions.id = revision_id \
             WHERE series_id = ? ORDER BY timestamp, ordinal",
        )?
        .query_map([series_id], |row| {
            Ok(Point {
                timestamp: row.get(0)?,
                revision: row.get(1)?,
                value: row.get(2)?,
            })
        })?
        .collect()
}

/// Writes the points of an imported series.
pub(crate) fn write_import(
    database: &Path,
    name: &str,
    points: &[Point],
) -> Result<(), HistoryError> {
    write_whole(&import_file(database, &file_name(name)), |file| {
        write_points(io::BufWriter::new(file), points)
    })
}

pub(crate) fn write_points(to: impl Write, points: &[Point]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record(["timestamp", "revision", "value"])?;
    for point in points {
        let (timestamp, value) = (point.timestamp.to_string(), point.value.to_string());
        writer.write_record([&timestamp, &point.revision, &value])?;
    }
    writer.flush()
}

/// Removes the points of an imported series that is not there any more.
pub(crate) fn forget_import(database: &Path, name: &str) {
    let _ = fs::remove_file(import_file(database, &file_name(name)));
}

/// The points in a file of `imports/`, as they were written: nothing is trimmed.
pub(crate) fn read_import(database: &Path, file: &str) -> Result<Vec<Point>, HistoryError> {
    let path = import_file(database, file);
    let read = || read_points(regular_file::open(&path)?);
    read().map_err(|error| HistoryError::Read {
        path: path.clone(),
        source: io::Error::other(error),
    })
}

pub(crate) fn read_points(from: impl io::Read) -> Result<Vec<Point>, csv::Error> {
    let mut reader = csv::Reader::from_reader(from);
    let rows = reader.deserialize::<(f64, String, f64)>();
    rows.map(|row| {
        let (timestamp, revision, value) = row?;
        Ok(Point {
            timestamp,
            revision,
            value,
        })
    })
    .collect()
}

fn import_file(database: &Path, file: &str) -> PathBuf {
    sources_of(database).join("imports").join(file)
}

/// A name of up to 200 characters may be longer than file systems take.
fn file_name(series: &str) -> String {
    let mut name = escaped(series.as_bytes(), b" ._-");
    if name.len() > 200 || name.starts_with('.') {
        let mut hasher = DefaultHasher::new();
        series.hash(&mut hasher);
        name = format!("series-{:016x}", hasher.finish());
    }
    name + ".csv"
}

fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), HistoryError> {
    let attempt = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        regular_file::replace(path, write)
    };
    attempt().map_err(|source| HistoryError::Write {
        path: path.to_owned(),
        source,
    })
}
