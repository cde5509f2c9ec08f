//! Sessions to add, as a bench would have written them.

use std::{collections::BTreeMap, path::Path};

use history::{Aggregate, History, Labels, Point, PointFilter, SeriesFilter, SeriesKey};
use jiff::{SignedDuration, Timestamp};
use protocol::{CudaFacts, Device, Memory, Model, Phase, Started, Steps, Task, Variant};
use record::{
    CellPlan, Cpu, EngineFacts, Gpu, HarnessCost, Isolation, Machine, Method, Metrics, Monitor,
    Outcome, Reason, Record, Session, SessionFolder, Stage, StepTimes, Tool, VERSION,
};

/// Points of one good run of [`record`].
pub(crate) const POINTS: usize = 16;

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
        machine: Machine {
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
        engine: EngineFacts::default(),
        device: Device::Cuda(0),
        suites: BTreeMap::new(),
        images: Vec::new(),
        cells: Vec::new(),
        blocks: 3,
        order_seed: 1,
        claims: Vec::new(),
        deciding: None,
        policy: record::RunPolicy::default(),
        asked: None,
        labels: record::Labels::default(),
        questions: BTreeMap::new(),
        notes: Vec::new(),
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
            model: of_cell.model,
            task: of_cell.task,
            variant: of_cell.variant,
            steps: Steps::new(1, 1),
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
        model: Model::Resnet50,
        task: Task::Training,
        variant: Variant::default(),
        device: session.device,
        block: u32::try_from(run).unwrap(),
        order: u32::try_from(run).unwrap(),
        attempt: 1,
        started_at: session.started_at + SignedDuration::from_secs(second),
        wall_seconds: 30.0,
        method: method(),
        isolation: Isolation::without("process", &[]),
        outcome: Outcome::Ok,
        workload: Some(Started {
            cuda: Some(CudaFacts {
                uuid: "GPU-0".into(),
                ..CudaFacts::default()
            }),
            ..Started::default()
        }),
        metrics: Some(Metrics {
            summary: protocol::Summary {
                throughput_samples_per_second: Some(throughput),
                samples: 640,
                measured_seconds: 640.0 / throughput,
                micro_batch: 64,
                effective_batch: 64,
                parameters: 25_557_032,
                first_loss: Some(7.0),
                last_loss: Some(6.0),
                scaler: None,
                memory: Memory {
                    peak_allocated_bytes: Some(6_014_000_000),
                    peak_reserved_bytes: Some(6_700_000_000),
                    ..Memory::default()
                },
                ..protocol::Summary::default()
            },
            peaks: record::Peaks {
                process_peak_bytes: Some(7_400_000_000),
                ..record::Peaks::default()
            },
            step_seconds: StepTimes::default(),
            ..Metrics::default()
        }),
        steps: Vec::new(),
        phase_began_seconds: BTreeMap::new(),
        phase_seconds: BTreeMap::from([
            (Phase::CudaStart, 0.4),
            (Phase::ModelBuild, 0.6),
            (Phase::Warmup, 4.5),
        ]),
        harness: HarnessCost::default(),
        monitor: Monitor::default(),
        validity: record::Validity::default(),
        log: None,
        shortage: None,
        notes: Vec::new(),
    }
}

pub(crate) fn failed(record: Record) -> Record {
    Record {
        outcome: Outcome::Failed {
            reason: Reason::OutOfMemory,
            stage: Stage::Workload(Phase::Warmup),
            message: "tried to allocate 2 GiB".into(),
        },
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
        variant: Variant::default().to_string(),
        method: method().fingerprint(),
        metric: "throughput_samples_per_second".into(),
    }
}

pub(crate) fn values(history: &History, aggregate: Aggregate) -> Vec<f64> {
    history
        .points(&throughput(), &PointFilter::default(), aggregate)
        .unwrap()
        .into_iter()
        .map(|point| point.value)
        .collect()
}

/// Everything that can be read, for comparing.
pub(crate) type Everything = (
    Vec<history::SessionInfo>,
    Vec<(history::SeriesInfo, Vec<Point>)>,
);

pub(crate) fn everything(history: &History) -> Result<Everything, history::HistoryError> {
    let series = history
        .series(&SeriesFilter::default())?
        .into_iter()
        .map(|info| {
            let points = history.points(&info.key, &PointFilter::default(), Aggregate::Run)?;
            Ok((info, points))
        })
        .collect::<Result<_, history::HistoryError>>()?;
    Ok((
        history.sessions(&history::SessionFilter::default())?,
        series,
    ))
}
