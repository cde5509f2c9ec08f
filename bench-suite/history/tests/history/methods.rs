//! Series that are the same in everything but their method.

use std::{collections::BTreeMap, path::Path};

use history::{Aggregate, History, PointFilter, Series, SeriesFilter, join, told_apart};
use record::{MethodKey, Sample, Sampled, SessionFolder};

use crate::support::{add, folder, record, session, throughput};

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
    let history = History::at(home.join("history")).unwrap();
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

fn series(history: &History) -> Vec<Series> {
    let filter = SeriesFilter {
        metric: Some("throughput*".into()),
        ..SeriesFilter::default()
    };
    let contents = history.read(&filter);
    let mut found = contents.series(&PointFilter::default(), Aggregate::Session);
    found.sort_by(|a, b| a.points[0].timestamp.total_cmp(&b.points[0].timestamp));
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
    let infos: Vec<_> = found.iter().map(|one| &one.info).collect();
    assert_eq!(
        infos.iter().map(|info| info.points).collect::<Vec<_>>(),
        [2, 2]
    );
    assert_ne!(infos[0].key.method, infos[1].key.method);
    assert_eq!(infos[0].key.without_method(), throughput().without_method());
    let expect = ["8.0 GiB", "16.0 GiB"].map(|memory| settings(&[("limits.memory", memory)]));
    assert_eq!(told_apart(&infos), expect);
    assert_eq!(
        told_apart(&infos[..1]),
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
        let mut points: Vec<u64> = joined.iter().map(|one| one.info.points).collect();
        points.sort_unstable();
        points
    };
    assert_eq!(joined(&[]), [1, 2, 2]);
    assert_eq!(joined(&["method.limits.cpus"]), [1, 2, 2]);
    assert_eq!(joined(&["method.limits.memory"]), [1, 4]);
    assert_eq!(joined(&["method.seed"]), [2, 3]);
    assert_eq!(joined(&["method.seed", "method.limits"]), [5]);
    assert_eq!(joined(&["method"]), [5]);

    let (first, second) = (&found[0].info, &found[1].info);
    let one = join(found[..2].to_vec(), &keys(&["method.limits"])).remove(0);
    assert_eq!(one.info.key, second.key, "the newest goes on");
    assert_eq!(
        (one.info.oldest, one.info.newest),
        (first.oldest, second.newest)
    );
    assert_eq!(one.info.joined[0].method, first.key.method);
    let values: Vec<f64> = one.points.iter().map(|point| point.value).collect();
    assert_eq!(values, [100.0, 101.0, 102.0, 103.0]);
    let changes: Vec<_> = one.points[1].changes_to(&one.points[2]).collect();
    assert_eq!(changes, [("method.limits.memory", "8.0 GiB", "16.0 GiB")]);
    assert_eq!(one.points[0].changes_to(&one.points[1]).count(), 0);
}

#[test]
fn a_night_on_which_others_were_busy_is_told_from_quiet_ones() {
    let home = tempfile::tempdir().unwrap();
    let history = History::at(home.path().join("history")).unwrap();
    for (day, others) in [(0, 0.3), (1, 14.0), (2, 13.0)] {
        let session = session(&format!("night-{day}"), day);
        let mut runs = [0, 1].map(|run| record(&session, run, 100.0));
        for (run, used) in runs.iter_mut().zip([0.2, others]) {
            let used = record::Series::of(&[Sample(0.0, used)]).unwrap();
            run.monitor.series = [(Sampled::OtherCores, used)].into();
        }
        add(&history, &folder(home.path(), &session, &runs));
    }
    let points = &series(&history)[0].points;
    let changes =
        |place: usize| -> Vec<_> { points[place].changes_to(&points[place + 1]).collect() };
    assert!(changes(0).contains(&("load", "low", "high")), "{points:?}");
    assert!(changes(1).iter().all(|change| change.0 != "load"));
}
