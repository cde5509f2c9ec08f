//! Points as files: CSV and JSON lines.

use std::{
    fs::Permissions,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use jiff::Timestamp;
use record::MethodKey;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Aggregate, History, HistoryError, Point, PointFilter, SeriesFilter, SeriesInfo,
    location::parent, method, series,
};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One header line, one point a line. Text that a spreadsheet would run as a formula has an
    /// apostrophe before it.
    Csv,
    /// One JSON object a line.
    JsonLines,
}

/// What to export.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Of these series.
    pub series: SeriesFilter,
    /// These of their points.
    pub points: PointFilter,
    /// Runs, or one median a session.
    pub aggregate: Aggregate,
    /// Series whose methods differ in nothing but these are one, under the newest method.
    pub ignore: Vec<MethodKey>,
}

/// What was exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Series with a point in it.
    pub series: usize,
    /// Points.
    pub points: usize,
}

impl History {
    /// Writes the selected points, ordered by series and time.
    pub fn export(
        &self,
        format: Format,
        selection: &Selection,
        out: impl Write,
    ) -> Result<Exported, HistoryError> {
        let failed = |source| HistoryError::Export { source };
        let mut out = Out::begin(format, out).map_err(failed)?;
        let done = self.read("export", |connection| {
            let mut done = Exported::default();
            let all = series::series(connection, &selection.series)?;
            for info in method::join(all, &selection.ignore) {
                let (filter, aggregate) = (&selection.points, selection.aggregate);
                let points = method::points_of(connection, &info, filter, aggregate)?;
                let points = points.unwrap_or_default();
                for point in &points {
                    out.point(&info, point).map_err(failed)?;
                }
                done.points += points.len();
                done.series += usize::from(!points.is_empty());
            }
            Ok(done)
        })?;
        out.finish().map_err(failed)?;
        Ok(done)
    }

    /// As [`History::export`], to a new file: whole, or not at all.
    pub fn export_to(
        &self,
        path: &Path,
        format: Format,
        selection: &Selection,
    ) -> Result<Exported, HistoryError> {
        if path.exists() {
            let path = path.to_owned();
            return Err(HistoryError::Exists(path));
        }
        let failed = |source| HistoryError::Write {
            path: path.to_owned(),
            source,
        };
        // For whom the umask says, not for the owner alone.
        let fresh = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(parent(path))
            .map_err(failed)?;
        let done = self
            .export(format, selection, io::BufWriter::new(fresh.as_file()))
            .map_err(|error| match error {
                HistoryError::Export { source } => failed(source),
                other => other,
            })?;
        fresh.as_file().sync_all().map_err(failed)?;
        fresh
            .persist_noclobber(path)
            .map_err(|error| failed(error.error))?;
        Ok(done)
    }
}

/// A line of an export.
#[derive(Serialize)]
struct Line<'p> {
    #[serde(flatten)]
    key: &'p crate::SeriesKey,
    unit: &'p str,
    direction: judge::compare::Direction,
    kind: judge::compare::Kind,
    time: Option<String>,
    #[serde(flatten)]
    point: &'p Point,
}

/// The order in CSV.
const COLUMNS: [&str; 28] = [
    "machine",
    "device",
    "track",
    "suite",
    "scenario",
    "variant",
    "method",
    "metric",
    "unit",
    "direction",
    "kind",
    "session",
    "run",
    "attempt",
    "block",
    "runs",
    "time",
    "timestamp",
    "revision",
    "value",
    "threshold",
    "image",
    "image_id",
    "libtorch",
    "driver",
    "engine",
    "kernel",
    "gpu",
];

enum Out<W: Write> {
    Csv(Box<csv::Writer<W>>),
    JsonLines(W),
}

impl<W: Write> Out<W> {
    fn begin(format: Format, out: W) -> io::Result<Self> {
        Ok(match format {
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(COLUMNS).map_err(cause)?;
                Self::Csv(Box::new(writer))
            }
            Format::JsonLines => Self::JsonLines(out),
        })
    }

    fn point(&mut self, series: &SeriesInfo, point: &Point) -> io::Result<()> {
        let line = Line {
            key: &series.key,
            unit: &series.unit,
            direction: series.direction,
            kind: series.kind,
            time: moment(point.timestamp).map(|time| time.to_string()),
            point,
        };
        match self {
            Self::Csv(writer) => {
                let line = serde_json::to_value(&line)?;
                let attributes = &line["attributes"];
                let value = |column| line.get(column).unwrap_or(&attributes[column]);
                let fields = COLUMNS.map(|column| field(value(column)));
                writer.write_record(fields).map_err(cause)
            }
            Self::JsonLines(out) => {
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")
            }
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv(mut writer) => writer.flush(),
            Self::JsonLines(mut out) => out.flush(),
        }
    }
}

/// What the writer below said, so that a closed pipe is known as one.
fn cause(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A name that begins like a formula would run as one in a spreadsheet
/// (OWASP, *CSV Injection*): an apostrophe before it makes it text.
fn field(value: &Value) -> String {
    match value {
        Value::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) => {
            format!("'{text}")
        }
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN).to_string(),
        _ => String::new(),
    }
}

/// `None` outside the years −9999 to 9999.
fn moment(seconds: f64) -> Option<Timestamp> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and is then out of range"
    )]
    let microseconds = (seconds * 1e6).round() as i64;
    Timestamp::from_microsecond(microseconds).ok()
}
