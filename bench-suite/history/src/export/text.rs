//! CSV and JSON lines.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use serde::Serialize;

use super::{Sink, moment};
use crate::{
    Point, SeriesInfo, SeriesKey,
    writer::{direction_word, kind_word},
};

const COLUMNS: [&str; 22] = [
    "machine",
    "device",
    "driver",
    "image",
    "suite",
    "scenario",
    "variant",
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
    "margin",
    "card",
];

pub(super) struct Csv<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> Csv<W> {
    pub(super) fn begin(out: W) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(COLUMNS).map_err(failed)?;
        Ok(Self { writer })
    }
}

impl<W: Write> Sink for Csv<W> {
    fn point(&mut self, series: &SeriesInfo, point: &Point) -> io::Result<()> {
        let number = |number: Option<u32>| number.map(|n| n.to_string()).unwrap_or_default();
        for (_, part) in series.key.parts() {
            self.writer
                .write_field(harmless(part).as_ref())
                .map_err(failed)?;
        }
        let fields: [Cow<str>; 14] = [
            harmless(&series.unit),
            direction_word(series.direction).into(),
            kind_word(series.kind).into(),
            harmless(point.session.as_deref().unwrap_or_default()),
            harmless(point.run.as_deref().unwrap_or_default()),
            number(point.attempt).into(),
            number(point.block).into(),
            point.runs.to_string().into(),
            moment(point.timestamp)
                .map(|time| time.to_string())
                .unwrap_or_default()
                .into(),
            point.timestamp.to_string().into(),
            harmless(&point.revision),
            point.value.to_string().into(),
            point
                .margin
                .map(|margin| margin.to_string())
                .unwrap_or_default()
                .into(),
            harmless(point.card.as_deref().unwrap_or_default()),
        ];
        self.writer
            .write_record(fields.iter().map(AsRef::as_ref))
            .map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.flush()
    }
}

/// What the writer below said, so that a closed pipe is known as one.
fn failed(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A name that begins like a formula would run as one in a spreadsheet
/// (OWASP, *CSV Injection*): an apostrophe before it makes it text.
fn harmless(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        format!("'{text}").into()
    } else {
        text.into()
    }
}

/// `timestamp,revision,value`.
pub(super) fn series(points: &[Point], out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer
        .write_record(["timestamp", "revision", "value"])
        .map_err(failed)?;
    for point in points {
        let (timestamp, value) = (point.timestamp.to_string(), point.value.to_string());
        writer
            .write_record([&timestamp, harmless(&point.revision).as_ref(), &value])
            .map_err(failed)?;
    }
    writer.flush()
}

pub(super) struct JsonLines<W> {
    out: W,
}

impl<W> JsonLines<W> {
    pub(super) fn begin(out: W) -> Self {
        Self { out }
    }
}

#[derive(Serialize)]
struct Line<'p> {
    #[serde(flatten)]
    key: &'p SeriesKey,
    unit: &'p str,
    direction: &'static str,
    kind: &'static str,
    time: Option<String>,
    #[serde(flatten)]
    point: &'p Point,
}

impl<W: Write> Sink for JsonLines<W> {
    fn point(&mut self, series: &SeriesInfo, point: &Point) -> io::Result<()> {
        let line = Line {
            key: &series.key,
            unit: &series.unit,
            direction: direction_word(series.direction),
            kind: kind_word(series.kind),
            time: moment(point.timestamp).map(|time| time.to_string()),
            point,
        };
        serde_json::to_writer(&mut self.out, &line)?;
        self.out.write_all(b"\n")
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
