//! The workflow in `.github/` calls commands that there are, as they are.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use protocol::Precision;
use record::ImageFacts;
use serde_json::Value;

use crate::support::{Home, records, session};

/// One step of a job that runs a shell.
struct Step {
    job: String,
    name: String,
    script: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.github/workflows")
}

fn parsed(file: &Path) -> Value {
    let document = strict_yaml::Document::read(file).unwrap_or_else(|error| panic!("{error}"));
    document.value().clone()
}

fn workflow() -> Value {
    parsed(&folder().join("gpu-bench.yml"))
}

fn steps() -> Vec<Step> {
    let workflow = workflow();
    let jobs = workflow["jobs"].as_object().expect("jobs");
    let mut steps = Vec::new();
    for (job, about) in jobs {
        for step in about["steps"].as_array().expect("steps") {
            if let Some(script) = step["run"].as_str() {
                steps.push(Step {
                    job: job.clone(),
                    name: step["name"].as_str().unwrap_or_default().to_owned(),
                    script: script.replace("\\\n", " "),
                });
            }
        }
    }
    steps
}

/// The words of every `cargo xtask` of a script, its variables replaced.
fn commands(script: &str, variables: &BTreeMap<&str, &str>) -> Vec<Vec<String>> {
    let calls = script.lines().filter_map(|line| {
        let (_, call) = line.split_once("cargo xtask ")?;
        Some(call.split(">>").next().unwrap_or(call).trim())
    });
    calls
        .map(|call| {
            let words = call.split_whitespace().map(|word| {
                let mut word = word.trim_matches('"').to_owned();
                for (name, value) in variables {
                    word = word.replace(&format!("${name}"), value);
                }
                assert!(
                    !word.contains('$'),
                    "`{word}` in `{call}` has no value here"
                );
                word
            });
            words.collect()
        })
        .collect()
}

fn variables() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("SUITE", "smoke"),
        ("BLOCKS", "5"),
        ("RUN_URL", "https://example.org/runs/1"),
        ("BASE_IMAGE", "old"),
        ("HEAD_IMAGE", "new"),
        ("SESSION", "sessions/this"),
        ("GITHUB_REF_NAME", "main"),
        ("GITHUB_SHA", "0123abc"),
        ("GITHUB_STEP_SUMMARY", "step.md"),
    ])
}

/// What the workflow expects to have been measured by `bench`.
fn measured(head_speed: f64) -> Home {
    let home = Home::new();
    let mut this = session("this");
    this.images = ["old", "new"]
        .map(|name| ImageFacts {
            name: name.into(),
            ..ImageFacts::default()
        })
        .to_vec();
    let mut all = records("this", "old", Precision::Fp32, 100.0);
    all.extend(records("this", "new", Precision::Fp32, head_speed));
    home.write("this", &this, &all);
    home
}

#[test]
fn the_workflow_has_the_form_that_github_reads() {
    let workflow = workflow();
    let top: Vec<&str> = workflow
        .as_object()
        .expect("a map")
        .keys()
        .map(String::as_str)
        .collect();
    // GitHub Docs, Workflow syntax for GitHub Actions.
    let known = ["concurrency", "env", "jobs", "name", "on", "permissions"];
    assert!(top.iter().all(|key| known.contains(key)), "{top:?}");
    for trigger in ["pull_request", "push", "schedule", "workflow_dispatch"] {
        assert!(workflow["on"].get(trigger).is_some(), "{trigger}");
    }
    for (name, job) in workflow["jobs"].as_object().expect("jobs") {
        let runner: Vec<_> = job["runs-on"].as_array().expect("labels").iter().collect();
        assert_eq!(runner, ["self-hosted", "gpu"], "{name}");
    }
    assert_eq!(workflow["permissions"]["contents"], "read");
}

#[test]
fn every_step_of_every_workflow_runs_something() {
    let mut steps = 0;
    for entry in fs::read_dir(folder()).expect("workflows") {
        let file = entry.expect("a workflow").path();
        let jobs = parsed(&file)["jobs"].clone();
        for (name, job) in jobs.as_object().expect("jobs") {
            // A job of another workflow has its steps there.
            let Some(own) = job["steps"].as_array() else {
                let other = job["uses"].as_str().expect("steps or a workflow");
                let (_, other) = other.rsplit_once('/').expect("a path");
                let triggers = parsed(&folder().join(other))["on"].clone();
                assert!(triggers.get("workflow_call").is_some(), "{other}");
                continue;
            };
            for step in own {
                let kinds = ["run", "uses"].map(|kind| step.get(kind).is_some());
                assert!(kinds[0] != kinds[1], "{}: {name}: {step}", file.display());
                let script = step["run"].as_str().unwrap_or_default();
                let parses = Command::new("bash").args(["-n", "-c", script]).status();
                assert!(parses.expect("bash runs").success(), "{name}: {step}");
                steps += 1;
            }
            let needed = job.get("needs").and_then(Value::as_str);
            assert!(
                needed.is_none_or(|needed| jobs.get(needed).is_some()),
                "{name}"
            );
        }
    }
    assert!(steps > 20, "{steps}");
}

/// A new default image is an edit of `images/defaults.toml` alone.
#[test]
fn the_image_to_follow_is_the_tools_default_unless_one_is_named() {
    let home = Home::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let defaults = images::Catalog::new(&root.join("images")).defaults();
    let default = defaults
        .expect("the images to take where none is named")
        .cuda;
    let steps = steps().into_iter();
    let choices: Vec<Step> = steps
        .filter(|step| step.name == "Choose the image")
        .collect();
    assert_eq!(choices.len(), 2);
    for (number, step) in choices.iter().enumerate() {
        for (named, expected) in [("", &*default), ("torch-of-mine", "torch-of-mine")] {
            let file = home.path(&format!("{number}{named}.env"));
            let mut shell = Command::new("bash");
            shell.args(["-e", "-c", &step.script]).current_dir(&root);
            shell.env("HEAD", named).env("GITHUB_ENV", &file);
            assert!(shell.status().expect("bash runs").success());
            let written = fs::read_to_string(file).expect("what the step hands on");
            assert_eq!(written, format!("HEAD_IMAGE={expected}\n"), "{}", step.job);
        }
    }
}

/// A push is not the only cause to look.
#[test]
fn the_main_job_follows_every_night() {
    let workflow = workflow();
    let cron = workflow["on"]["schedule"][0]["cron"]
        .as_str()
        .expect("when");
    assert_eq!(cron.split_whitespace().count(), 5, "{cron}");
    let follow = &workflow["jobs"]["follow"];
    let when = follow["if"].as_str().expect("a condition");
    assert!(
        when.contains("'schedule'") && when.contains("'push'"),
        "{when}"
    );
}

/// A session of which some runs failed fails the job, and is judged and kept all the same.
#[test]
fn failed_runs_are_judged_too() {
    let workflow = workflow();
    for job in ["compare", "follow"] {
        let steps = workflow["jobs"][job]["steps"].as_array().expect("steps");
        let measures = steps.iter().position(|step| step["id"] == "measure");
        let measures = measures.expect("a step that measures");
        assert!(steps[measures].get("continue-on-error").is_none());
        for step in &steps[measures + 1..] {
            let when = step["if"].as_str().unwrap_or_default();
            assert!(
                when.contains("!cancelled()") || when.starts_with("always()"),
                "{}: a failed run would leave it out",
                step["name"]
            );
        }
    }
}

#[test]
fn every_command_of_the_workflow_is_one_of_ours() {
    let home = Home::new();
    let mut seen = Vec::new();
    for step in steps() {
        for mut words in commands(&step.script, &variables()) {
            seen.push(words[0].clone());
            // With --help, words before it are still checked.
            words.push("--help".into());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            home.check(&words, 0, "Usage:");
            let mut wrong = words.clone();
            wrong.insert(words.len() - 1, "--no-such-flag");
            home.check(&wrong, 2, "--no-such-flag");
        }
        assert!(
            !step.job.is_empty() && !step.name.is_empty(),
            "a step without a name"
        );
    }
    for command in ["bench", "compare", "doctor", "history", "trend"] {
        assert!(
            seen.iter().any(|word| word == command),
            "{command} in {seen:?}"
        );
    }
}

/// The steps behind `bench`, in their order, on what it would have left.
fn after_bench(job: &str, home: &Home, code: i32, expected: &str) {
    let mut last = None;
    for step in steps().into_iter().filter(|step| step.job == job) {
        for words in commands(&step.script, &variables()) {
            if ["bench", "doctor"].contains(&words[0].as_str()) {
                continue;
            }
            if let Some(before) = last.replace(words) {
                home.check(
                    &before.iter().map(String::as_str).collect::<Vec<_>>(),
                    0,
                    "",
                );
            }
        }
    }
    let last = last.expect("the job does more than measure");
    let words: Vec<&str> = last.iter().map(String::as_str).collect();
    home.check(&words, code, expected);
}

#[test]
fn the_pull_request_job_fails_where_the_head_is_worse() {
    after_bench("compare", &measured(80.0), 1, "the gate failed");
    let home = measured(100.0);
    after_bench("compare", &home, 0, "1 unchanged");
    for file in ["junit.xml", "summary.md"] {
        let text = fs::read_to_string(home.path("sessions/this").join(file)).expect("a file");
        assert!(text.contains("throughput"), "{file}: {text}");
    }
}

#[test]
fn the_main_job_appends_to_the_history_and_looks_at_its_end() {
    // Two days of a session long past: results have stopped coming, and the job says so.
    let home = measured(100.0);
    after_bench("follow", &home, 0, "the gate judged 0 of ");
    let summary = fs::read_to_string(home.path("step.md")).expect("a summary");
    assert!(summary.contains("too short to judge"), "{summary}");
}
