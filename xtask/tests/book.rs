//! The papers around the code: the book has every page, and what the policy says of formats is so.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Pages that git has or is to have, but those of the gallery's sessions, which `docs/book` adds.
fn pages() -> BTreeSet<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args([
            "*.md",
            ":!.github",
            ":!reports/gallery/*/*",
            ":!xtask/src",
            ":!docs/SUMMARY.md",
        ])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(output.stdout).expect("names");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_book_has_every_page_once() {
    let summary = read("docs/SUMMARY.md");
    let mut listed = BTreeSet::new();
    for link in summary.split("](").skip(1) {
        let (link, _) = link.split_once(')').expect("a link ends");
        let page = match link.strip_prefix("../") {
            Some(page) => page.to_owned(),
            None => format!("docs/{link}"),
        };
        assert!(listed.insert(page), "{link} twice");
    }
    assert_eq!(listed, pages());
}

/// Where mdBook is installed, as in the workflow that keeps the book. Links between pages lead to pages.
#[test]
fn the_book_is_built_and_its_links_hold() {
    if Command::new("mdbook").arg("--version").output().is_err() {
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let book = Command::new(root().join("docs/book"))
        .arg(home.path())
        .output()
        .expect("docs/book starts");
    assert!(book.status.success(), "{book:?}");
    let html = home.path().join("html");
    let mut links = 0;
    let mut broken = Vec::new();
    for page in pages() {
        let file = html.join(Path::new(&page).with_extension("html"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{page}: {error}"));
        let (_, main) = text.split_once("<main>").expect("the page's text");
        let (main, _) = main.split_once("</main>").expect("its end");
        for link in main.split("href=\"").skip(1) {
            let (link, _) = link.split_once('"').expect("a link ends");
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            links += 1;
            if !file.with_file_name("").join(path).exists() {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(links > 100, "{links}");
}

#[test]
fn the_policy_has_the_versions_of_the_code() {
    let policy = read("docs/stability.md");
    let mut rows = 0;
    for line in policy.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, what, version, file, _] = cells[..] else {
            continue;
        };
        let Some(file) = file
            .strip_prefix('`')
            .and_then(|file| file.strip_suffix('`'))
        else {
            continue;
        };
        let is =
            |line: &str| line.contains("VERSION: ") && line.ends_with(&format!(" = {version};"));
        assert!(
            read(file).lines().any(is),
            "{what}: version {version} in {file}"
        );
        rows += 1;
    }
    assert_eq!(rows, 11, "formats in docs/stability.md");
}

#[test]
fn a_release_has_notes_and_a_version_that_is_not_dated_has_none() {
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir(home.path().join(".ci")).expect("a folder");
    fs::copy(root().join(".ci/notes"), home.path().join(".ci/notes")).expect("the script");
    let text =
        "# Changelog\n\n## 0.2.0 (unreleased)\n\n- New.\n\n## 0.1.0 (2027-01-31)\n\n- First.\n";
    fs::write(home.path().join("CHANGELOG.md"), text).expect("a changelog");
    for (version, expected) in [
        ("0.1.0", Some("- First.")),
        ("0.2.0", None),
        ("0.3.0", None),
    ] {
        // Not by itself: what was written a moment ago may be busy.
        let notes = Command::new("bash")
            .arg(home.path().join(".ci/notes"))
            .arg(version)
            .output()
            .expect("bash runs");
        let printed = String::from_utf8_lossy(&notes.stdout);
        assert_eq!(
            notes.status.code(),
            Some(if expected.is_some() { 0 } else { 2 })
        );
        assert_eq!(printed.trim(), expected.unwrap_or_default());
    }
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("CHANGELOG.md").contains(&format!("\n## {version} (")));
    let module = read("scenarios/python/torchgauge.py");
    assert!(module.contains(&format!("__version__ = \"{version}\"")));
}

/// A tag can be moved: actions of others are named by commit.
#[test]
fn actions_are_named_by_commit() {
    let folder = fs::read_dir(root().join(".github/workflows")).expect("workflows");
    let workflows = folder.flatten().map(|entry| entry.path());
    let mut seen = 0;
    for file in workflows.chain([root().join("action.yml")]) {
        let text = fs::read_to_string(&file).expect("a workflow");
        for line in text.lines() {
            let Some((_, action)) = line.split_once("uses: ") else {
                continue;
            };
            if action.starts_with("$/") {
                continue;
            }
            let (_, commit) = action.split_once('@').expect("a version");
            let commit = commit.split(' ').next().unwrap_or_default();
            let is_digest = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(
                is_digest && line.contains(" # "),
                "{}: {line}",
                file.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}
