//! Exports, read back by other readers.

use std::{fs, path::Path};

use crate::support::{add, everything, folder, plain, record, session, with_threshold};
use history::{History, HistoryError, Labels, Series, SeriesInfo, export_to};

/// Names that a spreadsheet, a CSV reader or a terminal would stumble over.
const HOSTILE: &str = "=HYPERLINK(\"http://x\",\"a\"),\n';--µ\u{1b}[2J";

fn filled(home: &Path) -> History {
    let history = History::at(home.join("history")).unwrap();
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
    history
}

/// What an export must hold: one line a point.
fn expected(history: &History) -> Vec<(SeriesInfo, history::Point)> {
    let of = |Series { info, points }| points.into_iter().map(move |point| (info.clone(), point));
    runs(history).into_iter().flat_map(of).collect()
}

fn runs(history: &History) -> Vec<Series> {
    everything(history).1
}

fn export(series: &[Series]) -> Vec<u8> {
    history::export(series).collect::<String>().into_bytes()
}

#[test]
fn csv_holds_every_point_and_no_formula() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let bytes = export(&runs(&history));
    let mut reader = csv::Reader::from_reader(&*bytes);
    let header = reader.headers().unwrap().clone();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    let expect = expected(&history);
    assert_eq!(rows.len(), expect.len());
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let times = rows.iter().map(|row| &row[column("time")]);
    let times: Vec<&str> = times.filter(|time| !time.is_empty()).collect();
    assert!(times.contains(&"2026-01-02T00:02:00Z"), "{times:?}");
    assert_eq!(times.len(), rows.len());
    for (row, (info, point)) in rows.iter().zip(&expect) {
        let field = |name: &str| &row[column(name)];
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
        assert_eq!(field("session"), point.origin.session);
        assert_eq!(
            field("block"),
            point.block.map(|b| b.to_string()).unwrap_or_default()
        );
        assert_eq!(field("threshold").parse().ok(), point.threshold);
        for (name, value) in &*point.origin.attributes {
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
    let csv = String::from_utf8(export(&[])).unwrap();
    assert_eq!(csv.lines().count(), 1);
}

#[test]
fn an_export_is_whole_or_not_there() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let path = home.path().join("points.csv");
    fs::write(&path, "mine").unwrap();
    let runs = runs(&history);
    let error = export_to(&path, &runs).unwrap_err();
    assert!(error.to_string().contains("is there already"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let nowhere = home.path().join("no").join("points.csv");
    let error = export_to(&nowhere, &runs).unwrap_err();
    assert!(matches!(error, HistoryError::Write { .. }), "{error}");
    let whole = home.path().join("whole.csv");
    export_to(&whole, &runs).unwrap();
    assert_eq!(fs::read(&whole).unwrap(), export(&runs));
}
