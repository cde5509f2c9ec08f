//! `docs/tutorial.md`, command by command.

use std::{fs, path::Path, process::Command, time::Instant};

use serde_json::Value;

use crate::Home;

const PAGE: &str = include_str!("../../../docs/tutorial.md");
const INSTALL: &str = "cargo install --debug --locked --path xtask";

/// The shell's blocks of the page, from top to bottom, as commands with the exit code that the page
/// says they have.
fn commands() -> Vec<(String, i32)> {
    let mut found = Vec::new();
    for block in PAGE.split("```sh\n").skip(1) {
        let (block, _) = block.split_once("```").expect("a block ends");
        let mut lines = block.lines();
        while let Some(line) = lines.next() {
            let (command, code) = match line.split_once(" # exit code ") {
                Some((command, code)) => (command, code.parse().expect("an exit code")),
                None => (line, 0),
            };
            let mut command = command.to_owned();
            if command.ends_with("<<'END'") {
                for line in lines.by_ref() {
                    command = format!("{command}\n{line}");
                    if line == "END" {
                        break;
                    }
                }
            }
            found.push((command, code));
        }
    }
    found
}

#[test]
fn the_page_begins_with_what_installs_the_program() {
    assert_eq!(commands()[0], (INSTALL.to_owned(), 0));
    let (_, package) = INSTALL.split_once("--path ").expect("a path");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"))
        .with_file_name(package)
        .join("Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--locked", "--format-version=1"])
        .arg("--manifest-path")
        .arg(&manifest)
        .output()
        .expect("cargo runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let metadata: Value = serde_json::from_slice(&output.stdout).expect(&told);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let package = list(&metadata["packages"])
        .into_iter()
        .find(|package| package["manifest_path"] == *manifest.to_string_lossy())
        .expect("the package");
    let programs: Vec<Value> = list(&package["targets"])
        .into_iter()
        .filter(|target| target["kind"][0] == "bin" && target["required-features"].is_null())
        .map(|target| target["name"].clone())
        .collect();
    assert_eq!(programs, ["torchgauge"]);
}

/// What the page's workflow runs, on the last session of the page in place of one of its own, which
/// is measured by the same command.
fn in_the_workflow(page: &[(String, i32)]) -> Vec<(String, i32)> {
    let (workflow, _) = page.last().expect("commands");
    let lines: Vec<&str> = workflow.lines().collect();
    let (_, text) = lines.split_first().expect("what writes it");
    let text = text[..text.len() - 1].join("\n");
    let document = strict_yaml::Document::from_text("bench.yml", &text).expect("a workflow");
    let steps = document.value()["jobs"]["compare"]["steps"].clone();
    let runs: Vec<String> = steps
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|step| {
            Some(
                step["run"]
                    .as_str()?
                    .replace("sessions/this", "sessions/fixed"),
            )
        })
        .collect();
    let [bench, compare] = &runs[..] else {
        panic!("{runs:?}");
    };
    assert!(page.contains(&(bench.clone(), 0)), "{bench}");
    vec![(compare.clone(), 0)]
}

#[test]
fn the_tutorial_holds() {
    let _cores = crate::alone();
    let home = Home::new();
    let programs = home.path("bin");
    fs::create_dir_all(&programs).expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_torchgauge"));
    std::os::unix::fs::symlink(program, programs.join("torchgauge")).expect("a link");
    let path = std::env::var("PATH").expect("a path");
    let mut folder = home.path("checkout");
    fs::create_dir_all(&folder).expect("a folder");
    let begun = Instant::now();
    let mut all = commands();
    assert!(all.iter().any(|(_, code)| *code == 1), "{all:?}");
    all.extend(in_the_workflow(&all));
    for (command, code) in all {
        // It would compile everything; what it installs is linked above.
        if command == INSTALL {
            continue;
        }
        if let Some(name) = command.strip_prefix("cd ") {
            folder = folder.join(name);
            continue;
        }
        eprintln!("{:>4} s  {command}", begun.elapsed().as_secs());
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(&folder)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("TORCHGAUGE_HISTORY", home.path("history"))
            // A fresh machine has no name to commit under.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GITHUB_STEP_SUMMARY", home.path("step-summary.md"))
            // Of the cargo that runs this test; a user calls the program from a shell.
            .env_remove("CARGO")
            .output()
            .expect("sh runs");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{command}\n{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    for (file, words) in [
        ("summary.md", "unchanged"),
        ("../step-summary.md", "unchanged"),
        ("junit.xml", "<testsuite"),
        ("trend/trend.html", "<svg"),
        ("sessions/first/report.html", "<svg"),
    ] {
        let text = fs::read_to_string(folder.join(file)).expect(file);
        assert!(text.contains(words), "{file}: {text}");
    }
}
