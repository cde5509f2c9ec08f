//! `compare` on sessions written for the test.

use std::{fs, path::Path};

use protocol::Precision;

use crate::support::{Home, records, session};

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file was written")
}

#[test]
fn a_gate_writes_every_form_and_exits_with_1() {
    let home = Home::new();
    let words = [
        "compare",
        "sessions/renamed",
        "sessions/head:other",
        "--junit",
        "verdicts.xml",
        "--summary",
        "verdicts.md",
        "--annotations",
    ];
    let all = home.check(&words, 1, "gated figures say no");
    assert!(all.contains("::error title="), "{all}");
    assert!(read(&home.path("verdicts.xml")).contains("type=\"worse\""));
    assert!(read(&home.path("verdicts.md")).contains("### Worse: 1"));
    home.check(
        &[
            "compare",
            "sessions/renamed",
            "sessions/head:img",
            "--junit",
            "no/such/x.xml",
        ],
        4,
        "cannot write no/such/x.xml",
    );
}

#[test]
fn cannot_tell_fails_on_request_alone() {
    let home = Home::new();
    let once = records("once", "img", Precision::Fp32, 90.0);
    home.write("once", &session("once"), &once[..1]);
    let words = ["compare", "sessions/renamed", "sessions/once"];
    home.check(&words, 0, "cannot tell");
    let strict = [
        "compare",
        "sessions/renamed",
        "sessions/once",
        "--fail-on",
        "cannot-tell",
    ];
    home.check(&strict, 1, "gated figures say no");
}

#[test]
fn two_values_of_an_axis_are_compared_in_one_session() {
    let home = Home::new();
    let by = "precision=fp32,amp-bf16";
    home.check(
        &["compare", "sessions/head:img", "--by", by],
        1,
        "img with precision=amp-bf16 against img with precision=fp32",
    );
    let swapped = "precision=amp-bf16,fp32";
    home.check(
        &["compare", "sessions/head:img", "--by", swapped],
        0,
        "1 better",
    );
    for (by, expected) in [
        ("speed=1,2", "there is no axis `speed`"),
        (
            "precision=fp32,fp8",
            "has precision=fp8; there are: amp-bf16, fp32",
        ),
        ("precision=fp32", "expected AXIS=BASE,HEAD"),
        ("precision=fp32,fp32", "give two values"),
    ] {
        home.check(&["compare", "sessions/head:img", "--by", by], 2, expected);
    }
    home.check(
        &["compare", "sessions/head", "--by", by],
        2,
        "has several images",
    );
    home.check(&["compare", "sessions/head"], 2, "HEAD");
}

#[test]
fn a_side_comes_out_of_the_history() {
    let home = Home::new();
    home.check(
        &["compare", "@release", "sessions/head:img"],
        4,
        "history.sqlite",
    );
    let add = ["history", "add", "sessions/renamed", "--branch", "main"];
    home.check(&add, 0, "5 runs added");
    home.check(
        &["history", "baseline", "set", "release", "base"],
        0,
        "release is base",
    );
    for base in ["@release", "@release:img", "branch=main", "image=img"] {
        home.check(&["compare", base, "sessions/head:img"], 0, "1 same");
        home.check(&["compare", base, "sessions/head:other"], 1, "1 worse");
    }
    home.check(&["compare", "@nightly", "sessions/head:img"], 4, "nightly");
    home.check(
        &["compare", "branch=fix/x", "sessions/head:img"],
        2,
        "no complete session that fits `branch=fix/x`",
    );
    home.check(
        &[
            "compare",
            "@release",
            "sessions/head:img",
            "--sessions",
            "elsewhere",
        ],
        2,
        "its folder is not below elsewhere",
    );
    home.check(
        &["compare", "@release:newer", "sessions/head:img"],
        2,
        "has no image `newer`",
    );
}
