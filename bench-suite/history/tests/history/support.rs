//! Sessions to add, as a bench would have written them.

use std::{collections::BTreeMap, path::Path};

use history::{
    Aggregate, History, HistoryError, Labels, Point, PointFilter, Series, SeriesFilter, SeriesKey,
    SessionFilter, SessionInfo,
};
use jiff::{SignedDuration, Timestamp};
use protocol::{CudaFacts, Device, Phase, Started, Steps, Variant};
use record::{
    CellPlan, Cpu, Gpu, Isolation, Machine, Method, Outcome, Reason, Record, Session,
    SessionFolder, Stage, Tool, VERSION, Workload,
};

/// Points of one good run of [`record`].
pub(crate) const POINTS: usize = 14;

pub(crate) fn session(name: &str, day: i64) -> Session {
    Session {
        version: VERSION,
        session: name.into(),
        started_at: at(day, 0),
        ended_at: Some(at(day, 3600)),
        complete: true,
        tool: Tool {
            version: "0.1.0".into(),
            revision: Some(format!("commit-{day}")),
            command: vec!["bench".into()],
        },
        hosts: [(
            "gpu-1".into(),
            Machine {
                name: "gpu-1".into(),
                driver_version: Some("580.159".into()),
                cpu: Cpu {
                    model: "EPYC".into(),
                    logical_cores: 16,
                    governor: None,
                },
                gpus: vec![Gpu {
                    index: 0,
                    name: "NVIDIA H200".into(),
                    uuid: "GPU-0".into(),
                    ..Gpu::default()
                }],
                ..Machine::default()
            },
        )]
        .into(),
        device: Device::Cuda(0),
        blocks: 3,
        order_seed: 1,
        ..Session::default()
    }
}

/// The session with this noise threshold for the throughput of its one cell.
pub(crate) fn with_threshold(session: Session, threshold: f64) -> Session {
    let of_cell = record(&session, 0, 1.0);
    Session {
        cells: vec![CellPlan {
            image: of_cell.image,
            suite: of_cell.suite,
            scenario: of_cell.scenario,
            workload: of_cell.workload,
            axes: of_cell.axes,
            steps: Steps::new(1, 1),
            ranks: 1,
            seed: 1,
            expected: None,
            thresholds: BTreeMap::from([(throughput().metric, threshold)]),
        }],
        ..session
    }
}

pub(crate) fn record(session: &Session, run: usize, throughput: f64) -> Record {
    let second = i64::try_from(run).unwrap() * 60;
    Record {
        version: VERSION,
        run: format!("r-{run:04}"),
        session: session.session.clone(),
        image: "torch-2.11".into(),
        image_id: Some("sha256:abc".into()),
        suite: "smoke".into(),
        scenario: "resnet50".into(),
        workload: Workload::builtin("resnet50", "training"),
        axes: Variant::default().axes(),
        device: session.device,
        block: u32::try_from(run).unwrap(),
        order: u32::try_from(run).unwrap(),
        attempt: 1,
        started_at: session.started_at + SignedDuration::from_secs(second),
        wall_seconds: 30.0,
        method: method(),
        isolation: Isolation::without("process", &[]),
        started: Some(Started {
            cuda: Some(CudaFacts {
                uuid: "GPU-0".into(),
                ..CudaFacts::default()
            }),
            ..Started::default()
        }),
        values: [
            ("throughput_samples_per_second", throughput),
            ("samples_count", 640.0),
            ("measured_seconds", 640.0 / throughput),
            ("step_median_seconds", 64.0 / throughput),
            ("step_mean_seconds", 64.0 / throughput),
            ("step_p90_seconds", 64.0 / throughput),
            ("step_p99_seconds", 64.0 / throughput),
            ("peak_allocated_bytes", 6_014_000_000.0),
            ("peak_reserved_bytes", 6_700_000_000.0),
            ("run_host_peak_resident_bytes", 1_400_000_000.0),
            ("run_cpu_seconds", 25.5),
            ("model_build_seconds", 0.6),
            ("warmup_seconds", 4.5),
            ("process_start_seconds", 0.4),
            ("wall_seconds", 30.0),
            ("harness_seconds", 0.2),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        ..Record::default()
    }
}

pub(crate) fn failed(record: Record) -> Record {
    Record {
        outcome: Outcome::failed(
            Reason::OutOfMemory,
            Stage::Workload(Phase::Warmup),
            "tried to allocate 2 GiB",
        ),
        ..record
    }
}

/// Midnight of a day from 2026-01-01 on, and so many seconds.
pub(crate) fn at(day: i64, second: i64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(day * 86_400 + second)
}

/// Writes a session's folder under `home`.
pub(crate) fn folder(home: &Path, session: &Session, records: &[Record]) -> SessionFolder {
    let folder = SessionFolder::at(home.join(&session.session));
    folder.create().unwrap();
    folder.write_session(session).unwrap();
    let lines: String = records
        .iter()
        .map(|record| serde_json::to_string(record).unwrap() + "\n")
        .collect();
    std::fs::write(folder.path().join(SessionFolder::RECORDS), lines).unwrap();
    folder
}

/// A session of three good runs around a throughput.
pub(crate) fn plain(home: &Path, name: &str, day: i64, throughput: f64) -> SessionFolder {
    let session = session(name, day);
    let records: Vec<_> = [0.99, 1.0, 1.05]
        .iter()
        .enumerate()
        .map(|(run, share)| record(&session, run, throughput * share))
        .collect();
    folder(home, &session, &records)
}

pub(crate) fn add(history: &History, folder: &SessionFolder) -> history::Added {
    history.add(folder, &Labels::default()).unwrap()
}

/// How every run here is measured.
fn method() -> Method {
    let mut method = Method::default();
    method.set("limits.ipc", "private");
    method
}

pub(crate) fn throughput() -> SeriesKey {
    SeriesKey {
        machine: "gpu-1".into(),
        device: "NVIDIA H200".into(),
        track: "torch".into(),
        suite: "smoke".into(),
        scenario: "resnet50".into(),
        variant: Variant::default().axes().to_string(),
        method: method().fingerprint(),
        metric: "throughput_samples_per_second".into(),
    }
}

/// The points of [`throughput`].
pub(crate) fn points(history: &History, filter: &PointFilter, aggregate: Aggregate) -> Vec<Point> {
    points_of(history, &throughput(), filter, aggregate)
}

fn points_of(
    history: &History,
    key: &SeriesKey,
    filter: &PointFilter,
    aggregate: Aggregate,
) -> Vec<Point> {
    let all = history
        .read(&SeriesFilter::default())
        .series(filter, aggregate);
    let found = all.into_iter().find(|one| one.info.key == *key);
    found.map(|one| one.points).unwrap_or_default()
}

pub(crate) fn values(history: &History, aggregate: Aggregate) -> Vec<f64> {
    let points = points(history, &PointFilter::default(), aggregate);
    points.into_iter().map(|point| point.value).collect()
}

/// The sessions that fit, newest first.
pub(crate) fn sessions(history: &History, filter: &SessionFilter) -> Vec<SessionInfo> {
    history.read(&SeriesFilter::default()).sessions(filter)
}

/// Everything that can be read, for comparing.
pub(crate) fn everything(history: &History) -> (Vec<SessionInfo>, Vec<Series>) {
    let contents = history.read(&SeriesFilter::default());
    assert_eq!(contents.left_out, [""; 0]);
    (
        contents.sessions(&SessionFilter::default()),
        contents.series(&PointFilter::default(), Aggregate::Run),
    )
}

/// The files below the results, by their places.
pub(crate) fn places(history: &History) -> Vec<String> {
    let root = history.folder().join("results");
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(&root).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// The text of a refusal, with the folder replaced, which is another one each time.
pub(crate) fn refusal(error: &HistoryError, home: &Path) -> String {
    assert!(matches!(error, HistoryError::Refused(_)), "{error:?}");
    let text = error.to_string();
    text.replace(home.to_str().unwrap(), "/home")
}
