//! The folder itself: what lies in it, who writes it, and what does not belong there.

use std::{fs, os::unix::fs::symlink, path::Path, thread};

use history::{Aggregate, History, Labels, PointFilter, SeriesFilter};
use record::{Record, Session, SessionFolder};
use serde_json::{Value, json};

use crate::support::{
    add, everything, failed, folder, places, plain, record, refusal, session, values,
};

fn open(home: &Path) -> History {
    History::at(home.join("history")).unwrap()
}

/// The file of the session `a` of [`plain`].
const PLACE: &str = "gpu-1/smoke/torch/a.json";

#[test]
fn a_session_is_one_file_that_reads_as_what_it_is() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let session = session("a", 0);
    let runs = [record(&session, 0, 100.0), failed(record(&session, 1, 1.0))];
    add(&history, &folder(home.path(), &session, &runs));
    assert_eq!(places(&history), [PLACE]);
    let text = fs::read(history.folder().join("results").join(PLACE)).unwrap();
    let file: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(file["version"], 1);
    assert_eq!(file["images"]["torch-2.11"]["track"], "torch");
    assert_eq!(
        file["images"]["torch-2.11"]["attributes"]["image_id"],
        "sha256:abc"
    );
    let cell = &file["cells"][0];
    assert_eq!(
        cell["workload"],
        json!({"kind": "builtin", "model": "resnet50", "task": "training"})
    );
    assert_eq!(cell["axes"]["precision"], "fp32");
    assert_eq!(
        cell["metrics"]["throughput_samples_per_second"],
        json!([100.0])
    );
    assert_eq!(cell["failed"][0]["reason"], "out-of-memory");
    assert_eq!(
        cell["attributes"],
        json!({"driver": "580.159", "gpu": "GPU-0"})
    );
}

/// A metric that Torchgauge does not have: its file says what it is.
#[test]
fn a_metric_of_a_suite_has_its_unit_with_it() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    add(&history, &plain(home.path(), "a", 0, 100.0));
    let path = history.folder().join("results").join(PLACE);
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["metrics"] = json!([
        {"name": "tokens_per_second", "unit": "tokens-per-second", "better": "more", "threshold": 0.01}
    ]);
    let metrics = &mut file["cells"][0]["metrics"];
    metrics["tokens_per_second"] = json!([5.0, null, 7.0]);
    metrics["of_nobody"] = json!([1, 2, 3]);
    fs::write(&path, file.to_string()).unwrap();
    let contents = history.read(&SeriesFilter {
        metric: Some("*o*s*".into()),
        ..SeriesFilter::default()
    });
    assert_eq!(contents.left_out, [""; 0]);
    let all = contents.series(&PointFilter::default(), Aggregate::Session);
    let own = all
        .iter()
        .find(|one| one.info.key.metric == "tokens_per_second")
        .unwrap();
    assert_eq!(
        (&*own.info.unit, own.info.threshold),
        ("tokens/s", Some(0.01))
    );
    assert_eq!(own.points[0].value.to_bits(), 6_f64.to_bits());
    assert!(all.iter().all(|one| one.info.key.metric != "of_nobody"));
}

#[test]
fn only_the_folders_that_are_asked_for_are_read() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    add(&history, &plain(home.path(), "a", 0, 100.0));
    for place in [
        "gpu-2/smoke/torch",
        "gpu-1/other/torch",
        "gpu-1/smoke/cpu+main",
    ] {
        let folder = history.folder().join("results").join(place);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x.json"), "broken").unwrap();
    }
    let left_out = |machine: &str, suite: &str, track: &str| {
        let filter = SeriesFilter {
            machine: Some(machine.into()),
            suite: Some(suite.into()),
            track: Some(track.into()),
            ..SeriesFilter::default()
        };
        let contents = history.read(&filter);
        let read = contents
            .series(&PointFilter::default(), Aggregate::Session)
            .len();
        (contents.left_out.len(), read > 0)
    };
    assert_eq!(left_out("gpu-1", "smoke", "torch"), (0, true));
    assert_eq!(left_out("gpu-*", "smoke", "torch"), (1, true));
    assert_eq!(left_out("gpu-1", "*", "*"), (2, true));
    assert_eq!(left_out("gpu-1", "smoke", "main"), (1, false));
}

#[test]
fn what_does_not_belong_there_is_named_and_left_out() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    add(&history, &plain(home.path(), "a", 0, 100.0));
    let before = everything(&history);
    let results = history.folder().join("results");
    let whole = fs::read_to_string(results.join(PLACE)).unwrap();
    let place = |name: &str| results.join("gpu-1/smoke/torch").join(name);
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let with = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole
            .replace(from, to)
            .replace("\"session\":\"a\"", "\"session\":\"b\"")
    };
    let mut refusals = Vec::new();
    for (path, text) in [
        (place("b.json"), whole[..whole.len() / 2].to_owned()),
        (place("b.json"), String::new()),
        (place("b.json"), "[1, 2]".to_owned()),
        (place("b.json"), "{}".to_owned()),
        (place("b.json"), with("\"version\":1", "\"version\":2")),
        (place("b.json"), with("\"cells\":", "\"celles\":")),
        (place("b.json"), with("[99.0,", "[1e999,")),
        (place("b.json"), with("[99.0,", "[")),
        (
            place("b.json"),
            with(
                "\"image\":\"torch-2.11\",\"suite\"",
                "\"image\":\"x\",\"suite\"",
            ),
        ),
        (place("a (copy).json"), whole.clone()),
        (results.join("gpu-2/smoke/torch/a.json"), whole.clone()),
        (place("notes.txt"), String::new()),
        (results.join("README.md"), String::new()),
    ] {
        write(&path, &text);
        let contents = history.read(&SeriesFilter::default());
        let [told] = &contents.left_out[..] else {
            panic!("{}: {:?}", path.display(), contents.left_out)
        };
        assert!(told.starts_with(&path.display().to_string()), "{told}");
        let told = told.replace(results.to_str().unwrap(), "/results");
        // The column is that of whatever else the file holds.
        let (told, _) = told.split_once(" at line 1 column ").unwrap_or((&told, ""));
        refusals.push(told.to_owned());
        fs::remove_file(path).unwrap();
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    /results/gpu-1/smoke/torch/b.json left out: EOF while parsing a value
    /results/gpu-1/smoke/torch/b.json left out: EOF while parsing a value
    /results/gpu-1/smoke/torch/b.json left out: invalid type: sequence, expected a map
    /results/gpu-1/smoke/torch/b.json left out: missing field `version`
    /results/gpu-1/smoke/torch/b.json left out: version 2, expected 1; use the Torchgauge that wrote the file
    /results/gpu-1/smoke/torch/b.json left out: missing field `cells`
    /results/gpu-1/smoke/torch/b.json left out: cells[0]: throughput_samples_per_second: number out of range
    /results/gpu-1/smoke/torch/b.json left out: cells[0]: resnet50 fp32 bs1: throughput_samples_per_second has 2 values, expected one for each of 3 runs
    /results/gpu-1/smoke/torch/b.json left out: a cell is of image x, which `images` does not list
    /results/gpu-1/smoke/torch/a (copy).json left out: it is the file of gpu-1/smoke/torch/a.json; move or remove it
    /results/gpu-2/smoke/torch/a.json left out: it is the file of gpu-1/smoke/torch/a.json; move or remove it
    /results/gpu-1/smoke/torch/notes.txt left out: not a .json file
    /results/README.md left out: it is a file; expected a folder
    ");
    symlink("/dev/zero", place("b.json")).unwrap();
    let left_out = history.read(&SeriesFilter::default()).left_out;
    let left_out = left_out.join("\n");
    insta::assert_snapshot!(left_out.replace(results.to_str().unwrap(), "/results"), @"/results/gpu-1/smoke/torch/b.json left out: it is a device; expected a file");
    fs::remove_file(place("b.json")).unwrap();
    // What git and other programs keep for themselves, and what is not of the history at all.
    write(&history.folder().join(".git/config"), "");
    write(&history.folder().join("README.md"), "");
    write(&place(".a.json.sync"), "half");
    assert_eq!(everything(&history), before);
}

/// Such as two branches of a repository may have it, each with a track of its own.
#[test]
fn a_session_in_two_places_counts_once() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let folder = plain(home.path(), "a", 0, 100.0);
    add(&history, &folder);
    let first = fs::read(history.folder().join("results").join(PLACE)).unwrap();
    let main = Labels {
        tracks: [(History::ONLY_IMAGE.into(), "main".into())].into(),
        ..Labels::default()
    };
    history.add(&folder, &main).unwrap();
    fs::write(history.folder().join("results").join(PLACE), first).unwrap();
    let contents = history.read(&SeriesFilter::default());
    let left_out = contents.left_out.join("\n");
    insta::assert_snapshot!(left_out.replace(home.path().to_str().unwrap(), "/home"), @"/home/history/results/gpu-1/smoke/torch/a.json left out: there is another file of this session");
    assert_eq!(
        contents.sessions(&history::SessionFilter::default()).len(),
        1
    );
    // The next writer puts it right.
    assert!(!add(&history, &folder).unchanged);
    assert_eq!(places(&history), ["gpu-1/smoke/main/a.json"]);
}

#[test]
fn of_two_writers_of_one_session_one_wins_whole() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    let with = |name: &str, value: f64| {
        let session: Session = session("a", 0);
        let runs: Vec<Record> = (0..20).map(|run| record(&session, run, value)).collect();
        let home = home.path().join(name);
        folder(&home, &session, &runs)
    };
    let writers: Vec<(f64, SessionFolder)> = [1.0, 2.0, 3.0, 4.0]
        .map(|value| (value, with(&value.to_string(), value)))
        .into();
    thread::scope(|scope| {
        for (_, folder) in &writers {
            for _ in 0..8 {
                scope.spawn(|| history.add(folder, &Labels::default()).unwrap());
            }
        }
        for _ in 0..50 {
            assert_eq!(history.read(&SeriesFilter::default()).left_out, [""; 0]);
        }
    });
    let values = values(&history, Aggregate::Run);
    assert_eq!(values.len(), 20);
    assert!(
        values
            .windows(2)
            .all(|pair| pair[0].to_bits() == pair[1].to_bits()),
        "{values:?}"
    );
    assert_eq!(places(&history), [PLACE]);
}

#[test]
fn machines_write_side_by_side() {
    let home = tempfile::tempdir().unwrap();
    let history = open(home.path());
    thread::scope(|scope| {
        for machine in 0..8 {
            let (home, history) = (home.path(), &history);
            scope.spawn(move || {
                for night in 0..5 {
                    let mut session = session(&format!("m{machine}-{night}"), night);
                    let name = format!("gpu-{machine}");
                    let mut facts = session.machine().clone();
                    facts.name.clone_from(&name);
                    session.hosts = [(name, facts)].into();
                    let run = record(&session, 0, 1.0);
                    add(history, &folder(home, &session, &[run]));
                }
            });
        }
    });
    let (sessions, _) = everything(&history);
    assert_eq!(sessions.len(), 40);
}

#[test]
fn a_file_is_no_history() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("history.sqlite");
    fs::write(&path, "SQLite format 3").unwrap();
    let error = History::at(&path).unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"/home/history.sqlite is no folder, and a history is one; name another with --history DIR");
    let error = History::existing(home.path().join("none")).unwrap_err();
    insta::assert_snapshot!(refusal(&error, home.path()), @"there is no history at /home/none; `history add SESSION` makes one");
}
