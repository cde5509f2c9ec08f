//! Documents through the public face: what is refused, how that reads, and that nothing else
//! than an error ever comes of bad bytes.

use std::{
    fmt::Write as _,
    fs,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use serde::Deserialize;
use strict_yaml::{Document, KeyPath, MAX_BYTES, YamlError};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Recipe {
    name: String,
    #[serde(default)]
    servings: Option<u32>,
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Part {
    what: What,
    grams: f64,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum What {
    Flour,
    BrownSugar,
    Jar { of: String },
}

fn refuse(text: &str) -> String {
    let parsed = Document::from_text("cake.yaml", text).and_then(|d| d.parse::<Recipe>());
    parsed.expect_err("the document is refused").render(false)
}

#[test]
fn a_good_document_reads() {
    let text = "# a cake\nname: plain\nservings: 4\nparts:\n  - {what: flour, grams: 200}\n  - what: {jar: {of: plums}}\n    grams: 1.5e2\n";
    let recipe: Recipe = Document::from_text("cake.yaml", text)
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        recipe,
        Recipe {
            name: "plain".into(),
            servings: Some(4),
            parts: vec![
                Part {
                    what: What::Flour,
                    grams: 200.0
                },
                Part {
                    what: What::Jar { of: "plums".into() },
                    grams: 150.0
                },
            ],
        }
    );
}

#[test]
fn a_byte_order_mark_and_windows_lines_are_taken() {
    let text = "\u{feff}name: plain\r\nservings: 4\r\n";
    let document = Document::from_text("cake.yaml", text).unwrap();
    assert_eq!(document.parse::<Recipe>().unwrap().servings, Some(4));
}

#[test]
fn an_alias_reads_as_its_value() {
    let text = "name: &n plain\nparts:\n- &p {what: flour, grams: 1}\n- *p\n- *p\n";
    let recipe: Recipe = Document::from_text("cake.yaml", text)
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(recipe.parts.len(), 3);
}

#[test]
fn what_is_wrong_is_shown_where_it_stands() {
    let long = format!(
        "name: {}\nparts: [{}{{what: flower, grams: 1}}]",
        "n".repeat(500),
        "{what: flour, grams: 1}, ".repeat(50)
    );
    for (name, text) in [
        ("unknown key", "name: a\nservigs: 3\n"),
        ("wrong type", "name: a\nservings: three\n"),
        ("negative", "name: a\nservings: -3\n"),
        (
            "invalid value",
            "name: a\nparts:\n  - what: flour\n    grams: 1\n  - what: brown_sugr\n    grams: 1\n",
        ),
        ("missing key", "name: a\nparts:\n  - grams: 1\n"),
        ("missing key at the top", "servings: 3\n"),
        ("duplicate key", "name: a\nservings: 1\nname: b\n"),
        (
            "duplicate key inside",
            "name: a\nparts: [{what: flour, grams: 1, what: flour}]\n",
        ),
        ("nothing", "name: a\nparts:\n"),
        ("tab", "name: a\nparts:\n\t- what: flour\n"),
        ("unclosed list", "name: [a\n"),
        ("two documents", "name: a\n---\nname: b\n"),
        ("empty", ""),
        ("comment only", "# only a comment\n"),
        ("tag", "name: !cake aGk=\n"),
        ("list as key", "? [a, b]\n: c\n"),
        ("unknown alias", "name: *nobody\n"),
        ("alias of itself", "name: &a [*a]\n"),
        ("list for a map", "[name]\n"),
        (
            "not a number",
            "name: a\nparts:\n- what: flour\n  grams: .nan\n",
        ),
        ("long line", &long),
        ("wide letters", "name: größe\nñoquis: 1\n"),
    ] {
        insta::assert_snapshot!(name.replace(' ', "-"), refuse(text), text);
    }
}

#[test]
fn a_caller_points_at_what_only_it_can_know() {
    let document = Document::from_text(
        "cake.yaml",
        "name: a\nparts:\n  - what: flour\n    grams: 9000\n",
    )
    .unwrap();
    let grams = KeyPath::root().key("parts").index(0).key("grams");
    let error = document.error_at(&grams, "too heavy for one cake", Some("use 200".into()));
    assert_eq!(
        error.to_string(),
        "cake.yaml:4:12: parts[0].grams: too heavy for one cake; use 200"
    );
    let missing = KeyPath::root().key("parts").index(0).key("colour");
    let error = document.error_at(&missing, "no colour", None);
    assert!(
        error
            .to_string()
            .starts_with("cake.yaml:3:5: parts[0].colour: no colour")
    );
    let key = KeyPath::root().key("parts");
    let error = document
        .at(key)
        .on_key()
        .expecting("no parts today", "expected none", None);
    assert!(
        error
            .to_string()
            .starts_with("cake.yaml:2:1: parts: no parts today")
    );
}

#[test]
fn terminals_are_safe_from_what_a_file_holds() {
    let text = refuse("name: a\n\"\\e[31mred\\a\": 1\n");
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{7}'),
        "{text}"
    );
}

fn alias_bomb(width: usize, levels: usize) -> String {
    let mut text = format!("a0: &a0 [{}]\n", vec!["x"; width].join(", "));
    for level in 1..levels {
        let alias = format!("*a{}", level - 1);
        let items = vec![alias.as_str(); width].join(", ");
        writeln!(text, "a{level}: &a{level} [{items}]").unwrap();
    }
    text
}

#[test]
fn what_would_cost_time_or_memory_is_refused_at_once() {
    let began = Instant::now();
    let message = refuse(&alias_bomb(1, 100));
    assert!(
        message.contains("nested deeper than 24 levels"),
        "{message}"
    );
    let message = refuse(&alias_bomb(9, 9));
    assert!(
        message.contains("more than 20000 values once every alias"),
        "{message}"
    );
    for (opening, closing) in [("[", "]"), ("{a: ", "}")] {
        let message = refuse(&opening.repeat(200_000));
        assert!(message.contains("recursion limit"), "{message}");
        let message = refuse(&format!("{}a{}", opening.repeat(70), closing.repeat(70)));
        assert!(
            message.contains("nested deeper than 24 levels"),
            "{message}"
        );
    }
    let message = refuse(&"- ".repeat(400_000));
    assert!(
        message.contains("nested deeper than 24 levels"),
        "{message}"
    );
    let message = refuse(&format!("[{}]", "1,".repeat(500_000)));
    assert!(message.contains("more than 20000 values"), "{message}");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("large.yaml");
    fs::write(&path, "name: a\n".repeat(10 << 17)).unwrap();
    assert!(fs::metadata(&path).unwrap().len() > 10_000_000);
    let began = Instant::now();
    let error = Document::read(&path).unwrap_err();
    assert!(matches!(error, YamlError::TooLarge { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[test]
fn files_that_cannot_be_read_say_so() {
    let home = tempfile::tempdir().unwrap();
    let error = Document::read(&home.path().join("none.yaml")).unwrap_err();
    assert!(
        error.to_string().contains("none.yaml: No such file"),
        "{error}"
    );
    let error = Document::read(home.path()).unwrap_err();
    assert!(matches!(error, YamlError::Read { .. }), "{error}");
    let path = home.path().join("latin.yaml");
    fs::write(&path, b"name: a\n# caf\xe9\n").unwrap();
    let error = Document::read(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("latin.yaml:2: byte 13 is not UTF-8; expected a text file in UTF-8"),
        "{error}"
    );
}

/// Pieces that YAML's grammar is made of, so that random texts reach deep into the parsers.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "name",
        "parts",
        "what",
        ": ",
        ":",
        "- ",
        "-",
        "\n",
        "\n  ",
        "\n    ",
        "\t",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&x ",
        "*x",
        "!t ",
        "!!str ",
        "? ",
        "| ",
        "|-\n ",
        ">\n  ",
        "\"",
        "'",
        "#",
        " #c",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "%TAG ! x\n",
        "<<: ",
        "0x1f",
        "1e999",
        "~",
        ".nan",
        "\r",
        "\r\n",
        "\u{85}",
        "\u{feff}",
        "é",
        "🦀",
        "\\",
        "\\x",
        "\0",
        "@",
        "`",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn never_panics(name: &str, bytes: &[u8]) {
    match Document::from_bytes(name, bytes).and_then(|d| d.parse::<Recipe>()) {
        Ok(_) => {}
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(!error.render(false).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        never_panics("x", &bytes);
    }

    #[test]
    fn random_yaml_ends_in_an_answer(text in yaml_like()) {
        never_panics("x", text.as_bytes());
    }

    #[test]
    fn every_position_is_inside_the_text(text in yaml_like()) {
        if let Err(error) = Document::from_text("x", &text).and_then(|d| d.parse::<Recipe>())
            && let Some(problem) = error.problem()
        {
            let lines = text.split(['\n', '\r', '\u{85}']).count();
            prop_assert!(problem.line() >= 1 && problem.line() <= lines + 1, "{}", problem);
        }
    }
}

#[test]
fn the_limit_is_exact() {
    let mut text = "name: a\n#".to_owned();
    text.push_str(&"x".repeat(MAX_BYTES - text.len()));
    assert!(Document::from_text("x", &text).is_ok());
    text.push('x');
    assert!(matches!(
        Document::from_text("x", &text),
        Err(YamlError::TooLarge { .. })
    ));
}

#[test]
fn a_link_out_of_its_folder_is_not_read_and_not_quoted() {
    let place = tempfile::tempdir().unwrap();
    let (folder, secret) = (place.path().join("suites"), place.path().join("secret"));
    fs::create_dir_all(folder.join("data")).unwrap();
    fs::write(&secret, "root:$6$hash: [").unwrap();
    fs::write(folder.join("data/cake.yaml"), "name: cake").unwrap();
    let link = |to: &std::path::Path, name: &str| {
        let link = folder.join(name);
        std::os::unix::fs::symlink(to, &link).unwrap();
        link
    };
    let out = Document::read(&link(&secret, "out.yaml")).unwrap_err();
    let told = format!("{out:?} {out} {:?}", std::error::Error::source(&out));
    assert!(told.contains("leads out of its folder"), "{told}");
    assert!(!told.contains("hash"), "{told}");
    // As Kubernetes mounts files.
    assert!(Document::read(&link("data/cake.yaml".as_ref(), "in.yaml")).is_ok());
}

#[test]
fn every_mistake_of_a_document_is_found_once() {
    let check = |text: &str, expect: &[&str]| {
        let document = Document::from_text("cake.yaml", text).unwrap();
        let read = document.read_whole(&[("name", "\"\"")], Document::parse::<Recipe>);
        let error = read.expect_err("it is refused").to_string();
        assert_eq!(error.lines().count(), expect.len(), "{error}");
        for (line, part) in error.lines().zip(expect) {
            assert!(line.contains(part), "{part} in {error}");
        }
    };
    check("servings: 1\n", &["the key `name` is missing"]);
    check("nmae: plain\n", &["unknown key `nmae`"]);
    check(
        "servings: many\nparts:\n- 3\n- {what: flour}\n- {what: flower, grams: 1}\n- {what: flour, grams: 1, x: 1, x: 2}\n",
        &[
            "1:1: (top level): the key `name` is missing",
            "1:11: servings: ",
            "3:3: parts[0]: ",
            "4:4: parts[1]: the key `grams` is missing",
            "5:10: parts[2].what: ",
            "6:27: parts[3].x: unknown key",
            "6:33: the key `x` is here for the second time",
        ],
    );
}

#[test]
fn of_very_many_mistakes_the_first_are_shown_soon() {
    let text = format!("name: plain\nparts: [{}]\n", vec!["3"; 15_000].join(", "));
    let document = Document::from_text("cake.yaml", &text).unwrap();
    let begun = Instant::now();
    let read = document.read_whole(&[], Document::parse::<Recipe>);
    let error = read.expect_err("it is refused");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(error.to_string().lines().count(), 21);
    assert!(
        error
            .render(false)
            .ends_with("and at least 20 more mistakes")
    );
}
