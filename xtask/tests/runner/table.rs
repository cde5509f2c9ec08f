//! Pages that name tests name tests that there are, where they say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Function → for each file with one of its name, the words that tell the place: the crate, folders
/// and the file's name.
type Functions = BTreeMap<String, Vec<BTreeSet<String>>>;

/// Where a test is that a page names without its place.
enum Unplaced {
    /// Anywhere.
    Anywhere,
    /// Where the page says, as words of a place.
    In(&'static [&'static str]),
    /// Where the one before it in its row is.
    AsBefore,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The name that a manifest in this folder gives to its crate.
fn package(folder: &Path) -> Option<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = manifest.split("\nname = \"").nth(1)?;
    Some(name.split('"').next()?.to_owned())
}

/// Functions in Rust files below a folder, build folders left out. `above` tells the folder's place.
fn functions(folder: &Path, above: &BTreeSet<String>, found: &mut Functions) {
    let mut here = above.clone();
    if let Some(name) = package(folder) {
        // The room goes by its folder's name, too.
        let room = folder.file_name().unwrap_or_default().to_string_lossy();
        here = BTreeSet::from([name, room.into_owned()]);
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut place = here.clone();
        place.insert(name.trim_end_matches(".rs").to_owned());
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            functions(&path, &place, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            for rest in text.split("fn ").skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let places = found.entry(rest[..end.unwrap_or(0)].to_owned());
                places.or_default().push(place.clone());
            }
        }
    }
}

/// Every test that the last column of a page's tables with so many columns names is there. A name
/// may have its place before it, as in `faults: a_small_…` or `xtask runner: a_gpu_is_…`: there it
/// has to be.
fn check(page: &str, columns: usize, unplaced: &Unplaced, at_least: usize) {
    let text = fs::read_to_string(root().join(page)).expect(page);
    let mut known = Functions::new();
    for room in ["bench-suite", "images", "reports", "scenarios", "xtask"] {
        functions(&root().join(room), &BTreeSet::new(), &mut known);
    }
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.matches('|').count() == columns + 1);
    let mut named = 0;
    for row in rows {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or("");
        let mut before: Option<Vec<&str>> = None;
        for words in last.split('`').skip(1).step_by(2) {
            let (place, name) = match (words.split_once(": "), unplaced) {
                (Some((place, name)), _) => (place.split(' ').collect(), name),
                (None, Unplaced::Anywhere) => (Vec::new(), words),
                (None, Unplaced::In(place)) => (place.to_vec(), words),
                (None, Unplaced::AsBefore) => {
                    let before = before.take();
                    let before =
                        before.unwrap_or_else(|| panic!("{page}: where is `{words}`? {row}"));
                    (before, words)
                }
            };
            let there = known.get(name);
            let there = there.unwrap_or_else(|| panic!("{page}: no test `{name}` for: {row}"));
            assert!(
                there
                    .iter()
                    .any(|words| place.iter().all(|word| words.contains(*word))),
                "{page}: `{name}` is not in {place:?} but in {there:?}: {row}"
            );
            before = Some(place);
            named += 1;
        }
    }
    assert!(named > at_least, "{page}: {named} tests in its tables");
}

#[test]
fn every_test_of_the_table_of_faults_is_there() {
    check("docs/faults.md", 4, &Unplaced::Anywhere, 25);
}

#[test]
fn every_test_of_the_table_of_findings_is_there() {
    check("docs/findings.md", 3, &Unplaced::AsBefore, 40);
}

#[test]
fn every_test_of_the_page_on_security_is_there() {
    check(
        "docs/security.md",
        3,
        &Unplaced::In(&["bench-suite", "hostile"]),
        8,
    );
}
