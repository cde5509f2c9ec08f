//! A history that Torchgauge c557406 wrote: `c557406/` has the file, and the two sessions and the
//! CSV that went into it. `gpu` was labelled and made a baseline.

use std::{fs, path::Path};

use history::{Aggregate, History, Labels, PointFilter, SeriesFilter, SeriesInfo, SeriesKey};
use record::SessionFolder;

use crate::support::everything;

const RELEASED: &str = "20261121-132817-xxah";

/// A copy that may be changed.
fn copied(home: &Path) -> std::path::PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c557406");
    for folder in ["gpu", "cpu"] {
        fs::create_dir(home.join(folder)).unwrap();
        for file in ["session.json", "records.ndjson"] {
            let file = Path::new(folder).join(file);
            fs::copy(from.join(&file), home.join(&file)).unwrap();
        }
    }
    fs::copy(from.join("h.sqlite"), home.join("h.sqlite")).unwrap();
    home.join("h.sqlite")
}

#[test]
fn an_old_history_is_read() {
    let home = tempfile::tempdir().unwrap();
    let history = History::open_existing(copied(home.path())).unwrap();
    let released = history.baseline("release").unwrap();
    assert_eq!(released.session, RELEASED);
    assert_eq!(
        (released.branch.as_deref(), released.revision.as_deref()),
        (Some("main"), Some("v1.4"))
    );
    assert_eq!((released.runs, released.points), (1, 33));
    let series = history.series(&SeriesFilter::default()).unwrap();
    assert_eq!(series.len(), 55);
    // Metrics that have another name since.
    for metric in [
        "run_gpu_mean_power_watts",
        "cpu_seconds",
        "former_activation_bytes",
    ] {
        assert!(
            series.iter().any(|info| info.key.metric == metric),
            "{metric}"
        );
    }
    let throughput = series
        .iter()
        .filter(|info| info.key.device.starts_with("NVIDIA"))
        .find(|info| info.key.metric == "throughput_samples_per_second")
        .unwrap();
    let points = history
        .points(&throughput.key, &PointFilter::default(), Aggregate::Session)
        .unwrap();
    assert_eq!(points[0].threshold, Some(0.03));
    assert_eq!(
        points[0].attributes["gpu"],
        "GPU-cbee9889-70ac-5cf6-cf8a-272cebd45b32"
    );
    let imported = SeriesKey::imported("startup / cold");
    let points = history
        .points(&imported, &PointFilter::default(), Aggregate::Run)
        .unwrap();
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    assert_eq!(values, [1.5, 1.25, 1.25, 1.5]);
}

/// What was in the database alone is in files now, and nothing else is lost.
#[test]
fn an_old_history_can_be_made_again() {
    let home = tempfile::tempdir().unwrap();
    let path = copied(home.path());
    let old = everything(&History::open(&path).unwrap()).unwrap();
    fs::write(&path, "no database any more").unwrap();
    let rebuilt = History::rebuild(&path, &[home.path().to_owned()], false).unwrap();
    assert_eq!((rebuilt.sessions, rebuilt.imports), (2, 1));
    let history = History::open(&path).unwrap();
    let new = everything(&history).unwrap();
    for (mut session, new) in old.0.into_iter().zip(new.0) {
        // More metrics are followed than then.
        session.points = new.points;
        assert_eq!(session, new);
    }
    for (info, points) in old.1 {
        if info.key.metric.starts_with("former_") {
            continue;
        }
        // The old history knew nothing of methods; now there is what the sessions tell of them.
        let is_same = |new: &&(SeriesInfo, _)| {
            let new = SeriesInfo {
                key: new.0.key.without_method(),
                settings: None,
                ..new.0.clone()
            };
            new == info
        };
        let (_, new) = new.1.iter().find(is_same).unwrap();
        for (mut old, new) in points.into_iter().zip(new) {
            // Some attributes stand in the folders alone.
            let known = old.attributes.iter();
            assert!(
                known
                    .into_iter()
                    .all(|(name, value)| new.attributes[name] == *value)
            );
            old.attributes = new.attributes.clone();
            assert_eq!(old, *new);
        }
    }
    assert_eq!(history.baseline("release").unwrap().session, RELEASED);
    let labels = |folder: &str| {
        let folder = SessionFolder::at(home.path().join(folder));
        folder.read_session().unwrap().labels
    };
    let expect = Labels {
        branch: Some("main".into()),
        revision: Some("v1.4".into()),
        ..Labels::default()
    };
    assert_eq!(labels("gpu"), expect);
    assert_eq!(labels("cpu"), Labels::default());
}

/// Of version 4, in which image and driver were parts of a series.
#[test]
fn series_of_version_4_go_on_through_upgrades() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("h.sqlite");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../schema-4.sql")).unwrap();
    drop(old);
    let history = History::open(&path).unwrap();
    history.check().unwrap();
    let series = history.series(&SeriesFilter::default()).unwrap();
    let told: Vec<_> = series
        .iter()
        .map(|info| (&*info.key.track, info.points))
        .collect();
    let expect = [
        ("torch-2.11.0-cu130", 1),
        ("torch-2.9.1-cu128", 1),
        ("torch-cu", 3),
        ("", 2),
    ];
    assert_eq!(told, expect);
    let read = |key| {
        history
            .points(key, &PointFilter::default(), Aggregate::Session)
            .unwrap()
    };
    let points = read(&series[2].key);
    let of = |name: &str| -> Vec<_> {
        points
            .iter()
            .map(|point| &*point.attributes[name])
            .collect()
    };
    assert_eq!(of("driver"), ["570.86", "580.12", "580.12"]);
    assert_eq!(
        of("image"),
        [
            "torch-2.9.1-cu128",
            "torch-2.9.1-cu128",
            "torch-2.11.0-cu130"
        ]
    );
    assert_eq!(points[0].attributes["gpu"], "GPU-1");
    assert_eq!(points[2].attributes.get("gpu"), None);
    assert_eq!(points[2].attributes["image_id"], "sha256:c");
    assert_eq!(points[0].threshold, Some(0.02));
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    assert_eq!(values, [100.0, 99.0, 98.0]);
    let imported: Vec<f64> = read(&series[3].key)
        .iter()
        .map(|point| point.value)
        .collect();
    assert_eq!(imported, [1.5, 1.25]);
    assert_eq!(history.baseline("release").unwrap().session, "a");
    assert_eq!(history.session("d").unwrap().images.len(), 2);
}
