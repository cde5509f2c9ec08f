//! Writers that are killed, and several at once.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use history::{History, HistoryError, SessionFilter};
use rusqlite::Connection;

use crate::support::{POINTS, add, everything, plain};

/// Runs a test of this binary in a process of its own, where `CHILD` names its folder.
fn child(test: &str, home: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "--ignored", "--nocapture", test])
        .env("CHILD", home)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

fn home() -> std::path::PathBuf {
    env::var_os("CHILD")
        .expect("started by another test")
        .into()
}

/// The test harness writes to the same stream: lines of ours begin with a mark.
#[expect(clippy::print_stdout, reason = "this is how a child tells its parent")]
fn tell(word: &str) {
    println!("\n> {word}");
    std::io::stdout().flush().unwrap();
}

fn told(line: &str) -> Option<&str> {
    line.strip_prefix("> ")
}

#[test]
fn a_writer_waits_for_another_and_readers_do_not() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("h.sqlite");
    let before = {
        let history = History::open(&path).unwrap();
        add(&history, &plain(home.path(), "a", 0, 100.0));
        everything(&history).unwrap()
    };
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch("BEGIN IMMEDIATE; DELETE FROM runs")
        .unwrap();
    let reader = History::open_existing(&path).unwrap();
    assert_eq!(everything(&reader).unwrap(), before);
    let wait = Duration::from_millis(300);
    let writer = History::open_waiting(&path, wait).unwrap();
    let error = writer.set_baseline("x", "a").unwrap_err();
    assert!(
        matches!(&error, HistoryError::Busy { waited, .. } if *waited >= wait),
        "{error}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    writer.set_baseline("x", "a").unwrap();
}

#[test]
#[ignore = "the child of what_was_said_to_be_written_survives_a_kill"]
fn child_adds_until_killed() {
    let home = home();
    let history = History::open(home.join("h.sqlite")).unwrap();
    for number in 0..10_000 {
        let name = format!("{}-{number}", std::process::id());
        let folder = plain(&home, &name, number, 100.0);
        add(&history, &folder);
        tell(&name);
    }
}

#[test]
fn what_was_said_to_be_written_survives_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let mut said = Vec::new();
    for round in 0..8 {
        let mut process = child("writers::child_adds_until_killed", home.path())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, receiver) = mpsc::channel();
        let reading = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(name) = told(&line) {
                    sender.send(name.to_owned()).unwrap();
                }
            }
        });
        said.push(receiver.recv().unwrap());
        thread::sleep(Duration::from_millis(7 * round + 1));
        process.kill().unwrap();
        process.wait().unwrap();
        reading.join().unwrap();
        said.extend(receiver.try_iter());

        let history = History::open(home.path().join("h.sqlite")).unwrap();
        history.check().unwrap();
        let sessions = history.sessions(&SessionFilter::default()).unwrap();
        for name in &said {
            assert!(
                sessions.iter().any(|session| session.session == *name),
                "{name} is lost"
            );
        }
        for session in sessions {
            assert_eq!(
                (session.runs, session.points),
                (3, 3 * POINTS as u64),
                "{session:?}"
            );
        }
    }
}

#[test]
#[ignore = "the child of writers_in_several_processes_wait_for_each_other"]
fn child_adds_twenty() {
    let home = home();
    // Each opens, and may make, the file itself.
    for number in 0..20 {
        let history = History::open(home.join("h.sqlite")).unwrap();
        let name = format!("{}-{number}", std::process::id());
        add(&history, &plain(&home, &name, number, 100.0));
    }
}

#[test]
fn writers_in_several_processes_wait_for_each_other() {
    let home = tempfile::tempdir().unwrap();
    let processes: Vec<_> = (0..3)
        .map(|_| {
            child("writers::child_adds_twenty", home.path())
                .spawn()
                .unwrap()
        })
        .collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let history = History::open(home.path().join("h.sqlite")).unwrap();
    assert_eq!(
        history.sessions(&SessionFilter::default()).unwrap().len(),
        60
    );
    history.check().unwrap();
}

#[test]
fn the_same_session_added_by_several_at_once_is_there_once() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("h.sqlite");
    let folder = plain(home.path(), "a", 0, 100.0);
    let added: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| add(&History::open(&path).unwrap(), &folder)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(added.iter().filter(|added| added.new).count(), 1);
    assert_eq!(added.iter().filter(|added| added.unchanged).count(), 3);
    let history = History::open(&path).unwrap();
    assert_eq!(history.session("a").unwrap().runs, 3);
}
