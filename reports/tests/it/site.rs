//! A site through its public face: folders in, a folder of pages out.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use record::SessionFolder;
use reports::site::{self, Content, Followed, Trend};
use roxmltree::Document;
use verdict::FailOn;

use crate::{
    comparison,
    support::{self, Fake, fit},
    trend,
};

fn write(fake: &Fake, path: &Path) {
    let folder = SessionFolder::at(path);
    let source = fake.source();
    folder.create().unwrap();
    folder.write_session(&source.session).unwrap();
    for record in &source.records.records {
        folder.append(record).unwrap();
    }
}

fn small(name: &str, seed: u64) -> Fake {
    let mut fake = Fake::cpu().named(name).seeded(seed);
    fake.cells.truncate(2);
    fake
}

/// Two sessions in a folder, a hostile one below it, and a search.
fn folders(home: &Path) -> PathBuf {
    let root = home.join("measured");
    write(&small("first", 1), &root.join("first"));
    write(&small("second", 2), &root.join("second"));
    write(&support::hostile(), &root.join("deeper/<i>\"&'"));
    fs::create_dir_all(root.join("largest")).unwrap();
    let text = reports::json::render(&fit()).unwrap();
    fs::write(root.join("largest/fit.json"), text).unwrap();
    root
}

fn trends() -> Vec<Trend> {
    let fell = |i| if i < 25 { 940.0 } else { 890.0 };
    let mut series = trend::series("resnet-tiny · fp32 bs8", trend::points(40, fell));
    series.staleness = None;
    let of = |session: &str| (session.to_owned(), "local".to_owned());
    let mut from = vec![of("one that is on no page"); 38];
    from.extend([of("first"), of("second")]);
    vec![Trend {
        name: "sample · local · a CPU · gpu-ci-1".to_owned(),
        series: vec![Followed {
            cell: "resnet-tiny · fp32 bs8".to_owned(),
            metric: "throughput_samples_per_second".to_owned(),
            series,
            from,
        }],
    }]
}

fn content(root: &Path) -> Content {
    Content {
        title: "A <site> | of *ours*".to_owned(),
        folders: vec![root.to_owned()],
        trends: trends(),
    }
}

/// Every file below a folder, by its path there.
fn files(folder: &Path) -> BTreeMap<String, String> {
    fn below(folder: &Path, root: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, root, found);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    below(folder, folder, &mut found);
    found
}

#[test]
fn a_site_has_a_page_and_a_card_for_everything_and_no_link_into_nothing() {
    let home = tempfile::tempdir().unwrap();
    let root = folders(home.path());
    let out = home.path().join("site");
    let outcome = site::draw(&content(&root), &out).unwrap();
    assert_eq!(
        outcome.drawn,
        [
            "first",
            "i",
            "largest",
            "second",
            "trends/sample-local-a-CPU-gpu-ci-1"
        ]
    );
    assert!(outcome.left_out.is_empty());
    let files = files(&out);
    for (name, text) in &files {
        if Path::new(name).extension().is_some_and(|end| end == "svg") {
            Document::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let folder = Path::new(name).parent().unwrap();
        for attribute in [" href=\"", " src=\""] {
            for (start, _) in text.match_indices(attribute) {
                let target = &text[start + attribute.len()..];
                let target = &target[..target.find('"').unwrap()];
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = if file.is_empty() {
                    out.join(name)
                } else {
                    out.join(folder).join(file)
                };
                let there = fs::read_to_string(&file);
                let there = there.unwrap_or_else(|error| panic!("{name}: {target}: {error}"));
                let id = format!("id=\"{anchor}\"");
                assert!(anchor.is_empty() || there.contains(&id), "{name}: {target}");
            }
        }
    }
    let back = "<a href=\"../index.html\">";
    let is_page = |name: &str| Path::new(name).extension() == Some("html".as_ref());
    let pages = files.iter().filter(|(name, _)| is_page(name));
    for (name, page) in pages {
        assert_eq!(page.contains(back), name != "index.html", "{name}");
    }
    let index = &files["index.html"];
    assert_eq!(index.matches("<li data-words=").count(), 5);
    for wanted in [
        "A &#60;site&#62; | of *ours*",
        "src=\"first/card.svg\"",
        "<a href=\"trends/sample-local-a-CPU-gpu-ci-1.html\">",
        "What is the largest batch within 150.0 MiB?",
        "1 of 1 series changed.",
    ] {
        assert!(index.contains(wanted), "no {wanted} in {index}");
    }
    assert!(!index.contains("<script>alert") && !index.contains("<img src=x"));
    assert!(!index.contains('\u{202e}') && !index.contains('\u{1b}'));
    let readme = &files["README.md"];
    assert!(
        readme.starts_with("# A &lt;site&gt; \\| of \\*ours\\*\n"),
        "{readme}"
    );
    assert!(!readme.contains("<script>"));
    // From the trend to its sessions.
    let trend = &files["trends/sample-local-a-CPU-gpu-ci-1.html"];
    // Card and page name one revision.
    let card = &files["trends/sample-local-a-CPU-gpu-ci-1.svg"];
    assert!(card.contains(" regressed · r25</text>"), "{card}");
    assert!(trend.contains(" regressed · r25</text>"), "{trend}");
    assert!(
        trend.contains("<a href=\"../first/report.html\">"),
        "{trend}"
    );
}

#[test]
fn a_comparison_leads_to_its_sessions_and_they_to_it() {
    let home = tempfile::tempdir().unwrap();
    let root = folders(home.path());
    let mut verdicts = comparison::verdicts();
    (verdicts.base.session, verdicts.head.session) = ("first".into(), "second".into());
    let place = root.join("upgrade");
    reports::comparison::write(&verdicts, FailOn::Regressed, &place).unwrap();
    let out = home.path().join("site");
    site::draw(&content(&root), &out).unwrap();
    let files = files(&out);
    let links = |page: &str, to: &str| files[page].contains(&format!("<a href=\"../{to}\">"));
    for session in ["first/report.html", "second/report.html"] {
        assert!(links("upgrade/comparison.html", session), "{session}");
        assert!(links(session, "upgrade/comparison.html"), "{session}");
    }
    assert!(!links("i/report.html", "upgrade/comparison.html"));
    // It is found by its verdict.
    let cards = files["index.html"].split("<li data-words=\"").skip(1);
    let words = cards.map(|card| card.split_once('"').unwrap().0);
    let failed: Vec<&str> = words
        .filter(|words| words.contains("gate failed"))
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].contains("✗ regressed"), "{failed:?}");
    assert!(!links("first/report.html", "second/report.html"));
}

#[test]
fn the_same_content_gives_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let root = folders(home.path());
    let sites = ["one", "two"].map(|name| {
        let out = home.path().join(name);
        site::draw(&content(&root), &out).unwrap();
        files(&out)
    });
    assert_eq!(sites[0], sites[1]);
}

#[test]
fn what_is_damaged_is_left_out_below_a_folder_and_an_error_where_it_is_named() {
    let home = tempfile::tempdir().unwrap();
    let root = folders(home.path());
    fs::write(root.join("first/session.json"), "{\"version\": 3").unwrap();
    fs::write(root.join("largest/fit.json"), "{}").unwrap();
    let out = |name: &str| home.path().join(name);
    let outcome = site::draw(&content(&root), &out("one")).unwrap();
    let left_out: Vec<String> = outcome.left_out.iter().map(|one| one.why.clone()).collect();
    let in_home = |text: &str| text.replace(home.path().to_str().unwrap(), "/home");
    insta::assert_snapshot!(in_home(&left_out.join("\n")), @r"
    /home/measured/first/session.json, line 1: EOF while parsing an object at line 1 column 13
    /home/measured/largest/fit.json: missing field `version` at line 1 column 2; expected what `--out DIR` writes; draw it again
    ");
    // Of two sessions of one name, such as a forged one, none takes the other's place.
    write(&small("second", 2), &root.join("aa-forged"));
    site::draw(&content(&root), &out("both")).unwrap();
    for page in ["aa-forged", "second"] {
        let page = out("both").join(page).join("report.html");
        assert!(page.is_file(), "{}", page.display());
    }
    let index = fs::read_to_string(out("one").join("index.html")).unwrap();
    assert!(index.contains("first cannot be shown"), "{index}");
    let named = content(&root.join("first"));
    let error = site::draw(&named, &out("two")).unwrap_err().to_string();
    insta::assert_snapshot!(in_home(&error), @"/home/measured/first/session.json, line 1: EOF while parsing an object at line 1 column 13");
    let empty = home.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let error = site::draw(&content(&empty), &out("three"))
        .unwrap_err()
        .to_string();
    insta::assert_snapshot!(in_home(&error), @"/home/empty holds no session, comparison or fit, in it or below it; give the folder of a session, or one with such folders");
    let error = site::draw(&Content::default(), &out("four"))
        .unwrap_err()
        .to_string();
    insta::assert_snapshot!(error, @"nothing to show; give folders of sessions or comparisons, or a history with --history DIR");
    // What is not a site is not replaced.
    site::check(&out("one")).unwrap();
    site::check(&empty).unwrap();
    let error = site::check(&root).unwrap_err().to_string();
    insta::assert_snapshot!(in_home(&error), @"/home/measured holds something that is no site of Torchgauge; give a folder that is empty, not there yet, or a site");
}
