//! Signals, kills, torn lines, and two sessions at once.

use std::{fs, io::Write as _, time::Instant};

use record::SessionFolder;
use rustix::process::Signal;

use crate::support::{Home, outcomes};

fn ok(order: u32, attempt: u32) -> (u32, u32, String) {
    (order, attempt, "ok".into())
}

#[test]
fn ctrl_c_cleans_up_and_the_session_goes_on_later() {
    let home = Home::new();
    let running = home.bench("s", "0001=sleep:60000", &["--device=cpu"]);
    running.until_records(1);
    running.until_it_runs();
    running.signal(Signal::INT);
    let text = running.ends_with(3);
    assert!(text.contains("stopping: the run in hand"), "{text}");
    assert!(text.contains("cargo xtask bench --resume"), "{text}");
    let (session, records) = home.read("s");
    assert!(!session.complete && session.ended_at.is_some());
    assert_eq!(outcomes(&records), [ok(0, 1), (1, 1, "interrupted".into())]);
    assert!(!home.path("s/work").exists(), "a run's folder was left");
    assert!(home.path("s/report.html").exists());

    home.bench("s", "", &["--device=cpu", "--resume"])
        .ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(outcomes(&records)[2..], [ok(1, 2)]);
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_loses_nothing() {
    let home = Home::new();
    let running = home.bench("s", "0001=stubborn:60000", &["--device=cpu"]);
    running.until_records(1);
    running.until_it_runs();
    let began = Instant::now();
    running.signal(Signal::INT);
    // The first must have been heard, or the two are one.
    std::thread::sleep(std::time::Duration::from_millis(500));
    running.signal(Signal::INT);
    running.ends_with(130);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    assert_eq!(outcomes(&home.read("s").1), [ok(0, 1)]);
    home.bench("s", "", &["--device=cpu", "--resume"])
        .ends_with(0);
    assert_eq!(outcomes(&home.read("s").1), [ok(0, 1), ok(1, 1)]);
    assert!(!home.path("s/work").exists(), "a run's folder was left");
}

#[test]
fn a_killed_session_with_a_torn_line_is_resumed_and_repeats_nothing() {
    let home = Home::new();
    let running = home.bench("s", "0001=sleep:60000", &["--device=cpu"]);
    running.until_records(1);
    running.until_it_runs();
    running.signal(Signal::KILL);
    running.ends_with(-1);
    let path = home.path("s").join(SessionFolder::RECORDS);
    let whole = fs::read_to_string(&path).expect("records");
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("records");
    file.write_all(&whole.as_bytes()[..whole.len() / 2])
        .expect("half a record is written");
    drop(file);

    home.bench("s", "", &["--device=cpu", "--resume"])
        .ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    let note = "resumed after the last record was cut off";
    assert!(
        session.notes.iter().any(|text| text.starts_with(note)),
        "{:?}",
        session.notes
    );
    assert_eq!(outcomes(&records), [ok(0, 1), ok(1, 1)]);
    let text = fs::read_to_string(&path).expect("records");
    assert!(text.starts_with(&whole), "what was finished was touched");
}

#[test]
fn another_plan_is_not_mixed_into_a_session() {
    let home = Home::new();
    home.bench("s", "0001=cancel", &["--device=cpu"])
        .ends_with(3);
    let before = fs::read(home.path("s").join(SessionFolder::RECORDS)).expect("records");
    home.suite("wait: 2s, repeats: 2", &["one", "two"]);
    let text = home
        .bench("s", "", &["--device=cpu", "--resume"])
        .ends_with(2);
    assert!(text.contains("cannot be resumed"), "{text}");
    assert!(text.contains("plan: was 1 cells, is 2 cells"), "{text}");
    let after = fs::read(home.path("s").join(SessionFolder::RECORDS)).expect("records");
    assert_eq!(before, after);
}

#[test]
fn two_sessions_at_once_leave_each_other_alone() {
    let home = Home::new();
    let one = home.bench("one", "*=sleep:700", &["--device=cpu"]);
    let two = home.bench("two", "*=sleep:700", &["--device=cpu"]);
    one.ends_with(0);
    two.ends_with(0);
    for name in ["one", "two"] {
        let (session, records) = home.read(name);
        assert_eq!(outcomes(&records), [ok(0, 1), ok(1, 1)]);
        assert!(records.iter().all(|run| run.session == session.session));
    }
    assert_eq!(home.locks(), 0, "the CPU needs no lock");
}
