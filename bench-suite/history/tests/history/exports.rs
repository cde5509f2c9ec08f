//! Exports, read back by other readers.

use std::{fs, path::Path};

use crate::support::{add, everything, folder, plain, record, session, with_threshold};
use history::{
    Aggregate, Format, History, HistoryError, ImportedSeries, Labels, Selection, SeriesFilter,
    SeriesInfo,
};
use judge::{
    compare::{Direction, Kind},
    trend,
};

/// Names that a spreadsheet, a CSV reader or a terminal would stumble over.
const HOSTILE: &str = "=HYPERLINK(\"http://x\",\"a\"),\n';--µ\u{1b}[2J";

fn filled(home: &Path) -> History {
    let history = History::open(home.join("h.sqlite")).unwrap();
    for (day, name) in [(0, "a"), (1, "b")] {
        add(&history, &plain(home, name, day, 100.0));
    }
    let suites_own = with_threshold(session("m", 1), 0.05);
    let run = record(&suites_own, 0, 100.0);
    add(&history, &folder(home, &suites_own, &[run]));
    let session = session("c", 2);
    let mut hostile = record(&session, 0, 50.5);
    hostile.image = HOSTILE.into();
    hostile.suite = HOSTILE.into();
    hostile.scenario = "-1+1|cmd".into();
    let folder = folder(home, &session, &[hostile]);
    history
        .add(
            &folder,
            &Labels {
                revision: Some("@SUM(1)".into()),
                ..Labels::default()
            },
        )
        .unwrap();
    let series = ImportedSeries {
        name: "far".into(),
        unit: String::new(),
        direction: Direction::LowerIsBetter,
        kind: Kind::MemoryLike,
        threshold: None,
    };
    let point = trend::Point {
        timestamp: 1e300,
        revision: "z".into(),
        value: -0.25,
    };
    history.import(&series, &[point], false).unwrap();
    history
}

/// What every format must hold: one line a point.
fn expected(history: &History) -> Vec<(SeriesInfo, history::Point)> {
    let (_, series) = everything(history).unwrap();
    series
        .into_iter()
        .flat_map(|(info, points)| points.into_iter().map(move |point| (info.clone(), point)))
        .collect()
}

fn runs() -> Selection {
    Selection {
        aggregate: Aggregate::Run,
        ..Selection::default()
    }
}

fn export(history: &History, format: Format, selection: &Selection) -> Vec<u8> {
    let mut out = Vec::new();
    history.export(format, selection, &mut out).unwrap();
    out
}

#[test]
fn json_lines_hold_every_point() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let text = String::from_utf8(export(&history, Format::JsonLines, &runs())).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expect = expected(&history);
    assert_eq!(lines.len(), expect.len());
    assert!(lines.iter().any(|line| line["threshold"] == 0.05));
    assert!(
        lines
            .iter()
            .any(|line| line["attributes"]["gpu"] == "GPU-0")
    );
    for (line, (info, point)) in lines.iter().zip(&expect) {
        for (name, part) in info.key.parts() {
            assert_eq!(line[name], part);
        }
        assert_eq!(line["unit"], *info.unit);
        assert_eq!(
            line["direction"],
            serde_json::to_value(info.direction).unwrap()
        );
        assert_eq!(line["kind"], serde_json::to_value(info.kind).unwrap());
        assert_eq!(line["value"], point.value);
        assert_eq!(line["timestamp"], point.timestamp);
        assert_eq!(line["revision"], *point.revision);
        assert_eq!(
            line["session"],
            serde_json::to_value(&point.session).unwrap()
        );
        assert_eq!(line["run"], serde_json::to_value(&point.run).unwrap());
        assert_eq!(line["block"], serde_json::to_value(point.block).unwrap());
        assert_eq!(
            line["threshold"],
            serde_json::to_value(point.threshold).unwrap()
        );
        assert_eq!(
            line["attributes"],
            serde_json::to_value(&point.attributes).unwrap()
        );
    }
    let times: Vec<_> = lines
        .iter()
        .filter_map(|line| line["time"].as_str())
        .collect();
    assert!(times.contains(&"2026-01-02T00:02:00Z"), "{times:?}");
    // What lies beyond the calendar has no time, but its timestamp.
    assert_eq!(times.len(), lines.len() - 1);
}

#[test]
fn csv_holds_every_point_and_no_formula() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let bytes = export(&history, Format::Csv, &runs());
    let mut reader = csv::Reader::from_reader(&*bytes);
    let header = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let expect = expected(&history);
    assert_eq!(rows.len(), expect.len());
    for (row, (info, point)) in rows.iter().zip(&expect) {
        let field = |name: &str| &row[header.iter().position(|column| column == name).unwrap()];
        for (name, part) in info.key.parts() {
            assert_eq!(field(name).strip_prefix('\'').unwrap_or(field(name)), part);
        }
        assert_eq!(
            field("value").parse::<f64>().unwrap().to_bits(),
            point.value.to_bits()
        );
        assert_eq!(
            field("timestamp").parse::<f64>().unwrap().to_bits(),
            point.timestamp.to_bits()
        );
        assert_eq!(
            field("session"),
            point.session.as_deref().unwrap_or_default()
        );
        assert_eq!(
            field("block"),
            point.block.map(|b| b.to_string()).unwrap_or_default()
        );
        assert_eq!(field("threshold").parse().ok(), point.threshold);
        for (name, value) in &point.attributes {
            assert_eq!(field(name).strip_prefix('\'').unwrap_or(field(name)), value);
        }
        for (name, text) in header.iter().zip(row) {
            let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
            assert!(
                !formula || ["value", "timestamp"].contains(&name),
                "{name} is {text}"
            );
        }
    }
}

#[test]
fn an_empty_selection_is_an_empty_file() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let nothing = Selection {
        series: SeriesFilter {
            metric: Some("gone".into()),
            ..SeriesFilter::default()
        },
        ..Selection::default()
    };
    let csv = String::from_utf8(export(&history, Format::Csv, &nothing)).unwrap();
    assert_eq!(csv.lines().count(), 1);
    assert!(export(&history, Format::JsonLines, &nothing).is_empty());
}

/// A disk that is full after so many bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_export_is_whole_or_not_there() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let path = home.path().join("points.csv");
    fs::write(&path, "mine").unwrap();
    let error = history.export_to(&path, Format::Csv, &runs()).unwrap_err();
    assert!(matches!(error, HistoryError::Exists { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let nowhere = home.path().join("no").join("points.csv");
    let error = history
        .export_to(&nowhere, Format::Csv, &runs())
        .unwrap_err();
    assert!(matches!(error, HistoryError::Write { .. }), "{error}");

    for format in [Format::Csv, Format::JsonLines] {
        for room in [0, 1000] {
            let error = history.export(format, &runs(), Full(room)).unwrap_err();
            assert!(matches!(error, HistoryError::Export { .. }), "{error}");
        }
    }
}
