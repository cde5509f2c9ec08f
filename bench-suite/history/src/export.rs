//! Points as CSV, for other tools.

use std::{
    io::{self, Write as _},
    iter,
    path::Path,
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{HistoryError, Point, Series, error::refused};

/// Points as CSV, ordered by series and time: the header, and then the lines of each series. Text
/// that a spreadsheet would run as a formula has an apostrophe before it.
pub fn export(all: &[Series]) -> impl Iterator<Item = String> {
    let header = COLUMNS.join(",") + "\n";
    iter::once(header).chain(all.iter().map(lines))
}

/// As [`export()`], to a new file: whole, or not at all.
pub fn export_to(path: &Path, all: &[Series]) -> Result<(), HistoryError> {
    if path.exists() {
        let path = path.display();
        return refused(format!(
            "{path} is there already; give a new name, or remove it first"
        ));
    }
    let written = regular_file::replace(path, |file| {
        let mut file = io::BufWriter::new(file);
        export(all).try_for_each(|part| file.write_all(part.as_bytes()))?;
        file.flush()
    });
    written.map_err(|source| HistoryError::Write {
        path: path.to_owned(),
        source,
    })
}

fn lines(Series { info, points }: &Series) -> String {
    const IN_MEMORY: &str = "what is written to memory fits it";
    let mut writer = csv::Writer::from_writer(Vec::new());
    for point in points {
        let line = serde_json::to_value(Line {
            key: &info.key,
            unit: &info.unit,
            direction: info.direction,
            kind: info.kind,
            time: moment(point.timestamp).map(|time| time.to_string()),
            point,
        });
        let line = line.expect(IN_MEMORY);
        let attributes = &line["attributes"];
        let value = |column| line.get(column).unwrap_or(&attributes[column]);
        let fields = COLUMNS.map(|column| field(value(column)));
        writer.write_record(fields).expect(IN_MEMORY);
    }
    String::from_utf8(writer.into_inner().expect(IN_MEMORY)).expect("its fields are text")
}

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
