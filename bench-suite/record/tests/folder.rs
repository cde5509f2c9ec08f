//! A session's folder through its public face.

use std::{collections::BTreeMap, fs, io::Write};

use protocol::{Device, Model, Task, Variant};
use record::{
    FolderError, HarnessCost, Isolation, Monitor, Outcome, Reason, Record, SessionFolder, Stage,
    VERSION,
};

fn record(run: &str) -> Record {
    Record {
        version: VERSION,
        run: run.into(),
        session: "s".into(),
        image: "local".into(),
        image_id: None,
        suite: "smoke".into(),
        scenario: "tiny".into(),
        model: Model::ResnetTiny,
        task: Task::Training,
        variant: Variant::default(),
        device: Device::Cpu,
        block: 0,
        order: 0,
        attempt: 1,
        started_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        wall_seconds: 1.5,
        method: record::Method::default(),
        isolation: Isolation::without("process", &["memory limit"]),
        outcome: Outcome::Failed {
            reason: Reason::TimeLimit,
            stage: Stage::Start,
            message: "longer than 1 s".into(),
        },
        workload: None,
        metrics: None,
        steps: Vec::new(),
        phase_began_seconds: std::collections::BTreeMap::new(),
        phase_seconds: BTreeMap::new(),
        harness: HarnessCost::default(),
        monitor: Monitor::default(),
        validity: record::Validity::default(),
        log: None,
        shortage: None,
        notes: Vec::new(),
    }
}

#[test]
fn records_come_back_as_they_were_written() {
    let folder = SessionFolder::at(tempfile::tempdir().unwrap().keep());
    folder.create().unwrap();
    assert!(folder.read_records().unwrap().records.is_empty());
    folder.append(&record("a")).unwrap();
    folder.append(&record("b")).unwrap();
    let read = folder.read_records().unwrap();
    assert_eq!(read.records, [record("a"), record("b")]);
    assert_eq!(read.torn_after, None);
    fs::remove_dir_all(folder.path()).unwrap();
}

#[test]
fn a_torn_last_line_is_told_and_cut() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path());
    folder.append(&record("a")).unwrap();
    let path = home.path().join(SessionFolder::RECORDS);
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"version\":1,")
        .unwrap();
    let read = folder.read_records().unwrap();
    assert_eq!(read.records, [record("a")]);
    assert!(read.torn_after.is_some());
    folder.cut_torn_line(&read).unwrap();
    folder.append(&record("b")).unwrap();
    assert_eq!(
        folder.read_records().unwrap().records,
        [record("a"), record("b")]
    );
}

#[test]
fn damaged_lines_are_left_out_with_why_and_repaired() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path());
    folder.append(&record("a")).unwrap();
    let path = home.path().join(SessionFolder::RECORDS);
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged.extend(b"{\"version\":3,\"run\":\"b-1\"}\n");
    damaged.extend(b"\xff\xfe\n\n");
    damaged.extend(b"Segmentation fault\n{\"version\":77}\n");
    damaged.extend(&whole);
    damaged.extend(b"{\"vers");
    fs::write(&path, &damaged).unwrap();
    let read = folder.read_records().unwrap();
    assert_eq!(read.records, [record("a"), record("a")]);
    assert_eq!(
        read.left_out(),
        [
            "line 2 of the records: not a record: missing field `session`; left out (run b-1)",
            "line 3 of the records: not text (UTF-8); left out",
            "line 4 of the records: not a JSON object; left out",
            "line 5 of the records: not a JSON object; left out",
            "line 6 of the records: a record of version 77; left out",
            "last line of the records cut off while it was written; left out",
        ]
    );
    let copy = folder.repair(&read).unwrap();
    assert_eq!(fs::read(copy).unwrap(), damaged);
    assert_eq!(
        fs::read(&path).unwrap(),
        [whole.as_slice(), &whole].concat()
    );
    assert_eq!(folder.read_records().unwrap().left_out(), [""; 0]);
}

#[test]
fn a_session_of_another_version_is_refused() {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        home.path().join(SessionFolder::SESSION),
        "{\"version\": 99}",
    )
    .unwrap();
    let error = SessionFolder::at(home.path()).read_session().unwrap_err();
    assert!(
        matches!(error, FolderError::Version { got: 99, .. }),
        "{error}"
    );
}
