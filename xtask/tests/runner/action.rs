//! `action.yml` and `.ci/gitlab.yml`, step by step, as GitHub's and GitLab's runners carry them out.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use serde_json::Value;

use crate::support::Home;

fn file(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(name)).expect(name)
}

fn parsed(name: &str, text: &str) -> Value {
    let document = strict_yaml::Document::from_text(name, text);
    let document = document.unwrap_or_else(|error| panic!("{error}"));
    document.value().clone()
}

/// A pipeline of a project: the inputs that it gives, and those of the template that it leaves out.
struct Pipeline<'a> {
    home: &'a Home,
    inputs: Vec<(String, String)>,
}

impl<'a> Pipeline<'a> {
    fn new(home: &'a Home, declared: &Value, given: &[(&str, &str)]) -> Self {
        let suite = home.path("suite.yaml").display().to_string();
        let default = [("suite", &*suite), ("device", "cpu"), ("install", "")];
        let of = |name: &str| {
            let mut all = given.iter().chain(&default);
            let value = all.find(|(known, _)| *known == name);
            value.map_or_else(
                || declared[name]["default"].as_str().unwrap_or_default(),
                |(_, value)| value,
            )
        };
        let declared = declared.as_object().expect("inputs");
        for (name, _) in given {
            assert!(declared.contains_key(*name), "{name} is no input");
        }
        let inputs = declared.keys().map(|name| (name.clone(), of(name).into()));
        Self {
            home,
            inputs: inputs.collect(),
        }
    }

    /// Exit code and output of a script, with variables of which some are inputs.
    fn run(&self, script: &str, variables: &Value, around: [&str; 2]) -> (i32, String) {
        let bin = self.home.path("bin");
        if fs::create_dir(&bin).is_ok() {
            symlink(env!("CARGO_BIN_EXE_torchgauge"), bin.join("torchgauge")).expect("a link");
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("bash");
        shell
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(self.home.path(""))
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("RUNNER_TEMP", self.home.path("temp"))
            .env("GITHUB_STEP_SUMMARY", self.home.path("step-summary.md"))
            .env("TORCHGAUGE_LOCKS", self.home.path("locks"))
            .env("TORCHGAUGE_SHARE_CPU", "1")
            .env_remove("CARGO");
        for (name, value) in variables.as_object().expect("variables") {
            let mut value = value.as_str().expect("a text").to_owned();
            for (input, given) in &self.inputs {
                let place = format!("{} inputs.{input} {}", around[0], around[1]);
                value = value.replace(&place, given);
            }
            shell.env(name, value);
        }
        let output = shell.output().expect("bash runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code().unwrap_or(-1), said)
    }
}

/// The exit code of the first step that failed, and what all of them printed.
fn action(home: &Home, given: &[(&str, &str)]) -> (i32, String) {
    let action = parsed("action.yml", &file("action.yml"));
    let pipeline = Pipeline::new(home, &action["inputs"], given);
    let (mut first, mut all) = (0, String::new());
    for step in action["runs"]["steps"].as_array().expect("steps") {
        let Some(script) = step["run"].as_str() else {
            continue;
        };
        let condition = step["if"].as_str().unwrap_or_default();
        if condition.contains("inputs.install") || (first != 0 && !condition.contains("cancelled"))
        {
            continue;
        }
        let (code, said) = pipeline.run(script, &step["env"], ["${{", "}}"]);
        first = if first == 0 { code } else { first };
        all.push_str(&said);
    }
    (first, all)
}

fn gitlab(home: &Home, given: &[(&str, &str)]) -> (i32, String) {
    let text = file(".ci/gitlab.yml");
    let (head, job) = text.split_once("\n---\n").expect("two documents");
    let inputs = parsed("gitlab.yml", head)["spec"]["inputs"].clone();
    let job = parsed("gitlab.yml", job)["torchgauge"].clone();
    let lines = job["script"].as_array().expect("a script").iter();
    let script: Vec<&str> = lines.filter_map(Value::as_str).collect();
    let pipeline = Pipeline::new(home, &inputs, given);
    pipeline.run(&script.join("\n"), &job["variables"], ["$[[", "]]"])
}

const IMAGES: [(&str, &str); 3] = [
    ("base", "torch-2.11.0-cpu"),
    ("head", "torch-2.12.1-cpu"),
    ("blocks", "5"),
];

#[test]
fn a_pipeline_passes_where_nothing_changed_and_fails_where_the_head_is_slower() {
    for pipeline in [action, gitlab] {
        for (engine, code, words) in [
            ("mock:", 0, "Gate passed"),
            ("mock:2.12.1=ok:0.5", 1, "Gate failed"),
        ] {
            let home = Home::new();
            let given = [&IMAGES[..], &[("engine", engine)]].concat();
            let (found, said) = pipeline(&home, &given);
            assert_eq!(found, code, "{said}");
            let session = home.path("torchgauge-session");
            for file in ["report.html", "junit.xml", "summary.md"] {
                let text = fs::read_to_string(session.join(file)).expect(file);
                assert!(file != "summary.md" || text.contains(words), "{text}");
            }
        }
    }
}

#[test]
fn the_action_annotates_and_shows_its_verdicts() {
    let home = Home::new();
    let given = [&IMAGES[..], &[("engine", "mock:2.12.1=ok:0.5")]].concat();
    let (_, said) = action(&home, &given);
    assert!(said.contains("::error"), "{said}");
    let shown = fs::read_to_string(home.path("step-summary.md")).expect("a summary");
    assert!(shown.contains("Gate failed"), "{shown}");
    // A second use in the job, of a folder that is taken.
    let (code, said) = action(&home, &given);
    assert_eq!(code, 2, "{said}");
}

#[test]
fn a_command_of_several_words_is_split_as_in_a_shell_and_nothing_in_it_is_run() {
    let home = Home::new();
    let command = r#"python3 train.py --name "a b" '$(touch ran)'"#;
    let given = [("suite", ""), ("command", command), ("engine", "mock:")];
    let options = [("options", "--steps 5 --env 'GREETING=good morning'")];
    let (code, said) = action(&home, &[&IMAGES[..], &given, &options].concat());
    assert_eq!(code, 0, "{said}");
    let (session, _) = home.read("torchgauge-session");
    let words = session.tool.command.join("|");
    let expected = "--env|GREETING=good morning|--|python3|train.py|--name|a b|$(touch ran)";
    assert!(words.ends_with(expected), "{words}");
    assert!(!home.path("ran").exists());
}

#[test]
fn failed_runs_fail_the_pipeline_and_are_compared_all_the_same() {
    for pipeline in [action, gitlab] {
        let home = Home::new();
        let given = [&IMAGES[..], &[("engine", "mock:0003-b=exit:1")]].concat();
        let (code, said) = pipeline(&home, &given);
        assert_eq!(code, 3, "{said}");
        assert!(home.path("torchgauge-session/summary.md").is_file());
    }
}

/// What is installed by default is this version.
#[test]
fn templates_install_the_program_that_they_were_released_with() {
    let wanted = format!("default: torchgauge=={}\n", env!("CARGO_PKG_VERSION"));
    for name in ["action.yml", ".ci/gitlab.yml"] {
        assert_eq!(file(name).matches(&wanted).count(), 1, "{name}");
    }
}
