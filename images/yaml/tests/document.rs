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
    insta::assert_snapshot!(error, @"cake.yaml:3:5: parts[0].colour: no colour");
    let key = KeyPath::root().key("parts");
    let error = document
        .at(key)
        .on_key()
        .expecting("no parts today", "expected none", None);
    insta::assert_snapshot!(error, @"cake.yaml:2:1: parts: no parts today; expected none");
}

#[test]
fn terminals_are_safe_from_what_a_file_holds() {
    let text = refuse("name: a\n\"\\e[31mred\\a\": 1\n");
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{7}'),
        "{text}"
    );
    insta::assert_snapshot!(text, @r#"
    error:  [31mred : unknown key ` [31mred `
     --> cake.yaml:2:1
      |
    2 | "\e[31mred\a": 1
      | ^^^^^^^^^^^^^ expected one of name, servings, parts
    "#);
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
    let told = |text: &str| {
        let parsed = Document::from_text("cake.yaml", text).and_then(|d| d.parse::<Recipe>());
        let error = parsed.expect_err("the document is refused");
        assert!(matches!(error, YamlError::Wrong(_)), "{error:?}");
        assert!(!error.render(false).is_empty());
        error.to_string()
    };
    let mut refusals = vec![told(&alias_bomb(1, 100)), told(&alias_bomb(9, 9))];
    for (opening, closing) in [("[", "]"), ("{a: ", "}")] {
        refusals.push(told(&opening.repeat(200_000)));
        refusals.push(told(&format!(
            "{}a{}",
            opening.repeat(70),
            closing.repeat(70)
        )));
    }
    refusals.push(told(&"- ".repeat(400_000)));
    refusals.push(told(&format!("[{}]", "1,".repeat(500_000))));
    insta::assert_snapshot!(refusals.join("\n"), @r"
    cake.yaml:24:12: nested deeper than 24 levels; flatten it
    cake.yaml:5:15: more than 20000 values once every alias is written out; split the file, or use fewer aliases
    cake.yaml:1:256: not valid YAML: recursion limit exceeded
    cake.yaml:1:25: nested deeper than 24 levels; flatten it
    cake.yaml:1:1021: not valid YAML: recursion limit exceeded
    cake.yaml:1:97: nested deeper than 24 levels; flatten it
    cake.yaml:1:49: nested deeper than 24 levels; flatten it
    cake.yaml:1:40000: more than 20000 values once every alias is written out; split the file, or use fewer aliases
    ");
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
    let without_home = |error: &YamlError| {
        let text = error.to_string();
        text.replace(home.path().to_str().unwrap(), "/home")
    };
    assert!(matches!(error, YamlError::Read { .. }), "{error:?}");
    insta::assert_snapshot!(without_home(&error), @"cannot read /home/none.yaml: No such file or directory (os error 2)");
    let error = Document::read(home.path()).unwrap_err();
    assert!(matches!(error, YamlError::Read { .. }), "{error:?}");
    insta::assert_snapshot!(without_home(&error), @"cannot read /home: it is a directory; expected a file");
    let path = home.path().join("latin.yaml");
    fs::write(&path, b"name: a\n# caf\xe9\n").unwrap();
    let error = Document::read(&path).unwrap_err();
    assert!(matches!(error, YamlError::NotUtf8 { .. }), "{error:?}");
    insta::assert_snapshot!(without_home(&error), @"/home/latin.yaml:2: byte 13 is not UTF-8; expected a text file in UTF-8");
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
    assert!(!told.contains("hash"), "{told}");
    assert!(matches!(out, YamlError::Read { .. }), "{out:?}");
    let out = out.to_string();
    insta::assert_snapshot!(out.replace(place.path().to_str().unwrap(), "/place"), @"cannot read /place/suites/out.yaml: it is a link that leads out of its folder; give the file itself");
    // As Kubernetes mounts files.
    assert!(Document::read(&link("data/cake.yaml".as_ref(), "in.yaml")).is_ok());
}

#[test]
fn every_mistake_of_a_document_is_found_once() {
    let found = |text: &str| {
        let document = Document::from_text("cake.yaml", text).unwrap();
        let read = document.read_whole(&[("name", "\"\"")], Document::parse::<Recipe>);
        let error = read.expect_err("it is refused");
        assert!(matches!(error, YamlError::Wrong(_)), "{error:?}");
        error.to_string()
    };
    insta::assert_snapshot!(found("servings: 1\n"), @"cake.yaml:1:1: (top level): the key `name` is missing; add it to the keys here");
    insta::assert_snapshot!(found("nmae: plain\n"), @"cake.yaml:1:1: nmae: unknown key `nmae`; expected one of name, servings, parts; did you mean `name`?");
    let many = found(
        "servings: many\nparts:\n- 3\n- {what: flour}\n- {what: flower, grams: 1}\n- {what: flour, grams: 1, x: 1, x: 2}\n",
    );
    insta::assert_snapshot!(many, @r#"
    cake.yaml:1:1: (top level): the key `name` is missing; add it to the keys here
    cake.yaml:1:11: servings: the wrong kind of value: the text "many"; expected a whole number, 0 or more
    cake.yaml:3:3: parts[0]: the wrong kind of value: the number 3; expected a map of keys and values
    cake.yaml:4:4: parts[1]: the key `grams` is missing; add it to the keys here
    cake.yaml:5:10: parts[2].what: invalid value `flower`; expected one of flour, brown-sugar, jar; did you mean `flour`?
    cake.yaml:6:27: parts[3].x: unknown key `x`; expected one of what, grams
    cake.yaml:6:33: the key `x` is here for the second time; drop one of the two
    "#);
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
