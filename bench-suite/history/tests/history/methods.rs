//! Series that are the same in everything but their method.

use std::{collections::BTreeMap, path::Path};

use history::{
    Aggregate, Format, History, PointFilter, Selection, SeriesFilter, SeriesInfo, join, told_apart,
};
use record::{Method, MethodKey, SessionFolder};

use crate::support::{add, folder, record, session, throughput, with_threshold};

/// One run under this limit of memory, with this seed.
fn measured(home: &Path, day: i64, memory: &str, seed: u32) -> SessionFolder {
    let session = session(&format!("night-{day}"), day);
    let mut run = record(&session, 0, 100.0 + day as f64);
    run.method.set("limits.memory", memory);
    run.method.set("limits.cpus", 4);
    run.method.set("seed", seed);
    folder(home, &session, &[run])
}

/// Two nights under 8 GiB, two under 16 GiB.
fn filled(home: &Path) -> History {
    let history = History::open(home.join("history.sqlite")).unwrap();
    for (day, memory) in [
        (0, "8.0 GiB"),
        (1, "8.0 GiB"),
        (2, "16.0 GiB"),
        (3, "16.0 GiB"),
    ] {
        add(&history, &measured(home, day, memory, 1));
    }
    history
}

fn series(history: &History) -> Vec<SeriesInfo> {
    let filter = SeriesFilter {
        metric: Some("throughput*".into()),
        ..SeriesFilter::default()
    };
    let mut found = history.series(&filter).unwrap();
    found.sort_by(|a, b| a.oldest.unwrap().total_cmp(&b.oldest.unwrap()));
    found
}

fn keys(keys: &[&str]) -> Vec<MethodKey> {
    keys.iter().map(|key| key.parse().unwrap()).collect()
}

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn another_method_is_another_series_and_says_what_differs() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let found = series(&history);
    assert_eq!(
        found.iter().map(|info| info.points).collect::<Vec<_>>(),
        [2, 2]
    );
    assert_ne!(found[0].key.method, found[1].key.method);
    assert_eq!(found[0].key.without_method(), throughput().without_method());
    let expect = ["8.0 GiB", "16.0 GiB"].map(|memory| settings(&[("limits.memory", memory)]));
    assert_eq!(told_apart(&found), expect);
    assert_eq!(
        told_apart(&found[..1]),
        [settings(&[])],
        "it has no sibling"
    );
}

#[test]
fn what_is_ignored_joins_series_and_nothing_else_does() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let other_seed = measured(home.path(), 4, "16.0 GiB", 2);
    add(&history, &other_seed);
    let found = series(&history);
    let joined = |ignore: &[&str]| {
        let joined = join(found.clone(), &keys(ignore));
        let mut points: Vec<u64> = joined.iter().map(|info| info.points).collect();
        points.sort_unstable();
        points
    };
    assert_eq!(joined(&[]), [1, 2, 2]);
    assert_eq!(joined(&["method.limits.cpus"]), [1, 2, 2]);
    assert_eq!(joined(&["method.limits.memory"]), [1, 4]);
    assert_eq!(joined(&["method.seed"]), [2, 3]);
    assert_eq!(joined(&["method.seed", "method.limits"]), [5]);
    assert_eq!(joined(&["method"]), [5]);

    let one = join(found[..2].to_vec(), &keys(&["method.limits"])).remove(0);
    assert_eq!(one.key, found[1].key, "the newest goes on");
    assert_eq!((one.oldest, one.newest), (found[0].oldest, found[1].newest));
    assert_eq!(one.joined[0].method, found[0].key.method);
    let read = |aggregate| {
        let points = history.points_of(&one, &PointFilter::default(), aggregate);
        points.unwrap()
    };
    let points = read(Aggregate::Session);
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    assert_eq!(values, [100.0, 101.0, 102.0, 103.0]);
    let changes: Vec<_> = points[1].changes_to(&points[2]).collect();
    assert_eq!(changes, [("method.limits.memory", "8.0 GiB", "16.0 GiB")]);
    assert_eq!(points[0].changes_to(&points[1]).count(), 0);

    let selection = Selection {
        ignore: keys(&["method.limits.memory"]),
        series: SeriesFilter {
            metric: Some("throughput*".into()),
            ..SeriesFilter::default()
        },
        ..Selection::default()
    };
    let mut out = Vec::new();
    let done = history
        .export(Format::JsonLines, &selection, &mut out)
        .unwrap();
    assert_eq!((done.series, done.points), (2, 5));
}

/// Of version 5, which kept the fingerprints alone.
#[test]
fn methods_of_an_older_history_are_read_again() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    let path = history.path().to_owned();
    let new = series(&history);
    drop(history);
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch("DROP TABLE methods; PRAGMA user_version = 5;")
        .unwrap();
    drop(old);

    let history = History::open(&path).unwrap();
    let found = series(&history);
    assert!(found.iter().all(|info| info.settings.is_none()));
    let expect = [&new[0], &new[1]].map(|info| settings(&[("", &info.key.method)]));
    assert_eq!(told_apart(&found), expect);
    let joined = |ignore| join(found.clone(), &keys(&[ignore])).len();
    assert_eq!((joined("method.limits"), joined("method")), (2, 1));
    let whole = join(found.clone(), &keys(&["method"])).remove(0);
    let points = history.points_of(&whole, &PointFilter::default(), Aggregate::Session);
    let points = points.unwrap();
    let changes: Vec<_> = points[1].changes_to(&points[2]).collect();
    assert_eq!(
        changes,
        [("method", &*new[0].key.method, &*new[1].key.method)]
    );

    // A session that is added again tells its own, a rebuild those of all.
    let again = SessionFolder::at(home.path().join("night-3"));
    assert!(!add(&history, &again).unchanged);
    assert!(add(&history, &again).unchanged);
    let known = |history: &History| -> Vec<bool> {
        let found = series(history).into_iter();
        found.map(|info| info.settings.is_some()).collect()
    };
    assert_eq!(known(&history), [false, true]);
    History::rebuild(&path, &[], false).unwrap();
    assert_eq!(series(&history), new);
}

/// A night of before version 3: its record says nothing of the method, its plan has the seed.
fn old_night(home: &Path, day: i64, seed: u32) -> SessionFolder {
    let mut session = with_threshold(session(&format!("night-{day}"), day), 0.02);
    session.cells[0].seed = seed.into();
    let mut run = record(&session, 0, 100.0 + day as f64);
    run.method = Method::default();
    folder(home, &session, &[run])
}

fn points(history: &History) -> Vec<u64> {
    series(history).iter().map(|info| info.points).collect()
}

/// As `compare` and `claims` see them.
#[test]
fn old_sessions_of_another_seed_are_another_series() {
    let home = tempfile::tempdir().unwrap();
    let history = History::open(home.path().join("history.sqlite")).unwrap();
    for (day, seed) in [(0, 1), (1, 2), (2, 2)] {
        add(&history, &old_night(home.path(), day, seed));
    }
    let found = series(&history);
    assert_eq!(points(&history), [1, 2]);
    let expect = ["1", "2"].map(|seed| settings(&[("seed", seed)]));
    assert_eq!(told_apart(&found), expect);

    // The first session that tells its whole method goes on with the one that it does not contradict.
    let new = measured(home.path(), 3, "8.0 GiB", 2);
    add(&history, &new);
    assert_eq!(points(&history), [1, 3]);
    // A session that is added again stays where it went.
    let again = SessionFolder::at(home.path().join("night-1"));
    assert!(add(&history, &again).unchanged);
    assert_eq!(points(&history), [1, 3]);
    history.check().unwrap();
}

/// An older Torchgauge kept old sessions in one series, whatever they were measured by.
#[test]
fn old_series_stay_until_the_history_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("history.sqlite");
    let history = History::open(&path).unwrap();
    add(&history, &old_night(home.path(), 0, 1));
    add(&history, &old_night(home.path(), 1, 1));
    drop(history);
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch("UPDATE cells SET method = ''; DELETE FROM methods;")
        .unwrap();
    drop(old);

    let history = History::open(&path).unwrap();
    let again = SessionFolder::at(home.path().join("night-1"));
    assert!(add(&history, &again).unchanged);
    assert_eq!(series(&history)[0].key.method, "");
    // Its series goes on with the first session that tells its method, and it still is of it.
    add(&history, &measured(home.path(), 2, "8.0 GiB", 1));
    assert!(add(&history, &again).unchanged);
    assert_eq!(points(&history), [3]);
    drop(history);
    History::rebuild(&path, &[], false).unwrap();
    let history = History::open(&path).unwrap();
    assert_eq!(points(&history), [3], "nothing contradicts it");
    assert!(add(&history, &again).unchanged);
}

#[test]
fn a_removed_session_takes_its_method_along() {
    let home = tempfile::tempdir().unwrap();
    let history = filled(home.path());
    for name in ["night-0", "night-1"] {
        history.remove(name).unwrap();
    }
    let database = rusqlite::Connection::open(history.path()).unwrap();
    let count = database.query_row("SELECT count(*) FROM methods", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(count.unwrap(), 1);
    assert_eq!(told_apart(&series(&history)), [settings(&[])]);
}
