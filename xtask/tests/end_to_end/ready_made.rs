//! A runner that has an engine and this program, and nothing else.

use std::{fs, path::Path, process::Command};

use record::Outcome;

use crate::{Home, expect_exit, read, text, xtask};

#[test]
fn a_loaded_image_runs_where_nothing_can_be_built() {
    let _cores = crate::beside_others();
    let home = Home::new();
    // Made of what others are made of, under a name of its own: nobody else removes it.
    let spec = home.path("traveller.yaml");
    let text_of_spec = "version: 1\ndescription: for a test\nbase: debian\n\
                        libtorch: {version: 2.11.0, flavour: cpu, from: wheels}\n\
                        environment: {GREETING: hello}\n";
    fs::write(&spec, text_of_spec).expect("the spec");
    let archive = home.path("image.tar");
    let exported = xtask(&["images", "export", text(&spec), "--to", text(&archive)]);
    expect_exit(&exported, 0);
    let said = String::from_utf8_lossy(&exported.stdout);
    let words = said.split_once(": ").expect("a reference").1;
    let reference = words.split(',').next().expect("a reference");
    let mut client = Command::new("docker");
    client.args(["image", "load", "--quiet", "--input", text(&archive)]);
    expect_exit(&client.output().expect("docker runs"), 0);

    // No cargo, no compiler, no pip, no apt, no cache and no checkout.
    let runner = home.path("runner");
    fs::create_dir_all(runner.join("home")).expect("a folder");
    let program = Path::new(env!("CARGO_BIN_EXE_torchgauge"));
    let alone = |words: &[&str]| {
        Command::new(program)
            .args(words)
            .current_dir(&runner)
            .env_clear()
            .env("PATH", "/nowhere")
            .env("HOME", runner.join("home"))
            // Other tests measure at the same time.
            .env("TORCHGAUGE_SHARE_CPU", "1")
            .envs(std::env::var_os("DOCKER_HOST").map(|host| ("DOCKER_HOST", host)))
            .output()
            .expect("the program runs")
    };
    let out = runner.join("session");
    let bench = [
        "bench", "--suite", "smoke", "--device", "cpu", "--blocks", "1",
    ];
    let chosen = [
        "--engine",
        "container",
        "--image",
        reference,
        "--out",
        text(&out),
    ];
    expect_exit(&alone(&[&bench[..], &chosen[..]].concat()), 0);
    let (session, records) = read(&out);
    assert!(session.complete && !records.is_empty());
    assert!(records.iter().all(|record| record.outcome == Outcome::Ok));
    let image = &session.images[0];
    assert_eq!(image.name, "traveller");
    assert_eq!(image.reference.as_deref(), Some(reference));
    assert_eq!(image.flavour, "2.11.0+cpu");
    assert!(image.scenario_sha256.is_some());
    // This machine knows no lock of that name.
    assert_eq!(image.lock, None);
    let parts = image.parts.as_ref().expect("what it is made of");
    assert!(parts.packages.contains_key("libc6") && !parts.libraries.is_empty());

    // The same session goes on, and what the image cannot do is said.
    expect_exit(&alone(&["bench", "--resume", text(&out)]), 0);
    let process = ["--engine", "process", "--image", reference];
    let refused = alone(&[&bench[..], &process[..]].concat());
    expect_exit(&refused, 2);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("runs in a container"), "{said}");
    let gone = alone(&[
        "bench",
        "--device",
        "cpu",
        "--engine",
        "container",
        "--image",
        "torchgauge/no:1",
    ]);
    expect_exit(&gone, 2);
    let removed = Command::new("docker")
        .args(["image", "rm", reference])
        .status();
    assert!(removed.expect("docker runs").success());
}
