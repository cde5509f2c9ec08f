//! The example changes in `docs/examples`: each applies to this tree and touches no more existing
//! source files than CONTRIBUTING.md promises, in a table that is made of them. `cargo xtask test`
//! compiles and tests the tree with all of them.

use std::{env, fmt::Write as _, fs, path::Path, process::Command};

/// What is added, its patch, and most existing source files that it touches.
const EXAMPLES: [(&str, &str, usize); 8] = [
    ("a metric of the workload", "add-metric", 3),
    ("a metric of a monitor", "add-monitor-metric", 3),
    ("an axis", "add-axis", 2),
    ("a task that is no training, with a metric", "add-task", 4),
    ("a model", "add-model", 3),
    ("an executor", "add-executor", 1),
    ("a subcommand", "add-subcommand", 2),
    ("a plot", "add-plot", 1),
];
const BEGIN: &str = "<!-- made by `cargo xtask codegen` -->\n";
const END: &str = "<!-- end -->\n";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn git(words: &[&str]) -> String {
    let output = Command::new("git")
        .args(words)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {}: {said}", words.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// The source files that a patch changes, and those that it creates.
fn sources(patch: &str) -> (Vec<String>, Vec<String>) {
    let created = git(&["apply", "--summary", patch]);
    let changed = git(&["apply", "--numstat", patch]);
    let names = changed.lines().filter_map(|line| line.rsplit('\t').next());
    let is_rust = |name: &str| Path::new(name).extension() == Some("rs".as_ref());
    let is_source = |name: &&str| is_rust(name) && !name.contains("/tests/");
    let names = names.filter(is_source).map(str::to_owned);
    names.partition(|name| !created.contains(name.as_str()))
}

#[test]
fn examples_apply_and_touch_as_few_files_as_promised() {
    let mut table =
        "| addition | patch | existing source files | new |\n|---|---|---|---|\n".to_owned();
    for (what, name, most) in EXAMPLES {
        let patch = format!("docs/examples/{name}.patch");
        git(&["apply", "--check", &patch]);
        let (existing, new) = sources(&patch);
        assert!(
            (1..=most).contains(&existing.len()),
            "{name} touches {existing:?}"
        );
        let listed = |names: Vec<String>| {
            let names = names.iter().map(|name| format!("`{name}`"));
            names.collect::<Vec<_>>().join("<br>")
        };
        let (count, existing, new) = (existing.len(), listed(existing), listed(new));
        writeln!(
            table,
            "| {what} | [`{name}`]({patch}) | {count}: {existing} | {new} |"
        )
        .unwrap();
    }
    let path = root().join("CONTRIBUTING.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (committed, after) = rest.split_once(END).unwrap();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(committed, table, "run `cargo xtask codegen`");
}
