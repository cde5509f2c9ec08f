//! Adding sessions and finding them again.

use crate::support::{
    POINTS, add, at, everything, failed, folder, places, plain, points, record, refusal, session,
    sessions, throughput, values, with_threshold,
};
use history::{Aggregate, History, Labels, PointFilter, SessionFilter};

fn open(home: &std::path::Path) -> History {
    History::at(home.join("deep").join("history")).unwrap()
}

fn one(history: &History, name: &str) -> history::SessionInfo {
    let all = sessions(history, &SessionFilter::default());
    all.into_iter().find(|one| one.session == name).unwrap()
}

#[test]
fn a_session_is_added_once() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let folder = plain(home.path(), "a", 0, 100.0);
    let first = add(&history, &folder);
    assert!(first.new && !first.unchanged);
    assert_eq!((first.runs, first.points, first.failed), (3, 3 * POINTS, 0));
    let before = everything(&history);

    let again = add(&history, &folder);
    assert!(again.unchanged && !again.new);
    assert_eq!((again.runs, again.points), (0, 0));
    assert_eq!(everything(&history), before);
}

#[test]
fn a_session_that_has_grown_adds_its_new_runs() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let mut session = session("a", 0);
    (session.complete, session.ended_at) = (false, None);
    let runs: Vec<_> = (0..4)
        .map(|run| record(&session, run, 100.0 + run as f64))
        .collect();
    add(&history, &folder(home.path(), &session, &runs[..2]));
    assert!(!one(&history, "a").complete);
    (session.complete, session.ended_at) = (true, Some(at(0, 600)));
    let added = add(&history, &folder(home.path(), &session, &runs));
    assert_eq!((added.new, added.runs), (false, 2));
    assert_eq!(
        values(&history, Aggregate::Run),
        [100.0, 101.0, 102.0, 103.0]
    );
    // An old copy of the folder takes nothing back.
    (session.complete, session.ended_at) = (false, None);
    assert!(add(&history, &folder(home.path(), &session, &runs[..1])).unchanged);
    assert!(one(&history, "a").complete);
}

#[test]
fn a_torn_record_is_told_and_left_out() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let folder = plain(home.path(), "a", 0, 100.0);
    let path = folder.path().join(record::SessionFolder::RECORDS);
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.truncate(text.len() - 10);
    std::fs::write(&path, text).unwrap();
    let added = add(&history, &folder);
    assert_eq!(added.left_out.len(), 1);
    assert_eq!(added.runs, 2);
}

#[test]
fn failed_runs_are_kept_apart() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let session = session("a", 0);
    let records = [
        record(&session, 0, 100.0),
        failed(record(&session, 1, 1.0)),
        record(&session, 2, 102.0),
    ];
    let added = add(&history, &folder(home.path(), &session, &records));
    assert_eq!((added.runs, added.failed, added.points), (3, 1, 2 * POINTS));
    assert_eq!(values(&history, Aggregate::Run), [100.0, 102.0]);
    assert_eq!(values(&history, Aggregate::Session), [101.0]);
    assert_eq!(one(&history, "a").failed, 1);
}

#[test]
fn points_come_by_session_and_by_time() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    for (day, name) in [(2, "c"), (0, "a"), (1, "b")] {
        add(
            &history,
            &plain(home.path(), name, day, 100.0 * (day + 1) as f64),
        );
    }
    assert_eq!(values(&history, Aggregate::Session), [100.0, 200.0, 300.0]);
    let points = points(&history, &PointFilter::default(), Aggregate::Session);
    let point = &points[1];
    assert_eq!(
        (point.origin.session.as_str(), &*point.origin.revision),
        ("b", "commit-1")
    );
    let (_, all) = everything(&history);
    let info = all.iter().map(|one| &one.info);
    let info = info.clone().find(|info| info.key == throughput()).unwrap();
    assert_eq!(info.points, 9);
    assert_eq!(info.newest, Some(at(2, 120).as_second() as f64));
    assert_eq!(info.oldest, Some(at(0, 0).as_second() as f64));
}

#[test]
fn what_differs_in_the_key_is_another_series() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    add(&history, &plain(home.path(), "a", 0, 100.0));
    let mut two_gpus = session("c", 2);
    two_gpus
        .hosts
        .values_mut()
        .next()
        .unwrap()
        .gpus
        .push(record::Gpu {
            index: 1,
            uuid: "GPU-1".into(),
            name: "NVIDIA H200".into(),
            ..Default::default()
        });
    let mut cpu = session("d", 3);
    cpu.device = protocol::Device::Cpu;
    for session in [&two_gpus, &cpu] {
        add(
            &history,
            &folder(home.path(), session, &[record(session, 0, 5.0)]),
        );
    }
    let (_, mut series) = everything(&history);
    series.retain(|one| one.info.key.metric.starts_with("throughput"));
    let devices: Vec<_> = series.iter().map(|one| &*one.info.key.device).collect();
    assert_eq!(devices, ["EPYC, 16 cores", "NVIDIA H200", "NVIDIA H200 #0"]);
}

/// What was upgraded stands beside each point.
#[test]
fn an_upgrade_continues_the_series() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    for (day, driver, image) in [(0, "570.86", "torch-2.8"), (1, "580.12", "torch-2.11")] {
        let mut session = session(&format!("night-{day}"), day);
        session.hosts.values_mut().next().unwrap().driver_version = Some(driver.into());
        session.hosts.values_mut().next().unwrap().kernel = "6.1".into();
        session.images = vec![record::ImageFacts {
            name: image.into(),
            libtorch_version: image["torch-".len()..].into(),
            ..record::ImageFacts::default()
        }];
        let mut run = record(&session, 0, 100.0);
        run.image = image.into();
        add(&history, &folder(home.path(), &session, &[run]));
    }
    let read = |filter: &PointFilter| points(&history, filter, Aggregate::Session);
    let points = read(&PointFilter::default());
    let of = |name: &str| -> Vec<_> {
        points
            .iter()
            .map(|point| &*point.origin.attributes[name])
            .collect()
    };
    assert_eq!(of("driver"), ["570.86", "580.12"]);
    assert_eq!(of("image"), ["torch-2.8", "torch-2.11"]);
    assert_eq!(of("libtorch"), ["2.8", "2.11"]);
    assert_eq!(
        (of("kernel"), of("gpu")),
        (vec!["6.1"; 2], vec!["GPU-0"; 2])
    );
    let under = |driver: &str| PointFilter {
        driver: Some(driver.into()),
        ..PointFilter::default()
    };
    assert_eq!(read(&under("580*")), points[1..]);
    assert_eq!(read(&under("600*")), []);
}

#[test]
fn images_of_one_session_are_followed_side_by_side() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let both = |name: &str, day| {
        let session = session(name, day);
        let mut other = record(&session, 1, 90.0);
        other.image = "torch-2.8".into();
        folder(home.path(), &session, &[record(&session, 0, 100.0), other])
    };
    let tracks = |pairs: &[(&str, &str)]| Labels {
        tracks: pairs
            .iter()
            .map(|(image, track)| ((*image).into(), (*track).into()))
            .collect(),
        ..Labels::default()
    };
    let found = || {
        let (_, series) = everything(&history);
        let mut tracks: Vec<String> = series.into_iter().map(|one| one.info.key.track).collect();
        tracks.dedup();
        tracks
    };
    let added = add(&history, &both("a", 0));
    assert_eq!(added.side_by_side, ["torch-2.11", "torch-2.8"]);
    assert_eq!(found(), ["torch-2.11", "torch-2.8"]);
    history.remove("a").unwrap();

    let main = tracks(&[("torch-2.11", "main")]);
    let folder = both("b", 1);
    assert!(history.add(&folder, &main).unwrap().side_by_side.is_empty());
    assert_eq!(found(), ["main", "torch"]);
    assert_eq!(folder.read_session().unwrap().labels, main);
    assert!(add(&history, &folder).unchanged);
    assert_eq!(places(&history), ["gpu-1/smoke/main+torch/b.json"]);
    // A track that comes later moves the file.
    history
        .add(&folder, &tracks(&[("torch-2.8", "old")]))
        .unwrap();
    assert_eq!(places(&history), ["gpu-1/smoke/main+old/b.json"]);
    let error = history
        .add(&folder, &tracks(&[("torch-2.8", "new")]))
        .unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"session b has the track old already, not new; to change it, `history remove b`, edit `labels` in its session.json, and add it again");

    let only = |track: &str| tracks(&[(History::ONLY_IMAGE, track)]);
    let refusals = [
        only("main"),
        tracks(&[("gone", "main")]),
        tracks(&[("torch-2.8", "one"), ("torch-2.11", "one")]),
    ]
    .map(|wrong| {
        let error = history.add(&both("c", 2), &wrong).unwrap_err();
        refusal(&error, home.path())
    });
    insta::assert_snapshot!(refusals.join("\n"), @r"
    track main is not that of one image of session c, which has torch-2.11, torch-2.8; name one, as in `--track IMAGE=main`
    track main is not that of one image of session c, which has torch-2.11, torch-2.8; name one, as in `--track IMAGE=main`
    track one is not that of one image of session c, which has torch-2.11, torch-2.8; name one, as in `--track IMAGE=one`
    ");
    history
        .add(&plain(home.path(), "d", 3, 100.0), &only("main"))
        .unwrap();
    assert_eq!(found(), ["main", "old"]);
}

#[test]
fn sessions_are_found_by_branch_and_image() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let label = |branch: &str| Labels {
        branch: Some(branch.into()),
        ..Labels::default()
    };
    for (day, name, branch) in [(0, "a", "main"), (1, "b", "main"), (2, "c", "pr/12")] {
        history
            .add(&plain(home.path(), name, day, 100.0), &label(branch))
            .unwrap();
    }
    add(&history, &plain(home.path(), "d", 3, 100.0));
    let newest = |filter: SessionFilter| {
        let found = sessions(&history, &filter);
        found.first().map(|session| session.session.clone())
    };
    let of = |branch: Option<&str>, image: Option<&str>| SessionFilter {
        branch: branch.map(str::to_owned),
        image: image.map(str::to_owned),
        ..SessionFilter::default()
    };
    assert_eq!(newest(of(Some("main"), None)).as_deref(), Some("b"));
    assert_eq!(newest(of(Some("pr/*"), None)).as_deref(), Some("c"));
    assert_eq!(newest(of(None, Some("torch-2.11"))).as_deref(), Some("d"));
    assert_eq!(newest(of(None, Some("gone"))), None);
    let on_main = PointFilter {
        branch: Some("main".into()),
        ..PointFilter::default()
    };
    assert_eq!(points(&history, &on_main, Aggregate::Session).len(), 2);

    // A label may come later, and then stays.
    let d = plain(home.path(), "d", 3, 100.0);
    assert!(!history.add(&d, &label("main")).unwrap().unchanged);
    assert!(history.add(&d, &label("main")).unwrap().unchanged);
    let error = history.add(&d, &label("other")).unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"session d has the branch main already, not other; to change it, `history remove d`, edit `labels` in its session.json, and add it again");
    assert_eq!(d.read_session().unwrap().labels, label("main"));
}

#[test]
fn another_session_of_the_same_name_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    add(&history, &plain(home.path(), "a", 0, 100.0));
    let before = everything(&history);
    let error = history
        .add(&plain(home.path(), "a", 1, 100.0), &Labels::default())
        .unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"session a is already in the history with a different start: 2026-01-01T00:00:00Z, not 2026-01-02T00:00:00Z; `history remove a` removes the old one");
    let session = session("a", 0);
    let mut foreign = record(&session, 9, 1.0);
    foreign.session = "z".into();
    let mixed = folder(home.path(), &session, &[foreign]);
    let error = history.add(&mixed, &Labels::default()).unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"the session in /home/a cannot be added: run r-0009 belongs to session z, but session.json is of a; the two files must be of one session");
    assert_eq!(everything(&history), before);
}

#[test]
fn a_removed_session_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    add(&history, &plain(home.path(), "a", 0, 100.0));
    let before = everything(&history);
    add(&history, &plain(home.path(), "b", 1, 200.0));
    let mut session = session("c", 2);
    session.hosts.values_mut().next().unwrap().name = "gpu-2".into();
    add(
        &history,
        &folder(home.path(), &session, &[record(&session, 0, 1.0)]),
    );
    let removed = history.remove("b").unwrap();
    assert_eq!((removed.runs, removed.points), (3, 3 * POINTS));
    history.remove("c").unwrap();
    assert_eq!(everything(&history), before);
    let error = history.remove("b").unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"no session b in the history; `history list --sessions` names them");
    add(&history, &plain(home.path(), "b", 1, 200.0));
}

#[test]
fn a_point_names_what_was_measured() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let mut unbuilt = session("b", 1);
    unbuilt.tool.revision = None;
    let mut nameless = session("c", 2);
    nameless.tool.revision = None;
    let mut local = record(&nameless, 0, 3.0);
    local.image_id = None;
    let add = |session: &record::Session, run: record::Record, revision: Option<&str>| {
        let labels = Labels {
            revision: revision.map(str::to_owned),
            ..Labels::default()
        };
        let folder = folder(home.path(), session, &[run]);
        history.add(&folder, &labels).unwrap();
    };
    let (built, labelled) = (session("a", 0), session("d", 3));
    add(&built, record(&built, 0, 1.0), None);
    add(&unbuilt, record(&unbuilt, 0, 2.0), None);
    add(&nameless, local, None);
    add(&labelled, record(&labelled, 0, 4.0), Some("v2"));
    let points = points(&history, &PointFilter::default(), Aggregate::Run);
    let revisions: Vec<_> = points
        .iter()
        .map(|point| point.origin.revision.as_str())
        .collect();
    assert_eq!(revisions, ["commit-0", "sha256:abc", "c", "v2"]);
}

#[test]
fn a_negative_metric_is_refused_as_by_a_comparison() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let session = session("below", 0);
    let runs = [record(&session, 0, 100.0), record(&session, 1, -100.0)];
    let folder = folder(home.path(), &session, &runs);
    let error = history.add(&folder, &Labels::default()).unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"the session in /home/below cannot be added: run r-0001: throughput_samples_per_second is -100, expected a number that is not negative; a record like this was changed or is broken, and a comparison refuses it as well: measure again");
    assert!(everything(&history).0.is_empty());
}

#[test]
fn a_suites_threshold_and_the_gpu_stand_beside_the_metrics() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let with = |name: &str, day, threshold: Option<f64>, uuid: &str| {
        let mut session = session(name, day);
        session.hosts.values_mut().next().unwrap().gpus[0].uuid = uuid.into();
        if let Some(threshold) = threshold {
            session = with_threshold(session, threshold);
        }
        let mut run = record(&session, 0, 100.0);
        // The workload did not get so far as to tell its GPU.
        run.started = None;
        folder(home.path(), &session, &[run])
    };
    let folders = [
        with("a", 0, Some(0.05), "GPU-AA"),
        with("b", 1, None, "bb"),
        with("c", 2, Some(0.0), ""),
    ];
    for folder in &folders {
        add(&history, folder);
    }
    for aggregate in [Aggregate::Session, Aggregate::Run] {
        let points = points(&history, &PointFilter::default(), aggregate);
        let metadata: Vec<_> = points
            .iter()
            .map(|point| point.origin.attributes.get("gpu").map(String::as_str))
            .collect();
        assert_eq!(metadata, [Some("GPU-aa"), Some("GPU-bb"), None]);
    }
    // Those of the newest session; noise thresholds are those of a metric, not of its cell.
    let threshold = |metric: &str| {
        let (_, all) = everything(&history);
        let found = all.into_iter().find(|one| one.info.key.metric == metric);
        found.and_then(|one| one.info.threshold)
    };
    assert_eq!(threshold(&throughput().metric), Some(0.0));
    assert!(threshold("peak_allocated_bytes") > Some(0.0));

    for folder in &folders {
        assert!(add(&history, folder).unchanged);
    }
    // What the folder says now is what counts.
    assert!(!add(&history, &with("a", 0, Some(0.01), "GPU-AA")).unchanged);
    assert!(!add(&history, &with("c", 2, Some(0.01), "")).unchanged);
    assert_eq!(threshold(&throughput().metric), Some(0.01));
    for name in ["a", "b", "c"] {
        history.remove(name).unwrap();
    }
    assert!(everything(&history).1.is_empty());
    add(&history, &folders[0]);
}

#[test]
fn a_session_without_a_record_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let history = History::at(home.path().join("history")).unwrap();
    let none = folder(home.path(), &session("none", 0), &[]);
    let error = history.add(&none, &Labels::default()).unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"the session in /home/none cannot be added: it has no record of a run; `bench --resume` runs what it planned");
}
