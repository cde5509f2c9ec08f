//! `images slim --check` with the mock engine.

use std::fs;

use crate::support::Home;

const SUITE: &str = "version: 1\ndescription: d\nscenarios:\n\
    - {name: one, model: vit-tiny, axes: {precision: [fp32, amp-bf16]}}\n";

fn check<'a>(image: &'a str, engine: &'a str, out: &'a str) -> Vec<&'a str> {
    let mut words = vec!["images", "slim", image, "--check", "--device", "cpu"];
    words.extend(["--suite", "./own.yaml", "--blocks", "10"]);
    words.extend(["--engine", engine, "--out", out]);
    words
}

#[test]
fn a_slim_image_is_held_against_the_whole_one() {
    let home = Home::new();
    fs::write(home.path("own.yaml"), SUITE).expect("the suite is written");
    // The whole one is a spec of this checkout.
    let image = "torch-2.11.0-cu130-sm90";
    let said = home.check(&check(image, "mock:", "same"), 0, "0 regressed, 0 improved");
    assert!(said.contains("torch-2.11.0-cu130 "), "{said}");
    let slower = "mock:-sm90=ok:0.8";
    home.check(&check(image, slower, "slower"), 1, "the gate failed");
    home.check(&check(image, "mock:-sm90=exit:1", "broken"), 3, "failed");

    // Of an image of one's own the whole one is made.
    let spec = "version: 2\ndescription: d\nbase: debian\nlibtorch: {installed: auto}\n\
                gpu_architectures: [sm_90]\nenvironment: {A: b}\n";
    fs::write(home.path("mine.yaml"), spec).expect("the spec is written");
    let said = home.check(
        &check("./mine.yaml", "mock:", "mine"),
        0,
        "0 regressed, 0 improved",
    );
    assert!(said.contains("mine-whole"), "{said}");

    let whole = check("torch-2.11.0-cu130", "mock:", "whole");
    home.check(&whole, 2, "its spec has `gpu_architectures`");
    assert!(!home.path("whole").exists());
}
