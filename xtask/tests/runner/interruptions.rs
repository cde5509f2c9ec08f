//! Signals, kills, torn lines, and two sessions at once.

use std::{fs, io::Write as _, process::Command, time::Instant};

use record::SessionFolder;
use rustix::process::Signal;

use crate::support::{Home, outcomes, xtask};

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
    assert!(
        text.contains("interrupted: cleaning up the current run"),
        "{text}"
    );
    assert!(text.contains("cargo xtask bench --resume"), "{text}");
    let (session, records) = home.read("s");
    assert!(!session.complete && session.ended_at.is_some());
    assert_eq!(outcomes(&records), [ok(0, 1), (1, 1, "interrupted".into())]);
    assert!(!home.path("s/work").exists(), "a run's folder was left");
    let failures = || {
        let page = fs::read_to_string(home.path("s/report.html")).expect("a page");
        page.contains("<section id=\"failures\"")
    };
    assert!(failures(), "the interrupted run is not told");

    home.bench("s", "", &["--device=cpu", "--resume"])
        .ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(outcomes(&records)[2..], [ok(1, 2)]);
    assert!(!failures(), "the interrupted attempt is told as failed");
}

#[test]
fn the_printed_command_resumes_the_session() {
    let home = Home::new();
    let name = "o'hara's GPU";
    let running = home.bench(name, "0001=sleep:8000", &["--device=cpu", "--blocks=3"]);
    running.until_records(1);
    running.until_it_runs();
    running.signal(Signal::INT);
    let text = running.ends_with(3);
    let (_, command) = text.split_once("go on with: ").expect("a command");
    let command = command.lines().next().unwrap_or_default();

    let text = home.shell(name, command).ends_with(0);
    let (session, records) = home.read(name);
    assert!(session.complete);
    assert_eq!(session.blocks, 3);
    let interrupted = (1, 1, "interrupted".into());
    assert_eq!(
        outcomes(&records),
        [ok(0, 1), interrupted, ok(1, 2), ok(2, 1)]
    );
    // What came to something later is no failure.
    assert!(!text.contains("interrupted"), "{text}");
}

/// A session that lies in the checkout does not make the checkout another one.
#[test]
fn the_printed_command_resumes_a_session_within_the_checkout() {
    let home = Home::new();
    let git = |line: &str| {
        let git = "git -C ../checkout -c user.name=A -c user.email=a@example.org";
        home.shell("", &format!("{git} {line}")).ends_with(0)
    };
    let specs = concat!(env!("CARGO_MANIFEST_DIR"), "/../images");
    home.shell(
        "",
        &format!(
            "mkdir -p ../checkout/images ../checkout/scenarios && cp ../suite.yaml ../checkout/scenarios \
             && cp '{specs}'/*.yaml '{specs}'/*.toml ../checkout/images"
        ),
    )
    .ends_with(0);
    git("init --quiet");
    git("add .");
    git("commit --quiet --message all");

    let name = "checkout/results/a";
    let running = home.shell(
        name,
        "cd ../checkout && exec cargo xtask bench --suite suite --device cpu --out results/a \
         --engine mock:0001=sleep:8000",
    );
    running.until_records(1);
    running.until_it_runs();
    running.signal(Signal::INT);
    let text = running.ends_with(3);
    let (_, command) = text.split_once("go on with: ").expect("a command");
    let command = command.lines().next().unwrap_or_default();
    let command = format!("cd ../checkout && {command}");

    // With a tracked file that was changed it is another one.
    let suite = home.path("checkout/scenarios/suite.yaml");
    let before = fs::read_to_string(&suite).expect("a suite");
    fs::write(&suite, format!("{before}# changed\n")).expect("a suite");
    let text = home.shell(name, &command).ends_with(2);
    assert!(text.contains("-dirty)"), "{text}");
    fs::write(&suite, before).expect("a suite");
    home.shell(name, &command).ends_with(0);
    let (session, _) = home.read(name);
    assert!(session.complete);
    let revision = git("describe --always --tags --dirty --abbrev=12");
    assert_eq!(session.tool.revision.as_deref(), Some(revision.trim()));
}

#[test]
fn what_contradicts_the_session_is_refused() {
    let home = Home::new();
    home.bench("s", "0001=cancel", &["--device=cpu"])
        .ends_with(3);
    let before = fs::read(home.path("s/session.json")).expect("a session");
    let image = &home.read("s").0.images[0].name;
    let other =
        format!("--image torch-2.6.0-cpu contradicts the session, which was begun with {image}");
    for (word, expected) in [
        (
            "--device=cuda:1",
            "--device cuda:1 contradicts the session, which was begun with cpu",
        ),
        ("--image=torch-2.6.0-cpu", &other),
        (
            "--blocks=7",
            "--blocks 7 contradicts the session, which was begun with 2",
        ),
    ] {
        let text = home.bench("s", "", &[word, "--resume"]).ends_with(2);
        assert!(text.contains(expected), "{text}");
    }
    let folder = home.path("s");
    let line = |options: &str| {
        let line = format!("cargo xtask bench --resume {} {options}", folder.display());
        home.shell("s", &line).ends_with(2)
    };
    let text = line("--suite smoke");
    assert!(
        text.contains("--suite smoke contradicts the session"),
        "{text}"
    );
    let text = line("--engine process");
    assert!(text.contains("which was begun with mock"), "{text}");
    let after = fs::read(home.path("s/session.json")).expect("a session");
    assert_eq!(before, after);
}

#[test]
fn a_damaged_line_is_left_out_and_its_run_is_repeated() {
    let home = Home::new();
    home.bench("s", "", &["--device=cpu"]).ends_with(0);
    let path = home.path("s").join(SessionFolder::RECORDS);
    let text = fs::read_to_string(&path).expect("records");
    let (first, second) = text.split_once('\n').expect("two records");
    let cut = &first[..first.len() / 2];
    fs::write(&path, format!("{cut}\n{second}")).expect("records");

    let folder = home.path("s").display().to_string();
    let (code, said) = xtask(&["report", &folder]);
    assert_eq!(code, 0, "{said}");
    let page = fs::read_to_string(home.path("s/report.html")).expect("a report");
    assert!(page.contains("line 1 of the records"), "no warning");

    home.bench("s", "", &["--device=cpu", "--resume"])
        .ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(outcomes(&records), [ok(1, 1), ok(0, 1)]);
}

#[test]
fn runs_that_fail_as_their_suite_expects_pass() {
    let home = Home::new();
    let text = "version: 1\ndescription: d\ndefaults: {blocks: 1}\nscenarios:\n\
                - {name: large, model: vit-tiny, axes: {batch: [2, 512]}, \
                expect: {outcome: out-of-memory, batch: 512}}\n";
    fs::write(home.path("suite.yaml"), text).expect("a suite");
    let said = home.bench("s", "bs512=oom", &["--device=cpu"]).ends_with(0);
    assert!(said.contains("1/1 as expected"), "{said}");
    assert!(said.contains("expected: "), "{said}");
    assert!(!said.contains("failed: "), "{said}");
    let said = home.bench("t", "", &["--device=cpu"]).ends_with(3);
    assert!(said.contains("not-as-expected"), "{said}");
    let said = home.bench("u", "bs512=nan", &["--device=cpu"]).ends_with(3);
    assert!(said.contains("loss-not-finite"), "{said}");
}

#[test]
fn one_scenario_s_name_in_two_suites_is_told_apart() {
    let home = Home::new();
    let other = home.path("other.yaml");
    fs::copy(home.path("suite.yaml"), &other).expect("a suite");
    let other = format!("--suite={}", other.display());
    let said = home.bench("s", "", &["--device=cpu", &other]).ends_with(0);
    for name in ["suite/one", "other/one"] {
        let named = said.matches(name).count();
        assert!(named >= 3, "{named} × {name} in {said}");
    }
}

#[test]
fn in_ci_nothing_falls_back_to_plain_processes() {
    let home = Home::new();
    let suite = home.path("suite.yaml");
    let line = format!(
        "CI=true DOCKER_HOST=unix:///nowhere/docker.sock cargo xtask bench --device cpu --suite {} \
         --out s",
        suite.display()
    );
    let said = home.shell("s", &line).ends_with(4);
    assert!(said.contains("pass --engine process"), "{said}");
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
    assert!(text.contains("plan: was 1 cell, is 2 cells"), "{text}");
    let after = fs::read(home.path("s").join(SessionFolder::RECORDS)).expect("records");
    assert_eq!(before, after);
}

#[test]
fn a_packed_session_is_resumed_once_it_is_unpacked() {
    let home = Home::new();
    let words = ["--device=cpu", "--resume"];
    home.bench("s", "0001=cancel", &words[..1]).ends_with(3);
    let pack = |words: &[&str]| {
        let mut gzip = Command::new("gzip");
        let done = gzip.args(words).current_dir(home.path("s")).status();
        assert!(done.expect("gzip runs").success());
    };
    pack(&[SessionFolder::RECORDS]);
    let text = home.bench("s", "", &words).ends_with(2);
    assert!(text.contains("unpack it with `gunzip` first"), "{text}");
    assert!(!home.path("s").join(SessionFolder::RECORDS).exists());
    pack(&["-d", SessionFolder::PACKED]);
    home.bench("s", "", &words).ends_with(0);
    assert!(home.read("s").0.complete);
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
    assert_eq!(home.locks(), 1, "the CPU's, which they share");
}

#[test]
fn the_command_of_a_cell_runs_it_alone_and_is_resumed_so() {
    let home = Home::new();
    home.suite("wait: 1s, repeats: 2", &["one", "two"]);
    home.bench("s", "", &["--device=cpu"]).ends_with(0);
    let sources = [reports::Source::read(&SessionFolder::at(home.path("s"))).unwrap()];
    let view = reports::View::of(&sources);
    let cells: Vec<&str> = view
        .report
        .cells
        .iter()
        .map(|cell| &*cell.scenario)
        .collect();
    assert_eq!(cells, ["one", "two"]);
    let line = format!("{} --out ../again", view.commands[1]);
    home.shell("again", &line).ends_with(0);
    let (session, records) = home.read("again");
    let scenarios: Vec<&str> = records.iter().map(|run| &*run.scenario).collect();
    assert_eq!(
        (session.cells.len(), &scenarios[..]),
        (1, &["two", "two"][..])
    );
    // What it was begun with holds until it is complete.
    let other = ["--device=cpu", "--cell=one", "--resume"];
    let text = home.bench("again", "", &other).ends_with(2);
    assert!(text.contains("--cell"), "{text}");
    let none = ["--device=cpu", "--cell=three"];
    let text = home.bench("t", "", &none).ends_with(2);
    assert!(text.contains("no cell `three` in suite for cpu"), "{text}");
}
