//! The real command, where it needs neither libtorch nor a container engine.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("the file is written");
        path.to_str().expect("a path that is text").to_owned()
    }

    fn is_empty_but(&self, name: &str) -> bool {
        let entries = fs::read_dir(self.folder.path()).expect("the folder is there");
        entries.flatten().all(|entry| entry.file_name() == name)
    }
}

fn xtask(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(words)
        .current_dir(folder)
        .env_remove("TORCHGAUGE_HISTORY")
        .output()
        .expect("torchgauge runs")
}

#[track_caller]
fn check(words: &[&str], code: i32, expected: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = xtask(&root, words);
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
    output
}

/// A series of `count` points a day apart, whose level falls by 10 % at `at`.
fn series(count: u32, at: u32) -> String {
    let mut text = "timestamp,revision,value\n".to_owned();
    for i in 0..count {
        // A fixed scatter of about half a percent, without a pattern that repeats soon.
        let scatter = f64::from((i * 7919 + 13) % 101) / 101.0 - 0.5;
        let level = if i < at { 1000.0 } else { 900.0 };
        let value = level * (1.0 + 0.01 * scatter);
        let time = 1_700_000_000 + i * 86_400;
        writeln!(text, "{time},r{i},{value}").expect("a string takes everything");
    }
    text
}

#[test]
fn a_drop_in_a_series_is_found_where_it_is() {
    let home = Home::new();
    let file = home.file("series.csv", &series(60, 40));
    let output = check(
        &["trend", "--input", &file, "--format", "json"],
        0,
        "change_points",
    );
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let points = found["change_points"].as_array().expect("a list");
    assert_eq!(points.len(), 1, "{found}");
    assert_eq!(points[0]["index"], 40);
    assert_eq!(points[0]["revision"], "r40");
    let ratio = points[0]["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 0.9).abs() < 0.01, "{ratio}");
    for field in ["timestamp", "before", "after", "interval", "p"] {
        assert!(!points[0][field].is_null(), "{field}");
    }
    check(&["trend", "--input", &file], 0, "1 change");
    check(
        &["trend", "--input", &file, "--format", "markdown"],
        0,
        "| r40",
    );
}

#[test]
fn a_series_that_is_none_is_refused_and_an_empty_one_has_no_changes() {
    let home = Home::new();
    for (text, expected) in [
        ("time,value\n1,2\n", "timestamp,revision,value"),
        ("timestamp,revision,value\n1,a,NaN\n", "line 2"),
        ("timestamp,revision,value\n1,a,fast\n", "line 2"),
        ("timestamp,revision,value\n1,a\n", "line: 2"),
    ] {
        let file = home.file("bad.csv", text);
        check(&["trend", "--input", &file], 2, expected);
    }
    for text in [
        "timestamp,revision,value\n",
        "timestamp,revision,value\n1,a,2\n",
    ] {
        let file = home.file("short.csv", text);
        let output = check(
            &["trend", "--input", &file, "--format", "json"],
            0,
            "change_points",
        );
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let expect = serde_json::json!({"change_points": [], "too_short": true});
        assert_eq!(found, expect);
    }
    check(
        &["trend", "--input", "/no/such/file.csv"],
        2,
        "/no/such/file.csv",
    );
}

#[test]
fn a_series_from_a_file_can_fail_a_gate_and_be_drawn() {
    let home = Home::new();
    let fell = home.file("fell.csv", &series(60, 59));
    let long_ago = home.file("long-ago.csv", &series(60, 30));
    check(&["trend", "--input", &fell, "--gate"], 1, "regressed, new");
    check(
        &["trend", "--input", &fell, "--gate", "--lower-is-better"],
        0,
        "improved, new",
    );
    check(&["trend", "--input", &long_ago, "--gate"], 0, "r30");
    // The series ends in 2024: too old for whoever says how old it may be.
    check(
        &[
            "trend",
            "--input",
            &long_ago,
            "--gate",
            "--stale-after",
            "3",
        ],
        1,
        "no result for",
    );
    check(&["trend", "--lower-is-better"], 2, "--input");

    let out = home.path("drawn");
    let folder = out.to_str().expect("text");
    check(&["trend", "--input", &fell, "--out", folder], 0, "1 change");
    let page = std::fs::read_to_string(out.join("trend.html")).expect("a page");
    assert!(page.contains("</svg>") && page.contains("r59"));
    for name in ["trend.md", "trend.json"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    let taken = format!("{fell}/below");
    check(&["trend", "--input", &fell, "--out", &taken], 4, &taken);
}

#[test]
fn a_file_without_an_end_is_no_series() {
    let home = Home::new();
    let large = home.file("large.csv", "");
    let file = fs::File::options().write(true).open(&large);
    let more = (256 << 20) + 1;
    file.and_then(|file| file.set_len(more)).expect("a file");
    check(&["trend", "--input", &large], 2, "256 MiB");
    let backwards = home.file("backwards.csv", "timestamp,revision,value\n2,b,1\n1,a,1\n");
    check(&["trend", "--input", &backwards], 0, "the oldest first");
}

/// What would be waited for, or never end, where a command wants a file.
#[test]
fn what_is_no_file_is_refused_at_once() {
    let home = Home::new();
    home.file("series.csv", &series(20, 10));
    let session = include_str!("../../reports/gallery/h200-idle/session.json");
    for folder in ["no-session", "no-records", "no-search", "no-ledger"] {
        fs::create_dir(home.path(folder)).expect("a folder");
    }
    home.file("no-records/session.json", session);
    let check = |place: &str, told: &str, line: &str| {
        let output = Command::new("timeout")
            .args(["20", env!("CARGO_BIN_EXE_torchgauge")])
            .args(line.split(' '))
            .current_dir(home.folder.path())
            .env_remove("TORCHGAUGE_HISTORY")
            .env("XDG_CACHE_HOME", home.path("cache"))
            .output()
            .expect("timeout runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            said.contains(told) && said.contains(place),
            "{line}: {said}"
        );
    };
    let of_documents = [
        "scenarios check ./PLACE",
        "bench --suite ./PLACE --device cpu --engine mock:",
        "images inspect ./PLACE",
    ];
    let of_files = [
        "trend --input PLACE",
        "trend --input series.csv --gate --ledger PLACE",
        "trend --input series.csv --summary PLACE",
        "ledger --ledger PLACE list",
        "images base --to PLACE",
        "images export torch-2.11.0-cpu --to PLACE",
        "dist --out dist --program PLACE",
    ];
    let of_sessions = [
        "report FOLDER",
        "claims --of claims FOLDER",
        "compare FOLDER:a FOLDER:b",
        "history --history history add FOLDER",
    ];
    let make = |program: &str, place: &str| {
        let made = Command::new(program).arg(home.path(place)).status();
        assert!(made.expect("it runs").success(), "{program} {place}");
    };
    for (program, told) in [("mkfifo", "a FIFO"), ("mkdir", "a directory")] {
        let place = format!("{program}.yaml");
        make(program, &place);
        for line in of_documents.iter().chain(&of_files) {
            check(&place, told, &line.replace("PLACE", &place));
        }
        for (folder, file) in [
            ("no-session", "session.json"),
            ("no-records", "records.ndjson"),
        ] {
            let place = format!("{folder}/{file}");
            make(program, &place);
            for line in of_sessions {
                check(file, told, &line.replace("FOLDER", folder));
            }
            let remove = [fs::remove_dir, fs::remove_file];
            let removed = remove
                .iter()
                .any(|remove| remove(home.path(&place)).is_ok());
            assert!(removed, "{place}");
        }
    }
    // What is written may go to a device: `/dev/null`, and what a shell hands over as `/dev/fd/63`.
    // What is written beside its place would take a device's, were it not refused.
    let is_output = |line: &str| {
        let options = ["--junit", "--summary", "--to"];
        options.iter().any(|option| line.contains(option))
    };
    for line in of_files.into_iter().filter(|line| !is_output(line)) {
        check("/dev/zero", "a device", &line.replace("PLACE", "/dev/zero"));
    }
    make("mkfifo", "no-session/session.json");
    check("session.json", "a FIFO", "bench --resume no-session");
    make("mkfifo", "no-search/bisect.json");
    check("bisect.json", "a FIFO", "bisect --resume no-search");
    // The folder is locked before the file in it is read.
    make("mkfifo", "no-ledger/fifo");
    check(
        "no-ledger/fifo",
        "Not a directory",
        "ledger --ledger no-ledger/fifo/ledger.toml list",
    );
}

/// The same lines in any order are the same series.
#[test]
fn lines_in_any_order_are_one_series() {
    let home = Home::new();
    let text = series(60, 40);
    let (header, lines) = text.split_once('\n').expect("a header");
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_by_key(|line| line.bytes().rev().collect::<Vec<_>>());
    let text = format!("{header}\n{}\n", lines.join("\n"));
    let file = home.file("any-order.csv", &text);
    let note = "lines were older than the line before them";
    check(&["trend", "--input", &file], 0, "1 change");
    check(&["trend", "--input", &file], 0, note);
}

/// Whoever reads a list may stop where he likes.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let home = Home::new();
    let db = home.path("history");
    let db = db.to_str().expect("text");
    let session = "reports/gallery/h200-versions";
    check(
        &["history", "--history", db, "add", session],
        0,
        "runs added",
    );
    let mut list = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["history", "--history", db, "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("torchgauge runs");
    drop(list.stdout.take());
    let output = list.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
}

#[test]
fn a_series_has_a_threshold() {
    let home = Home::new();
    let file = home.file("series.csv", &series(60, 59));
    let gate = ["trend", "--input", &file, "--gate"];
    check(&gate, 1, "regressed by -");
    let with = |threshold, code, expected| {
        check(
            &[&gate[..], &["--threshold", threshold]].concat(),
            code,
            expected,
        )
    };
    with("0.5", 0, "regressed within the noise threshold, new");
    with("2", 2, "expected a number from 0 to below 1");
}

/// What cannot be written is no success.
#[test]
fn a_full_output_device_is_an_error() {
    let home = Home::new();
    let file = home.file("series.csv", &series(60, 59));
    let mut errors = Vec::new();
    for format in ["text", "json", "markdown"] {
        let full = fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("the device");
        let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
            .args(["trend", "--input", &file, "--format", format])
            .stdout(full)
            .output()
            .expect("torchgauge runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{format}: {told}");
        errors.push(told.into_owned());
    }
    insta::assert_snapshot!(errors.concat(), @r"
    error: the output cannot be written: No space left on device (os error 28)
    error: the output cannot be written: No space left on device (os error 28)
    error: the output cannot be written: No space left on device (os error 28)
    ");
}

#[test]
fn a_trend_is_written_for_pipelines() {
    let home = Home::new();
    let fell = home.file("fell.csv", &series(60, 59));
    let summary = home.path("summary.md");
    let output = check(
        &[
            "trend",
            "--input",
            &fell,
            "--gate",
            "--annotations",
            "--summary",
            summary.to_str().expect("text"),
        ],
        1,
        "last good r58, first bad r59",
    );
    let told = String::from_utf8_lossy(&output.stdout);
    let text = fs::read_to_string(summary).expect("a file");
    let told = format!("{told}\n{text}").replace(&fell, "fell.csv");
    insta::assert_snapshot!("trend_for_pipelines", told);
    let short = home.file("short.csv", &series(9, 5));
    check(
        &["trend", "--input", &short],
        0,
        "too short to judge: 9 of 10 points",
    );
    check(
        &["trend", "--input", &short, "--gate"],
        2,
        "has 9 of 10 points",
    );
}

/// A change fails the gate of the run that brought it to light, and no later one.
#[test]
fn a_gate_fails_once() {
    let home = Home::new();
    for (count, code, words) in [
        (59, 0, "no change"),
        (60, 1, "regressed, new"),
        (61, 0, "regressed"),
    ] {
        let file = home.file("series.csv", &series(count, 59));
        check(&["trend", "--input", &file, "--gate"], code, words);
    }
}

#[test]
fn bad_suites_start_nothing_and_write_nothing() {
    let home = Home::new();
    let out = home.path("session");
    let out = out.to_str().expect("text");
    let huge = format!("version: 1\n# {}\n", "x".repeat(10 << 20));
    for (text, expected) in [
        ("version: 1\nscenarois: []\n", "scenarois"),
        (
            "version: 1\ndescription: for a test\nscenarios:\n  - {name: a, model: resnet51}\n",
            "resnet51",
        ),
        (
            "version: 1\ndescription: for a test\nscenarios:\n  - {name: ../a, model: resnet-tiny}\n",
            "../a",
        ),
        (
            "version: 1\ndescription: for a test\nscenarios:\n  - {name: a, model: resnet-tiny, axes: {batch: []}}\n",
            "axes.batch",
        ),
        (
            "version: 1\ndescription: for a test\nscenarios:\n  - {name: a, model: resnet-tiny, axes: {batch: -1}}\n",
            "65536",
        ),
        (
            "version: 1\ndescription: for a test\nscenarios:\n  - {name: a, name: b, model: resnet-tiny}\n",
            "name",
        ),
        (huge.as_str(), "larger than 1024 KiB"),
    ] {
        let file = home.file("suite.yaml", text);
        check(
            &["bench", "--suite", &file, "--device", "cpu", "--out", out],
            2,
            expected,
        );
        assert!(
            home.is_empty_but("suite.yaml"),
            "{expected}: something was written"
        );
    }
    check(
        &["bench", "--suite", "no-such-suite", "--out", out],
        2,
        "no-such-suite",
    );
    check(&["bench", "--device", "tpu", "--out", out], 2, "tpu");
    check(&["bench", "--blocks", "0"], 2, "1..");
}

#[test]
fn a_dry_run_says_what_would_run_and_writes_nothing() {
    let home = Home::new();
    let file = home.file(
        "suite.yaml",
        "version: 1\ndescription: for a test\nscenarios:\n  - {name: tiny, model: vit-tiny, axes: {batch: [1, 2]}}\n",
    );
    let words = [
        "bench",
        "--suite",
        &file,
        "--device",
        "cpu",
        "--engine",
        "process",
        "--dry-run",
        "--blocks",
        "3",
    ];
    check(
        &words,
        0,
        "2 cells in 3 blocks on cpu: 6 runs; nothing was started",
    );
    assert!(home.is_empty_but("suite.yaml"));
}

#[test]
fn a_pattern_means_all_images_that_match_it() {
    let bench = |image: &str, code, said: &str| {
        let image = format!("--image={image}");
        let words = ["bench", "--device=cpu", "--dry-run", &image];
        check(&words, code, said)
    };
    let output = bench("torch-2.11.*-cpu", 0, "10 cells");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("2.12"), "{text}");
    let cells = 10
        * fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../images"))
            .expect("images")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with("torch-") && name.ends_with("-cpu.yaml"))
            .count();
    bench("torch-*-cpu", 0, &format!("{cells} cells"));
    bench("tensor*", 2, "there is no image `tensor*`");
}

#[test]
fn the_committed_suites_are_valid() {
    check(&["scenarios", "check"], 0, "smoke: valid");
    // The mounts of its programs lie below it, however the way to it is written.
    for path in ["scenarios/compile.yaml", "images/../scenarios/compile.yaml"] {
        check(&["scenarios", "check", path], 0, "compile.yaml: valid");
    }
    check(&["scenarios", "list"], 0, "smoke");
    check(
        &["scenarios", "show", "smoke", "--device", "cpu"],
        0,
        "resnet-tiny",
    );
    check(&["scenarios", "schema"], 0, "\"$schema\"");
}

#[test]
fn a_suite_is_shown_for_what_this_machine_has() {
    let home = Home::new();
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["scenarios", "show", "smoke"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        // As on a machine without a driver.
        .env("TORCHGAUGE_NVML", home.path("libnvidia-ml.so.1"))
        .output()
        .expect("torchgauge runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains(" on cpu, ") && !text.contains(" on cuda"),
        "{text}"
    );
}

#[test]
fn usage_errors_have_their_own_exit_code() {
    check(&["no-such-command"], 2, "no-such-command");
    check(
        &["compare", "/no/such/session", "/nor/this"],
        2,
        "/no/such/session",
    );
    check(&["report", "/no/such/session"], 2, "/no/such/session");
    let nowhere = ["history", "--history", "/no/such/folder", "list"];
    check(&nowhere, 2, "/no/such/folder");
    check(&["--help"], 0, "Exit codes");
}

/// The program as it is installed: no cargo beside it, no checkout above it.
fn installed(home: &Home, words: &[&str]) -> (Option<i32>, String) {
    fs::create_dir_all(home.path("empty")).expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(words)
        .current_dir(home.path("empty"))
        .env_remove("CARGO")
        .env_remove("TORCHGAUGE_HISTORY")
        .env("XDG_CACHE_HOME", home.path("cache"))
        .output()
        .expect("torchgauge runs");
    let told = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&told).into_owned(),
    )
}

#[test]
fn an_installed_program_has_its_suites_and_images_with_it() {
    let home = Home::new();
    let check = |words: &[&str], expected: &str| {
        let (code, told) = installed(&home, words);
        assert_eq!(code, Some(0), "{words:?}: {told}");
        assert!(told.contains(expected), "{words:?}: {told}");
        assert!(!told.contains("cargo xtask"), "{words:?}: {told}");
    };
    check(&["--help"], "Usage: torchgauge <COMMAND>");
    check(&["scenarios", "list"], "smoke");
    check(
        &["scenarios", "show", "smoke", "--device", "cpu"],
        "resnet-tiny",
    );
    let bench = ["bench", "--device", "cpu", "--engine=mock", "--dry-run"];
    check(&bench, "nothing was started");
    let own = home.file(
        "own.yaml",
        "version: 1\ndescription: d\nscenarios:\n  - {name: tiny, model: vit-tiny, axes: {batch: 2}}\n",
    );
    check(&[&bench[..], &["--suite", &own]].concat(), "1 cell in");
    let left = fs::read_dir(home.path("empty"))
        .expect("the folder")
        .count();
    assert_eq!(left, 0, "something was written where it ran");
    let (code, told) = installed(&home, &["test"]);
    assert_eq!(code, Some(2), "{told}");
    let told = told.replace(home.folder.path().to_str().expect("text"), "/home");
    insta::assert_snapshot!(told, @"error: no checkout of Torchgauge at /home/empty or above it; `test`, `codegen` and `dist` need one, whose root has `scenarios/` and `images/`");
}

/// Commands are called what the user called this one, and what the user wrote stays as it is.
#[test]
fn an_installed_program_gives_commands_by_its_own_name() {
    let home = Home::new();
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/gallery");
    let session = gallery.join("h200-idle").display().to_string();
    let out = home.path("page");
    let words = ["report", &session, "--out", &out.display().to_string()];
    let (code, told) = installed(&home, &words);
    assert_eq!(code, Some(0), "{told}");
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(page.contains("<li>torchgauge bench --suite idle"), "{page}");
    assert!(!page.contains("<li>cargo xtask"), "{page}");
    let fit = [
        "fit",
        "idle",
        "--memory",
        "1GiB",
        "--device",
        "cpu",
        "--dry-run",
    ];
    let (code, told) = installed(&home, &fit);
    assert_eq!(code, Some(2), "{told}");
    insta::assert_snapshot!(told, @"error: `idle` has no batch that can be fitted; name a scenario that trains or serves (`torchgauge scenarios list` shows them)");
    let (code, told) = installed(&home, &["report", "/no/cargo xtask"]);
    assert_eq!(code, Some(2), "{told}");
    insta::assert_snapshot!(told, @"error: cannot read /no/cargo xtask/session.json: No such file or directory (os error 2); is this the folder of a session?");
}

#[test]
fn shells_and_man_know_every_command() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = check(&["completions", shell], 0, "torchgauge");
        let script = String::from_utf8_lossy(&output.stdout);
        for word in ["bench", "until-decided", "doctor"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let man = home.path("man1");
    check(&["man", man.to_str().expect("text")], 0, "manual pages");
    for page in [
        "torchgauge.1",
        "torchgauge-bench.1",
        "torchgauge-images-build.1",
    ] {
        let text = fs::read_to_string(man.join(page)).expect(page);
        assert!(text.contains(".SH"), "{page}");
    }
}

#[test]
fn the_version_names_the_revision() {
    let output = check(&["--version"], 0, "torchgauge 0.");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let revision = text
        .split_once('(')
        .and_then(|(_, rest)| rest.trim().strip_suffix(')'));
    let revision = revision.expect(&text);
    assert!(!revision.is_empty() && !revision.contains(' '), "{text}");
}

#[test]
fn a_description_does_nothing_to_a_terminal_or_to_ci() {
    let home = Home::new();
    let file = home.file(
        "suite.yaml",
        "version: 1\ndescription: \"x\\e]0;mine\\a\\n::error::y\\u202ez\"\nscenarios:\n  - {name: tiny, \
         model: vit-tiny, axes: {batch: 2}}\n",
    );
    let output = check(
        &["scenarios", "show", &file, "--device", "cpu"],
        0,
        "\\u{1b}]0;mine",
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text}"
    );
    assert!(
        !text.lines().any(|line| line.trim_start().starts_with("::")),
        "{text}"
    );
}

#[test]
fn a_search_is_told_before_it_is_made() {
    let words = [
        "fit",
        "smoke",
        "--memory",
        "1GiB",
        "--device",
        "cpu",
        "--dry-run",
    ];
    check(&words, 0, "within 1.0 GiB on cpu; nothing was started");
}

#[test]
fn a_cache_that_cannot_be_used_is_a_finding() {
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["doctor", "--format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("XDG_CACHE_HOME", "/dev/null")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("XDG_CACHE_HOME") && text.contains("\"cpu\""),
        "{text}"
    );
}

#[test]
fn tables_in_a_log_fit_a_hundred_columns() {
    for words in [
        &["doctor"] as &[&str],
        &["scenarios", "list"],
        &["scenarios", "show", "smoke", "--device", "cpu"],
        &["bench", "--device", "cpu", "--dry-run"],
    ] {
        let output = check(words, 0, "");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut rows = text.lines().filter(|line| line.starts_with(' '));
        let wide = rows.find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{words:?}: {text}");
    }
}

/// What the command prints to a terminal of 80 columns, without colours: lines of prose wrap there by
/// themselves, and rows, rules and names above rows have to fit.
fn in_a_terminal(words: &[&str]) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_torchgauge");
    let line = format!("stty cols 80 rows 24; exec {program} {}", words.join(" "));
    let output = Command::new("script")
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .env_remove("TORCHGAUGE_HISTORY")
        .stdin(Stdio::null())
        .output()
        .expect("`script` of util-linux runs");
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let mut lines = Vec::new();
    let mut was_drawn = 0;
    for line in text.lines() {
        let is_drawn = line.starts_with([' ', '─', '═', '\u{1b}']);
        let mut parts = line.split('\u{1b}');
        let mut plain = parts.next().unwrap_or_default().to_owned();
        plain.extend(parts.filter_map(|part| Some(part.split_once('m')?.1)));
        let plain = plain.trim_end();
        assert!(
            !is_drawn || plain.chars().count() <= 80,
            "{words:?}: {plain:?} in\n{text}"
        );
        was_drawn += usize::from(is_drawn);
        lines.push(plain.to_owned());
    }
    assert!(was_drawn > 4, "{words:?}:\n{text}");
    lines
}

#[test]
fn tables_in_a_terminal_fit_its_columns() {
    let of = |image| format!("reports/gallery/h200-versions:{image}");
    let [base, head] = ["torch-2.6.0-cu124-sm90", "torch-2.12.1-cu130-sm90"].map(of);
    let compared = in_a_terminal(&["compare", &base, &head, "--all"]);
    // Columns that find no room follow below, with what tells their rows apart.
    let with = |words: &[&str]| {
        let lines = compared.iter();
        lines
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .count()
    };
    let found = (
        with(&["throughput", "649.1 samples/s"]),
        with(&["throughput", "+12.18 %"]),
    );
    assert_eq!(found, (1, 1), "{compared:?}");
    in_a_terminal(&["claims", "reports/gallery/h200-claims"]);
    let home = Home::new();
    let mut points = "timestamp,revision,value\n".to_owned();
    for night in 0..60 {
        let value = if night < 30 { 100.0 } else { 90.0 } + f64::from(night % 7) / 20.0;
        let time = 1_760_000_000 + night * 86_400;
        writeln!(points, "{time},abcdef0123456789abcdef{night},{value}").expect("text");
    }
    let points = home.file("points.csv", &points);
    let trend = in_a_terminal(&["trend", "--input", &points]);
    let with = |word: &str| trend.iter().filter(|line| line.contains(word)).count();
    assert_eq!((with("range"), with("verdict")), (1, 1), "{trend:?}");
}

/// The comparison in the README is what the command beside it prints.
#[test]
fn the_readme_shows_a_real_comparison() {
    const BEGIN: &str = "    $ cargo xtask ";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("README.md")).expect("README.md");
    let (before, rest) = page.split_once(BEGIN).expect("a command with its output");
    let (command, rest) = rest.split_once('\n').expect("its output");
    let (shown, after) = rest.split_once("\n\nThis").expect("the words below it");
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(command.split(' '))
        .current_dir(&root)
        .output()
        .expect("torchgauge runs");
    let printed = String::from_utf8(output.stdout).expect("text");
    let has_failed = printed.contains("Gate failed: ");
    assert_eq!(output.status.code(), Some(i32::from(has_failed)));
    let indent = |line: &str| match line {
        "" => "\n".to_owned(),
        line => format!("    {line}\n"),
    };
    let block: String = printed.lines().map(indent).collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!(
            "{before}{BEGIN}{command}\n{}\n\nThis{after}",
            block.trim_end()
        );
        fs::write(root.join("README.md"), page).expect("README.md");
        return;
    }
    assert_eq!(shown.trim_end(), block.trim_end(), "run with UPDATE_DOCS=1");
}
