//! `bench --until-decided` with the mock engine, and what is said of it afterwards.

use std::fs;

use crate::support::Home;

const SUITE: &str = "version: 1\ndescription: d\nscenarios:\n\
    - {name: one, model: vit-tiny, axes: {precision: [fp32, amp-bf16]}}\n";

fn bench<'a>(script: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![
        "bench",
        "--suite",
        "./own.yaml",
        "--device",
        "cpu",
        "--image",
        "torch-2.11.0-cpu",
        "--engine",
        script,
        "--until-decided",
        "--out",
        "sessions/fresh",
    ];
    words.extend(more);
    words
}

fn home() -> Home {
    let home = Home::new();
    fs::write(home.path("own.yaml"), SUITE).expect("the suite is written");
    home
}

/// What is said of looks at the results, each `after` some blocks.
fn after(said: &str) -> String {
    let lines = said.lines().map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with("after ") || line.starts_with("undecided: "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn blocks_are_added_until_everything_is_decided() {
    let home = home();
    let by = ["--by", "precision=fp32,amp-bf16"];
    let said = home.check(
        &bench("mock:amp-bf16=ok:0.5", &by),
        0,
        "block 3 is complete",
    );
    insta::assert_snapshot!(after(&said), @"after 3 blocks, 2 of 2 gated metrics are decided; no further block is needed");
    // The comparison finds the looks in the session, and the report says how it ended.
    let words = ["compare", "--all", "sessions/fresh", by[0], by[1]];
    home.check(&words, 1, "was judged 1 time");
    let page = fs::read_to_string(home.path("sessions/fresh/report.html")).expect("a report");
    assert!(page.contains("every gated metric is decided"));
}

#[test]
fn what_is_undecided_is_named_and_the_most_blocks_end_it() {
    let home = home();
    // One block shows no noise, so that it decides nothing, whatever it reads.
    let more = ["--by", "precision=fp32,amp-bf16", "--blocks", "1"];
    let said = home.check(&bench("mock:", &more), 0, "after 1 block, 0 of 2 gated");
    insta::assert_snapshot!(after(&said), @r"
    after 1 block, 0 of 2 gated metrics are decided; no more blocks were asked for
    undecided: one · bs1 · throughput_samples_per_second
    undecided: one · bs1 · peak_allocated_bytes
    ");
}

#[test]
fn what_cannot_be_decided_starts_nothing() {
    let home = home();
    home.check(&bench("mock:", &[]), 2, "nothing to decide between");
    home.check(
        &bench("mock:", &["--by", "precision=fp32,tf32"]),
        2,
        "has precision=tf32",
    );
    home.check(&bench("mock:", &["--time-budget", "soon"]), 2, "no time");
    home.check(&["bench", "--time-budget", "1h"], 2, "--until-decided");
    assert!(!home.path("sessions/fresh").exists());
}
