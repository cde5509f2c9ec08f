//! Sessions written for the test, and the command as the user calls it on them.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use protocol::{Precision, Steps, Variant};
use record::{CellPlan, Isolation, Machine, Record, Session, SessionFolder, Workload};

pub(crate) fn session(name: &str) -> Session {
    Session {
        version: record::VERSION,
        session: name.into(),
        started_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
        complete: true,
        hosts: [(
            "here".into(),
            Machine {
                name: "here".into(),
                ..Machine::default()
            },
        )]
        .into(),
        blocks: 5,
        order_seed: 1,
        ..Session::default()
    }
}

/// The plan of the cell of [`records`] in single precision, with this noise threshold.
pub(crate) fn cell(image: &str, metric: &str, threshold: f64) -> CellPlan {
    CellPlan {
        image: image.into(),
        suite: "smoke".into(),
        scenario: "tiny".into(),
        workload: Workload::builtin("resnet-tiny", "training"),
        axes: Variant::default().axes(),
        steps: Steps::new(1, 1),
        ranks: 1,
        seed: 1,
        expected: None,
        thresholds: BTreeMap::from([(metric.to_owned(), threshold)]),
    }
}

/// Five runs of one cell, with a scatter of about a tenth of a percent.
pub(crate) fn records(
    session: &str,
    image: &str,
    precision: Precision,
    throughput: f64,
) -> Vec<Record> {
    (0_u32..5)
        .zip([0.001, -0.001, 0.0, 0.0005, -0.0005])
        .map(|(block, scatter)| {
            let throughput = throughput * (1.0 + scatter);
            let step = 8.0 / throughput;
            let values = [
                ("throughput_samples_per_second", throughput),
                ("measured_seconds", step),
                ("step_median_seconds", step),
                ("step_mean_seconds", step),
                ("step_p90_seconds", step),
                ("step_p99_seconds", step),
                ("wall_seconds", 1.0),
                ("container_start_seconds", 0.0),
                ("harness_seconds", 0.0),
            ];
            let variant = Variant {
                precision,
                ..Variant::default()
            };
            Record {
                version: record::VERSION,
                run: format!("{image}-{precision:?}-{block}"),
                session: session.into(),
                image: image.into(),
                suite: "smoke".into(),
                scenario: "tiny".into(),
                workload: Workload::builtin("resnet-tiny", "training"),
                axes: variant.axes(),
                block,
                order: block,
                attempt: 1,
                started_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
                wall_seconds: 1.0,
                isolation: Isolation::without("container", &[]),
                values: values.map(|(name, value)| (name.to_owned(), value)).into(),
                series: BTreeMap::from([("step_seconds".to_owned(), vec![Some(step)])]),
                ..Record::default()
            }
        })
        .collect()
}

/// A folder with `sessions/old-name` and `sessions/new`, and a history of its own.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    /// Sessions `base` (in the folder `renamed`) and `head`, each with the image `img`; `head`
    /// holds `other` as well, and `img` in a second precision, 10 % slower.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let home = Self { folder };
        let base = records("base", "img", Precision::Fp32, 100.0);
        let mut head = records("head", "img", Precision::Fp32, 100.0);
        head.extend(records("head", "img", Precision::AmpBf16, 90.0));
        head.extend(records("head", "other", Precision::Fp32, 80.0));
        home.write("renamed", &session("base"), &base);
        home.write("head", &session("head"), &head);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, folder: &str, session: &Session, records: &[Record]) {
        let folder = SessionFolder::at(self.path("sessions").join(folder));
        folder.create().expect("the folder is made");
        folder.write_session(session).expect("the session is kept");
        for record in records {
            folder.append(record).expect("the record is kept");
        }
    }

    #[track_caller]
    pub(crate) fn check(&self, words: &[&str], code: i32, expected: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
            .args(words)
            .current_dir(self.folder.path())
            .env("TORCHGAUGE_HISTORY", self.path("history"))
            .output()
            .expect("torchgauge runs");
        let all = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(code), "{words:?}:\n{all}");
        assert!(
            all.contains(expected),
            "{words:?}: no `{expected}` in\n{all}"
        );
        all
    }
}
