//! A site by the real command, and the index of the gallery.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Exit code, standard output, and both streams together.
fn torchgauge(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(words)
        .current_dir(root())
        .env_remove("TORCHGAUGE_HISTORY")
        .output()
        .expect("the program runs");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = out.clone() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), out, all)
}

#[track_caller]
fn check(words: &[&str], code: i32, expected: &str) -> String {
    let (ended, out, all) = torchgauge(words);
    assert_eq!(ended, Some(code), "{words:?}:\n{all}");
    assert!(
        all.contains(expected),
        "{words:?}: no `{expected}` in\n{all}"
    );
    out
}

/// Names of what lies in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("text")).collect();
    names.sort();
    names
}

#[test]
fn the_index_of_the_gallery_is_that_of_its_sessions() {
    let home = tempfile::tempdir().expect("a folder");
    let out = home.path().join("site");
    let place = out.to_str().expect("text");
    let drawn = home.path().join("trend");
    let series = "bench-suite/judge/benches/bars/series/tigerbeetle-load_accepted.csv";
    let words = [
        "trend",
        "--input",
        series,
        "--out",
        drawn.to_str().expect("text"),
    ];
    check(&words, 0, "");
    let words = [
        "site",
        "reports/gallery",
        "--title",
        "Gallery",
        "--out",
        place,
    ];
    check(&words, 0, " pages drawn");
    let gallery = root().join("reports/gallery");
    let cards = names(&out)
        .into_iter()
        .map(|name| format!("{name}/card.svg"));
    let cards = cards.filter(|card| out.join(card).is_file());
    let cards = cards
        .chain(["README.md".to_owned()])
        .map(|name| (name.clone(), out.join(name)));
    let trend = ["trend.html", "trend.md"].map(|name| (format!("trends/{name}"), drawn.join(name)));
    let files: Vec<(String, PathBuf)> = cards.chain(trend).collect();
    assert!(files.len() > 10, "{files:?}");
    for (file, fresh) in &files {
        let fresh = fs::read_to_string(fresh).expect("a file that was drawn");
        if env::var_os("UPDATE_DOCS").is_some() {
            let place = gallery.join(file);
            fs::create_dir_all(place.parent().expect("a folder")).expect("the gallery");
            fs::write(place, &fresh).expect("the gallery can be written");
        }
        let there = fs::read_to_string(gallery.join(file)).unwrap_or_default();
        // Like the pages of the gallery's sessions, that of a trend is not in git.
        let is_page = Path::new(file).extension() == Some("html".as_ref());
        assert!(
            is_page || there == fresh,
            "reports/gallery/{file} is outdated; run UPDATE_DOCS=1 cargo test -p torchgauge --test site"
        );
    }
    // What came of the series is on the first screen of its page, and what a link to it shows.
    let page = fs::read_to_string(drawn.join("trend.html")).expect("a page");
    let (first, _) = page.split_once("<nav").expect("a first screen");
    let told = "29,601 since 2023-07-28 14:04: +1.41 % (+0.70 … +2.13 %) at 1c9da95e7d46, changed.";
    let largest = "The largest change: +15.99 % (+15.07";
    assert!(first.contains(told) && first.contains(largest), "{first}");
    assert!(
        first.contains(&format!("property=\"og:title\" content=\"{told}")),
        "{first}"
    );
    // Whatever the index leads to is there.
    let index = fs::read_to_string(gallery.join("README.md")).expect("the index");
    let targets = index
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    for target in targets {
        assert!(gallery.join(target).is_file(), "{target}");
    }
}

#[test]
fn a_site_takes_the_place_of_the_one_before() {
    let home = tempfile::tempdir().expect("a folder");
    let path = |name: &str| home.path().join(name).to_str().expect("text").to_owned();
    let (out, db, compared) = (path("site"), path("history"), path("compared"));
    let (overhead, versions) = (
        "reports/gallery/h200-overhead",
        "reports/gallery/cpu-versions",
    );
    check(
        &["history", "--history", &db, "add", overhead],
        0,
        "runs added",
    );
    let sides = ["2.6.0", "2.12.1"].map(|torch| format!("{versions}:torch-{torch}-cpu"));
    let [base, head] = &sides;
    check(&["compare", base, head, "--out", &compared], 0, "drawn: ");
    let words = [
        "site",
        overhead,
        versions,
        &compared,
        "--history",
        &db,
        "--out",
        &out,
    ];
    let told = check(&words, 0, "4 pages drawn");
    assert_eq!(told.trim(), format!("{out}/index.html"));
    let trends = names(&home.path().join("site/trends"));
    let page = trends
        .iter()
        .find(|name| name.contains(".html"))
        .expect("a trend");
    let page = fs::read_to_string(home.path().join("site/trends").join(page)).expect("a page");
    assert!(page.contains("<a href=\"../h200-overhead/report.html\">"));
    let words = ["site", overhead, &compared, "--history", &db, "--out", &out];
    check(&words, 0, "3 pages drawn");
    assert!(home.path().join("site/compared").is_dir());
    assert!(!home.path().join("site/cpu-versions").exists());
    let left = names(home.path());
    assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
}

#[test]
fn what_cannot_become_a_site_leaves_the_one_before_as_it_was() {
    let home = tempfile::tempdir().expect("a folder");
    let path = |name: &str| home.path().join(name).to_str().expect("text").to_owned();
    let (out, overhead) = (path("site"), "reports/gallery/h200-overhead");
    check(&["site", overhead, "--out", &out], 0, "1 page drawn");
    let before = names(&home.path().join("site"));
    let damaged = home.path().join("damaged");
    fs::create_dir(&damaged).expect("a folder");
    fs::write(damaged.join("session.json"), "{}").expect("a file");
    check(
        &["site", &path("damaged"), "--out", &out],
        2,
        "session.json, line 1: missing field",
    );
    check(
        &["site", &path("nowhere"), "--out", &out],
        2,
        "cannot read ",
    );
    check(
        &["site", "--out", &out],
        2,
        "nothing to show; give folders of sessions",
    );
    check(
        &["site", overhead, "--out", &path("damaged")],
        2,
        "is no site of Torchgauge",
    );
    check(
        &["site", overhead, "--out", &path("damaged/session.json")],
        2,
        "is no site of Torchgauge",
    );
    assert_eq!(names(&home.path().join("site")), before);
    let left = names(home.path());
    assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
}
