//! Programs that report by `docs/protocol.md`, which need neither torch nor a container.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bench_suite::{
    hook,
    results::{self, Results},
};
use protocol::{EVENTS_VARIABLE, ProgramRun, RUN_VARIABLE, Snapshot, Source, Until, VERSION};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a program to its end with the hook in place, asked for 20 steps after 2 of warm-up and 3
/// with the profiler; what it reported.
fn reported(words: &[&str], measured: u32, path: Option<&Path>) -> Results {
    let folder = tempfile::tempdir().unwrap();
    hook::write(folder.path()).unwrap();
    let events = folder.path().join("events");
    fs::write(&events, "").unwrap();
    let asked = ProgramRun {
        version: VERSION,
        run: "r-1".to_owned(),
        warmup: 2,
        warmup_seconds: 0,
        measured,
        profiled: 3,
        attribution: false,
        snapshot: Snapshot::Never,
        snapshot_entries: 0,
        samples_per_step: Some(8.0),
        until: Until::Exit,
    };
    let before = path.map(|path| path.as_os_str().to_owned());
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(root())
        .env(EVENTS_VARIABLE, &events)
        .env(RUN_VARIABLE, serde_json::to_string(&asked).unwrap())
        .env(
            "PYTHONPATH",
            hook::python_path(folder.path().into(), before),
        )
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let results = results::read(&events, "r-1", 1, 1 << 20);
    assert_eq!(results.fault, None, "{words:?}");
    results
}

#[test]
fn the_examples_report_as_the_page_says() {
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
    for (program, name, value, source) in [
        (
            "python3 docs/examples/programs/train.py",
            "samples_count",
            24.0,
            Source::Helper,
        ),
        (
            "sh docs/examples/programs/steps.sh",
            "naps_count",
            3.0,
            Source::Program,
        ),
        (binary, "samples_count", 48.0, Source::Program),
    ] {
        let words: Vec<&str> = program.split(' ').collect();
        let told = reported(&words, 3, None);
        let told = told.first();
        assert_eq!(told.steps.len(), 3, "{program}");
        assert_eq!(told.values.get(name), Some(&value), "{program}");
        let of = told.reported.get(name).map(|reported| reported.source);
        assert_eq!(of.unwrap_or(Source::Program), source, "{program}");
        let alone = Command::new(words[0])
            .args(&words[1..])
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
    let text = "import torch\n\
        optimizer = torch.optim.SGD([torch.Parameter()])\n\
        for i in range(30):\n    torch.work()\n    optimizer.step()\n";
    fs::write(&program, text).unwrap();
    let fake = root().join("scenarios/python/tests/fake");
    let told = reported(&["python3", program.to_str().unwrap()], 20, Some(&fake));
    let told = told.first();
    assert_eq!(told.steps.len(), 20);
    assert_eq!(told.values.get("samples_count"), Some(&160.0));
    assert_eq!(told.reported["samples_count"].source, Source::Hook);
    assert_eq!(told.facts["torch"], "2.99.0+fake");
    let kernels: Vec<&str> = told.kernels.values().map(|one| one.name.as_str()).collect();
    assert_eq!(kernels, ["aten::linear", "aten::mm"]);
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
