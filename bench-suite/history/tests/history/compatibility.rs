//! A history that Torchgauge c557406 wrote: `c557406/` has the file, and the two sessions and the
//! CSV that went into it. `gpu` was labelled and made a baseline.

use std::{fs, path::Path};

use history::{Aggregate, History, Labels, SeriesFilter, SeriesKey};
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
        .points(&throughput.key, None, Aggregate::Session)
        .unwrap();
    assert_eq!(points[0].threshold, Some(0.03));
    assert_eq!(
        points[0].gpu.as_deref(),
        Some("GPU-cbee9889-70ac-5cf6-cf8a-272cebd45b32")
    );
    let imported = SeriesKey::imported("startup / cold");
    let points = history.points(&imported, None, Aggregate::Run).unwrap();
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    assert_eq!(values, [1.5, 1.25, 1.25, 1.5]);
    let failures = history.failures(&SeriesFilter::default()).unwrap();
    assert_eq!(failures[0].reason, "out-of-memory");
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
    assert_eq!(new.2, old.2);
    for (mut session, new) in old.0.into_iter().zip(new.0) {
        // More metrics are followed than then.
        session.points = new.points;
        assert_eq!(session, new);
    }
    for series in old.1 {
        let former = series.0.key.metric.starts_with("former_");
        assert!(former || new.1.contains(&series), "{series:?}");
    }
    assert_eq!(history.baseline("release").unwrap().session, RELEASED);
    let labels = |folder: &str| {
        let folder = SessionFolder::at(home.path().join(folder));
        folder.read_session().unwrap().labels
    };
    let expect = Labels {
        branch: Some("main".into()),
        revision: Some("v1.4".into()),
    };
    assert_eq!(labels("gpu"), expect);
    assert_eq!(labels("cpu"), Labels::default());
}
