//! Pages that name tests name tests that there are.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Names of all functions in Rust files below a folder, build folders left out.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            found.extend(text.split("fn ").skip(1).filter_map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
                Some(rest[..end].to_owned())
            }));
        }
    }
}

/// Every test that the last column of a page's tables with so many columns names is there.
fn check(page: &str, columns: usize, at_least: usize) {
    let text = fs::read_to_string(root().join(page)).expect(page);
    let mut known = BTreeSet::new();
    for room in ["bench-suite", "images", "reports", "scenarios", "xtask"] {
        functions(&root().join(room), &mut known);
    }
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.matches('|').count() == columns + 1);
    let mut named = 0;
    for row in rows {
        // A name may have its place before it, as in `faults: a_small_…`.
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or("");
        for word in last.split('`').skip(1).step_by(2) {
            let name = word.rsplit(' ').next().unwrap_or(word);
            assert!(known.contains(name), "{page}: no test `{name}` for: {row}");
            named += 1;
        }
    }
    assert!(named > at_least, "{page}: {named} tests in its tables");
}

#[test]
fn every_test_of_the_table_of_faults_is_there() {
    check("docs/faults.md", 4, 25);
}

#[test]
fn every_test_of_the_table_of_findings_is_there() {
    check("docs/findings.md", 3, 40);
}

#[test]
fn every_test_of_the_page_on_security_is_there() {
    check("docs/security.md", 3, 8);
}
