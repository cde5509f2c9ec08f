//! `scenarios conform` with programs that need neither torch nor a container.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn conform(words: &[&str], variables: &[(&str, &str)]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["scenarios", "conform"])
        .args(words)
        .current_dir(root())
        .env_remove("PYTHONPATH")
        .envs(variables.iter().copied())
        .output()
        .expect("the program runs");
    let told = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8(told).expect("text"))
}

#[track_caller]
fn check(words: &[&str], code: i32, expected: &[&str]) {
    check_with(words, &[], code, expected);
}

#[track_caller]
fn check_with(words: &[&str], variables: &[(&str, &str)], code: i32, expected: &[&str]) {
    let (output, told) = conform(words, variables);
    assert_eq!(output.status.code(), Some(code), "{words:?}:\n{told}");
    // Tables are as wide as what stands in them.
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in expected {
        assert!(
            flat.contains(expected),
            "{words:?}: no `{expected}` in\n{told}"
        );
    }
}

/// A program in shell that writes these lines.
fn lines(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("'{line}'"));
    let lines: Vec<String> = lines.collect();
    format!(
        r#"printf '%s\n' {} >> "$TORCHGAUGE_EVENTS""#,
        lines.join(" ")
    )
}

#[test]
fn ranks_are_started_where_the_command_does_not() {
    let shell = |script: &str| script.replace('@', r#">> "$TORCHGAUGE_EVENTS""#);
    let said = shell(
        r#"printf '{"rank":%s,"event":"started","version":4,"run":"conform"}\n' $RANK @; printf '{"rank":%s,"event":"finished","values":{}}\n' $RANK @"#,
    );
    let words = ["--ranks", "3", "--", "sh", "-c", &said];
    check(&words, 0, &["rank 2: no steps", "the program conforms"]);
    let dies = format!("{said}; [ $RANK = 1 ] && exit 7; exit 0");
    check(
        &["--ranks", "2", "--until-exit", "--", "sh", "-c", &dies],
        1,
        &["rank 1: it failed", "ended with status 7"],
    );
}

const STARTED: &str = r#"{"event":"started","version":4,"run":"conform"}"#;
const STEP: &str = r#"{"event":"step","index":0,"values":{"step_seconds":0.5,"loss":2}}"#;
const FINISHED: &str = r#"{"event":"finished","values":{}}"#;

#[test]
fn kernels_of_profiled_steps_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("train.py");
    let loop_ = "import torch\noptimizer = torch.optim.SGD([torch.Parameter()])\n\
                 for i in range(99):\n    torch.work()\n    optimizer.step()\n";
    fs::write(&script, loop_).unwrap();
    let fake = root().join("scenarios/python/tests/fake");
    let variables = [("PYTHONPATH", fake.to_str().unwrap())];
    let command = ["--", "python3", script.to_str().unwrap()];
    let words = [&["--steps", "3", "--profiled-steps", "2"][..], &command].concat();
    let expected = [
        "profile ",
        "kernel in a step for",
        "aten::mm 1 8.00 ms aten::linear 1 1.00 ms",
        "2 kernels in all",
        "the program conforms",
    ];
    check_with(&words, &variables, 0, &expected);
    let (_, told) = conform(&[&["--steps", "3"][..], &command].concat(), &variables);
    assert!(!told.contains("kernel"), "nobody asked: {told}");
}

#[test]
fn the_examples_conform() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("steps");
    let compiled = Command::new("g++")
        .args([
            "-std=c++17",
            "-O1",
            "docs/examples/programs/steps.cpp",
            "-o",
        ])
        .arg(&binary)
        .current_dir(root())
        .status()
        .expect("g++ runs; apt-get install g++");
    assert!(compiled.success());
    let binary = binary.to_str().unwrap();
    let steps = ["--warmup", "2", "--steps", "3", "--"];
    let all = |program: &[&'static str]| [&steps[..], program].concat();
    check(
        &all(&["python3", "docs/examples/programs/train.py"]),
        0,
        &[
            "0 3 step_seconds",
            "0 samples_count 24 count helper",
            "0 weight 0.0",
            "step_source helper",
            "the program conforms",
        ],
    );
    check(
        &all(&["sh", "docs/examples/programs/steps.sh"]),
        0,
        &["0 3 step_seconds", "naps_count 3 count program"],
    );
    check(
        &[&steps[..], &[binary]].concat(),
        0,
        &["0 samples_count 48.000 program", "samples/s program"],
    );
    for program in [
        "python3 docs/examples/programs/train.py",
        "sh docs/examples/programs/steps.sh",
        binary,
    ] {
        let mut words = program.split(' ');
        let alone = Command::new(words.next().unwrap())
            .args(words)
            .current_dir(root())
            .env("PYTHONPATH", root().join("scenarios/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{program} alone: {alone:?}");
    }
}

#[test]
fn the_hook_counts_steps_of_a_program_that_does_nothing_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("train.py");
    let text = "import time, torch\n\
        optimizer = torch.optim.SGD([torch.Parameter()])\n\
        for i in range(1000):\n    optimizer.step()\n    time.sleep(0.01)\n";
    fs::write(&program, text).unwrap();
    let fake = root().join("scenarios/python/tests/fake");
    let variables = [
        ("PYTHONPATH", fake.to_str().unwrap()),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ];
    let program = program.to_str().unwrap();
    let words = ["--samples-per-step", "8", "--", "python3", program];
    let expected = [
        "0 20 step_seconds",
        "samples_count 160 count hook",
        "throughput_samples_per_second",
        "torch 2.99.0+fake",
        "after its measured steps the program was ended by SIGTERM",
        "the program conforms",
    ];
    check_with(&words, &variables, 0, &expected);
    let without = [&["--no-hook", "--time-limit", "1s"], &words[2..]].concat();
    let expected = ["violation: no event was written", "took longer than 1.00 s"];
    check_with(&without, &variables, 1, &expected);
    let more = [
        "--steps",
        "990",
        "--warmup",
        "20",
        "--until-exit",
        "--",
        "python3",
        program,
    ];
    let expected = [
        "violation: rank 0: 980 measured steps, and 990 were asked for",
        "the program ended with status 0",
    ];
    check_with(&more, &variables, 1, &expected);
}

#[test]
fn every_violation_is_named_with_its_line() {
    let value = |words: &str| format!(r#"{{"event":"value","name":"bleu","value":1,{words}}}"#);
    let (unit, better) = (value(r#""unit":"furlong""#), value(r#""better":"up""#));
    let program = lines(&[
        STARTED,
        &unit,
        &better,
        "garbage",
        r#"{"event":"step","index":1,"values":{}}"#,
        r#"{"event":"heartbeat","phase":"warmup","step":1,"rank":3}"#,
        r#"{"event":"facts","facts":{"No":"1"}}"#,
        r#"{"event":"step","index":0,"values":{"loss":1}}"#,
        r#"{"event":"value","name":"measured_seconds","value":1,"unit":"bytes"}"#,
        r#"{"event":"finished","values":{"peak_allocated_bytes":5,"peak_reserved_bytes":1}}"#,
        STEP,
    ]);
    check(
        &["--steps", "2", "--", "sh", "-c", &program],
        1,
        &[
            "line 2 of the results file",
            "unknown variant `furlong`, expected one of `samples-per-second`",
            "line 3 of the results file",
            "unknown variant `up`, expected `less` or `more`",
            "line 4 of the results file, `garbage`",
            "line 5 of the results file",
            "step 1, expected step 0",
            "line 6 of the results file",
            "of rank 3, expected ranks below 1",
            "line 7 of the results file",
            "the name `No`: expected up to 64 of a-z",
            "line 11 of the results file",
            "an event after the last one",
            "rank 0: 1 measured step, and 2 were asked for",
            "rank 0: step 0 has no step_seconds",
            "rank 0: measured_seconds in `bytes`, expected `s`",
            "rank 0: peak_allocated_bytes is 5, more than peak_reserved_bytes, which is 1",
            "the program does not conform: 11 violations",
        ],
    );
}

#[test]
fn a_program_without_steps_says_so() {
    let program = lines(&[
        STARTED,
        r#"{"event":"facts","facts":{"engine":"v8"}}"#,
        r#"{"event":"finished","values":{"measured_seconds":1.5}}"#,
    ]);
    let expected = [
        "rank 0: engine v8",
        "rank 0: no steps",
        "the program conforms",
    ];
    check(&["--", "sh", "-c", &program], 0, &expected);
}

#[test]
fn what_ends_badly_is_no_success() {
    let failed =
        r#"{"event":"failed","reason":"exception","phase":"measure","message":"KeyError: 1"}"#;
    let failed = lines(&[STARTED, failed]);
    let torn = format!("{}; printf '{{' >> $TORCHGAUGE_EVENTS", lines(&[STARTED]));
    for (program, expected) in [
        ("echo some words; exit 3", "| some words"),
        ("exit 3", "violation: the program ended with status 3"),
        (
            "kill -SEGV $$",
            "violation: the program was ended by SIGSEGV",
        ),
        (failed.as_str(), "violation: rank 0: it failed: KeyError: 1"),
        (torn.as_str(), "line 2 of the results file is torn"),
        (&lines(&[STARTED]), "ends without the event `finished`"),
        ("rm $TORCHGAUGE_EVENTS", "the results file cannot be read"),
        (
            "rm $TORCHGAUGE_EVENTS; mkfifo $TORCHGAUGE_EVENTS; sleep 0.2",
            "the results file cannot be read",
        ),
    ] {
        check(&["--", "sh", "-c", program], 1, &[expected]);
    }
    check(
        &["--", "/no/such/program"],
        2,
        &["cannot start /no/such/program"],
    );
    check(&[], 2, &["COMMAND"]);
    check(&["--steps", "0", "--", "true"], 2, &["--steps"]);
}

#[test]
fn nothing_stays_behind_and_nothing_goes_on_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let began = Instant::now();
    // It ignores SIGTERM, has a child, and a grandchild that left with the pipe.
    let program = format!(
        "trap '' TERM; sleep 300 & echo $! >> {pids}; setsid sleep 8 & {}; \
         while :; do sleep 0.1; done",
        lines(&[STARTED, STEP, FINISHED]),
        pids = pids.display(),
    );
    let expected = ["after its measured steps the program was ended by SIGKILL"];
    check(&["--steps", "1", "--", "sh", "-c", &program], 0, &expected);
    let child = fs::read_to_string(&pids).unwrap();
    let state = fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    for (endless, expected) in [
        ("yes >> $TORCHGAUGE_EVENTS", "larger than 67108864 bytes"),
        ("yes", "the program wrote more than 67108864 bytes"),
    ] {
        check(&["--", "sh", "-c", endless], 1, &["violation:", expected]);
    }
    check(
        &["--time-limit", "1s", "--", "sleep", "300"],
        1,
        &["the program took longer than 1.00 s and was ended"],
    );
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn what_a_program_says_acts_on_no_terminal() {
    let program = lines(&[
        STARTED,
        "\u{1b}[2J",
        r#"{"event":"facts","facts":{"a":"\u001b[2J"}}"#,
        FINISHED,
    ]) + "; printf '\\033]0;x\\007\\n'";
    let (_, told) = conform(&["--", "sh", "-c", &program], &[]);
    assert!(!told.contains(['\u{1b}', '\u{7}']), "{told:?}");
    assert!(told.contains("\\u{1b}[2J"), "{told}");
}

/// Those of the helper and the hook.
#[test]
fn the_python_tests_pass() {
    let tests = root().join("scenarios/python/tests");
    let output = Command::new("python3")
        .args(["-m", "unittest", "discover", "-s"])
        .arg(&tests)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 runs; apt-get install python3");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("OK"), "{told}");
}

/// Lines, units and versions stand in the page and in Python too.
#[test]
fn the_page_and_the_helper_say_what_the_code_does() {
    let page = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let lines = page
        .split('`')
        .filter(|code| code.starts_with(r#"{"event""#));
    let mut events = 0;
    for line in lines {
        events += 1;
        serde_json::from_str::<protocol::Event>(line).unwrap_or_else(|error| {
            panic!("{line}: {error}");
        });
    }
    assert_eq!(events, 12, "one for each event");
    let run = page
        .lines()
        .find(|line| line.trim().starts_with(r#"{"version""#));
    let run: protocol::ProgramRun = serde_json::from_str(run.unwrap()).unwrap();
    assert_eq!(run.version, protocol::VERSION);

    let helper = fs::read_to_string(root().join("scenarios/python/torchgauge.py")).unwrap();
    assert!(helper.contains(&format!("\nVERSION = {}\n", protocol::VERSION)));
    let error = serde_json::from_str::<record::Unit>("\"x\"").unwrap_err();
    let error = error.to_string();
    let units: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(units.len() > 10, "{error}");
    for unit in units {
        assert!(helper.contains(&format!("    \"{unit}\",\n")), "{unit}");
        assert!(page.contains(&format!("`{unit}`")), "{unit}");
    }
}
