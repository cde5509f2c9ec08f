//! The example changes in `docs/examples`: each applies to this tree, touches no more source files
//! than CONTRIBUTING.md promises, and has its diffstat there. `cargo xtask test` compiles them.

use std::{path::Path, process::Command};

/// Patch, and most source files that a change of its kind touches.
const EXAMPLES: [(&str, usize); 4] = [
    ("add-metric.patch", 3),
    ("add-axis.patch", 3),
    ("add-plot.patch", 2),
    ("add-model.patch", 3),
];

fn git(words: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("git")
        .args(words)
        .current_dir(root)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {}: {said}", words.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn examples_apply_and_touch_as_few_files_as_promised() {
    for (name, most) in EXAMPLES {
        let patch = format!("docs/examples/{name}");
        git(&["apply", "--check", &patch]);
        let changed = git(&["apply", "--numstat", &patch]);
        let is_source = |line: &&str| line.contains(".rs") && !line.contains("/tests/");
        let sources = changed.lines().filter(is_source).count();
        assert!(
            (1..=most).contains(&sources),
            "{name} touches {sources}:\n{changed}"
        );
    }
}

#[test]
fn the_diffstats_in_contributing_are_those_of_the_examples() {
    let text = include_str!("../../CONTRIBUTING.md");
    for (name, _) in EXAMPLES {
        let stat = git(&["apply", "--stat", &format!("docs/examples/{name}")]);
        assert!(
            text.contains(&stat),
            "CONTRIBUTING.md lacks the diffstat of {name}:\n{stat}"
        );
    }
}
