//! Series that were measured elsewhere.

use std::{fs, path::Path};

use history::{Aggregate, History, HistoryError, ImportedSeries, PointFilter, SeriesKey};
use judge::{
    compare::{Direction, Kind},
    trend,
};
use proptest::prelude::*;

use crate::support::{everything, points_of};

fn series(name: &str) -> ImportedSeries {
    ImportedSeries {
        name: name.into(),
        unit: "ops/s".into(),
        direction: Direction::HigherIsBetter,
        kind: Kind::TimeLike,
        threshold: None,
    }
}

fn point(timestamp: f64, revision: &str, value: f64) -> trend::Point {
    trend::Point {
        timestamp,
        revision: revision.into(),
        value,
    }
}

fn import_csv(
    history: &History,
    name: &str,
    csv: &Path,
) -> Result<history::Imported, HistoryError> {
    history.import(&series(name), &history::read_csv(csv)?.points)
}

fn read(history: &History, name: &str) -> Vec<trend::Point> {
    let key = SeriesKey::imported(name);
    let points = points_of(history, &key, &PointFilter::default(), Aggregate::Session);
    points.into_iter().map(trend::Point::from).collect()
}

#[test]
fn a_csv_comes_in_once_and_goes_out_as_it_came() {
    let home = tempfile::tempdir().unwrap();
    let history = History::at(home.path().join("history")).unwrap();
    let csv = home.path().join("series.csv");
    let text =
        "timestamp,revision,value\n1.5,a,10\n2,b,11.25\n2,c,9\n2,c,9\n3,\"d,\"\"e\"\"\",-1\n";
    fs::write(&csv, text).unwrap();
    let imported = import_csv(&history, "rocks", &csv).unwrap();
    assert_eq!((imported.added, imported.known), (5, 0));
    let imported = import_csv(&history, "rocks", &csv).unwrap();
    assert_eq!((imported.added, imported.known), (0, 5));
    fs::write(&csv, format!("{text}4,f,12\n2,c,9\n")).unwrap();
    let imported = import_csv(&history, "rocks", &csv).unwrap();
    assert_eq!((imported.added, imported.known), (2, 5));

    let expect = [(1.5, "a", 10.0), (2.0, "b", 11.25)]
        .into_iter()
        .chain([(2.0, "c", 9.0); 3])
        .chain([(3.0, "d,\"e\"", -1.0), (4.0, "f", 12.0)]);
    // Points that come later are read in order of time.
    let expect: Vec<_> = expect
        .map(|(time, revision, value)| point(time, revision, value))
        .collect();
    assert_eq!(read(&history, "rocks"), expect);
}

#[test]
fn what_cannot_be_imported_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let history = History::at(home.path().join("history")).unwrap();
    let csv = home.path().join("series.csv");
    fs::write(&csv, "timestamp,revision,value\n1,a,2\n2,b,NaN\n").unwrap();
    let error = import_csv(&history, "x", &csv).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("series.csv: line 3: the value is \"NaN\""),
        "{error}"
    );
    let points = [point(1.0, "a", 1.0)];
    let error = history.import(&series(""), &points).unwrap_err();
    assert!(error.to_string().contains("cannot be used"), "{error}");
    assert!(everything(&history).1.is_empty());

    history.import(&series("x"), &points).unwrap();
    let other = ImportedSeries {
        direction: Direction::LowerIsBetter,
        ..series("x")
    };
    let error = history.import(&other, &points).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("with direction \"higher-is-better\""),
        "{error}"
    );
    assert_eq!(read(&history, "x"), points);
}

#[test]
fn a_corrected_file_is_refused_until_the_old_values_are_gone() {
    let home = tempfile::tempdir().unwrap();
    let history = History::at(home.path().join("history")).unwrap();
    let csv = home.path().join("series.csv");
    fs::write(
        &csv,
        "timestamp,revision,value\n1,a,10\n2,b,20\n2,b,21\n3,c,30\n",
    )
    .unwrap();
    import_csv(&history, "x", &csv).unwrap();
    let before = read(&history, "x");
    fs::write(
        &csv,
        "timestamp,revision,value\n1,a,11\n2,b,20\n2,b,22\n4,d,40\n",
    )
    .unwrap();
    let error = import_csv(&history, "x", &csv).unwrap_err();
    let told = error.to_string();
    assert!(
        told.starts_with("2 points")
            && told.contains("timestamp 1, revision \"a\": there 10, here 11"),
        "{told}"
    );
    assert_eq!(read(&history, "x"), before);

    history.remove_import("x").unwrap();
    let done = import_csv(&history, "x", &csv).unwrap();
    assert_eq!((done.added, done.known), (4, 0));
    let expect = [
        point(1.0, "a", 11.0),
        point(2.0, "b", 20.0),
        point(2.0, "b", 22.0),
        point(4.0, "d", 40.0),
    ];
    assert_eq!(read(&history, "x"), expect);
    let info = &everything(&history).1[0].info;
    assert_eq!((info.points, info.newest), (4, Some(4.0)));
}

#[test]
fn an_import_can_be_taken_out_again() {
    let home = tempfile::tempdir().unwrap();
    let history = History::at(home.path().join("history")).unwrap();
    let points = [point(1.0, "a", 1.0), point(2.0, "b", 2.0)];
    let with_threshold = ImportedSeries {
        threshold: Some(0.02),
        ..series("x")
    };
    for one in [&with_threshold, &series("y")] {
        history.import(one, &points).unwrap();
    }
    let found = || everything(&history).1;
    assert_eq!(found()[0].info.threshold, Some(0.02));
    assert_eq!(history.remove_import("y").unwrap(), 2);
    let error = history.remove_import("y").unwrap_err();
    assert!(
        error.to_string().contains("no imported series y"),
        "{error}"
    );
    assert_eq!(found().len(), 1);
    // The threshold is what the newest import says.
    history.import(&series("x"), &points).unwrap();
    assert_eq!(found()[0].info.threshold, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any points, in any order, in any pieces: each is there once, in order of time.
    #[test]
    fn every_point_is_kept(
        numbers in prop::collection::vec((-1e12_f64..1e12, ".{0,12}", any::<f64>()), 0..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let points: Vec<_> = numbers
            .iter()
            .filter(|(_, _, value)| value.is_finite())
            .map(|(time, revision, value)| point(*time, revision, *value))
            .collect();
        let home = tempfile::tempdir().unwrap();
        let history = History::at(home.path().join("history")).unwrap();
        let first = cut.index(points.len() + 1);
        history.import(&series("x"), &points[..first]).unwrap();
        let imported = history.import(&series("x"), &points).unwrap();
        prop_assert_eq!((imported.known, imported.added), (first, points.len() - first));
        let mut expect = points;
        expect.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
        prop_assert_eq!(read(&history, "x"), expect);
        }
}
