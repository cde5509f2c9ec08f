//! `bisect` with the mock engine.

use std::fs;

use crate::support::Home;

const SUITE: &str = "version: 1\ndescription: d\nscenarios:\n\
    - {name: one, model: vit-tiny, axes: {precision: [fp32, amp-bf16]}}\n\
    - {name: two, model: bert-tiny}\n";

/// 2.9.1 and what came later are slower, in one cell.
const SLOWER: &str = "2.9.1-cpu amp-bf16=ok:0.9;2.11.0-cpu amp-bf16=ok:0.9;\
                      2.12.1-cpu amp-bf16=ok:0.9";

fn home() -> Home {
    let home = Home::new();
    fs::write(home.path("own.yaml"), SUITE).expect("the suite is written");
    home
}

/// A search among these versions, whatever others `images/` has.
fn versions<'a>(engine: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let between = ["torch-2.8.0-cpu", "torch-2.9.1-cpu", "torch-2.11.0-cpu"];
    let mut words = all_versions(engine, more);
    words.extend(between.iter().flat_map(|name| ["--image", name]));
    words
}

/// A search among all that `images/` has between the ends.
fn all_versions<'a>(engine: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![
        "bisect",
        "./own.yaml",
        "--device",
        "cpu",
        "--engine",
        engine,
    ];
    words.extend(["--good", "torch-2.6.0-cpu", "--bad", "torch-2.12.1-cpu"]);
    words.extend(["--out", "search"]);
    words.extend(more);
    words
}

#[test]
fn the_version_that_brought_it_is_named() {
    let home = home();
    let engine = format!("mock:{SLOWER}");
    let dry = all_versions(&engine, &["--dry-run"]);
    let plan = home.check(&dry, 0, "torch-2.10.0-cpu");
    assert!(plan.lines().count() > 5, "{plan}");
    assert!(!home.path("search").exists());

    let said = home.check(
        &versions(&engine, &[]),
        0,
        "torch-2.9.1-cpu is the first beyond half of it; torch-2.8.0-cpu is not.",
    );
    for expected in [
        "one · amp-bf16",
        "throughput_samples_per_second: -",
        "Side by side, from torch-2.8.0-cpu to torch-2.9.1-cpu: -",
        "are wrong with probability",
        "report.html",
    ] {
        assert!(said.contains(expected), "no `{expected}` in\n{said}");
    }
    home.check(
        &["bisect", "--resume", "search"],
        0,
        "torch-2.9.1-cpu is the first beyond half of it",
    );
    let state = fs::read(home.path("search/bisect.json")).expect("a search");
    let state: serde_json::Value = serde_json::from_slice(&state).expect("JSON");
    let spent = state["decisions"].as_array().expect("decisions");
    let spent: f64 = spent.iter().filter_map(|one| one["error"].as_f64()).sum();
    assert!(spent > 0.0 && spent < 0.05, "{spent}");
    home.check(&versions(&engine, &[]), 2, "holds a search already");
}

#[test]
fn what_cannot_be_measured_is_left_out_and_said() {
    let home = home();
    let broken = format!("mock:2.9.1-cpu=exit:1;{SLOWER}");
    let said = home.check(
        &versions(&broken, &[]),
        3,
        "The first beyond half of it is among torch-2.9.1-cpu, torch-2.11.0-cpu",
    );
    let left_out = said.lines().find(|line| line.contains(" was left out"));
    insta::assert_snapshot!(left_out.expect(&said), @"torch-2.9.1-cpu was left out: 3 of its 3 runs failed.");
    // One that fails now and then is not judged by the runs that went well.
    let flaky = format!("mock:b1-torch-2.9.1-cpu=exit:1;{SLOWER}");
    let words = elsewhere(&versions(&flaky, &[]), "flaky");
    home.check(&words, 3, "torch-2.9.1-cpu was left out: 1 of its");
}

#[test]
fn an_end_that_shows_nothing_ends_the_search() {
    let home = home();
    home.check(
        &versions("mock:*=ok", &[]),
        1,
        "nothing is shown to have regressed",
    );
    let metric = ["--metric", "throughput"];
    home.check(&versions("mock:*=ok", &metric), 2, "throughput");
    home.check(&["bisect", "--resume", "nowhere"], 2, "bisect.json");
    let same = [
        "bisect",
        "own.yaml",
        "--good",
        "torch-2.6.0-cpu",
        "--bad",
        "torch-2.6.0-cpu",
    ];
    home.check(&same, 2, "two of the images are called");
}

#[test]
fn a_small_step_before_the_large_one_is_not_the_culprit() {
    let home = home();
    // 2.8.0 brings 30 % of the change, and the last one the rest.
    let steps = "2.8.0-cpu amp-bf16=ok:0.97;2.9.1-cpu amp-bf16=ok:0.97;\
                 2.11.0-cpu amp-bf16=ok:0.97;2.12.1-cpu amp-bf16=ok:0.9";
    let engine = format!("mock:{steps}");
    let expected = "torch-2.12.1-cpu is the first beyond half of it; torch-2.11.0-cpu is not.";
    home.check(&versions(&engine, &[]), 0, expected);
}

#[test]
fn ends_of_which_runs_fail_end_the_search() {
    let home = home();
    let ends = "fail, and no figure is shown to have regressed";
    for (folder, engine) in [
        ("sometimes", "mock:b2-torch-2.12.1-cpu=exit:1"),
        ("always", "mock:2.12.1-cpu=exit:1"),
        ("both", "mock:2.12.1-cpu=exit:1;b2-torch-2.6.0-cpu=exit:1"),
    ] {
        home.check(&elsewhere(&versions(engine, &[]), folder), 3, ends);
    }
}

/// The same search in another folder.
fn elsewhere<'a>(words: &[&'a str], folder: &'a str) -> Vec<&'a str> {
    let words = words.iter();
    words
        .map(|word| if *word == "search" { folder } else { word })
        .collect()
}

#[test]
fn a_search_that_was_cut_off_goes_on() {
    let home = home();
    let cut = format!("mock:b2-torch-2.8.0-cpu=cancel;{SLOWER}");
    let said = home.check(&versions(&cut, &[]), 3, "bisect --resume search");
    assert!(!said.contains("is the first beyond half of it"), "{said}");
    let engine = format!("mock:{SLOWER}");
    home.check(
        &["bisect", "--resume", "search", "--blocks", "9"],
        2,
        "--blocks",
    );
    let resumed = ["bisect", "--resume", "search", "--engine", &engine];
    home.check(
        &resumed,
        0,
        "torch-2.9.1-cpu is the first beyond half of it",
    );
}
