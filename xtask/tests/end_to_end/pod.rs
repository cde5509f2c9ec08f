//! A job of CI that runs in its image, in a pod: no engine, no network, nothing that can be built.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use record::Outcome;

use crate::{Home, expect_exit, read, text, xtask};

/// The folder of a libtorch in the user's cache, and the workload that was compiled with it.
fn parts() -> (PathBuf, PathBuf) {
    let home = std::env::var_os("HOME").expect("a home");
    let all = fs::read_dir(Path::new(&home).join(".cache/torchgauge/libtorch")).expect("the cache");
    let mut all = all.map(|entry| entry.expect("an entry").path());
    let libtorch = all.find(|path| text(path).contains("/2.11.0+cpu-"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let scenario = root.join("target/scenario/2.11.0+cpu/release/scenario");
    let scenario = scenario.canonicalize().expect("the workload");
    (libtorch.expect("libtorch 2.11.0+cpu"), scenario)
}

#[test]
fn a_job_in_a_pod_without_an_engine_measures_by_processes() {
    let _cores = crate::beside_others();
    let home = Home::new();
    let suite = home.suite(
        "version: 1\ndescription: for a test\nscenarios:\n  - name: tiny\n    model: vit-tiny\n\
         \x20   steps: {warmup: 1, measured: 3}\n",
    );
    let out = home.path("session");
    let bench = [
        "bench",
        "--suite",
        text(&suite),
        "--device",
        "cpu",
        "--blocks",
        "2",
    ];
    let to = ["--image", "torch-2.11.0-cpu", "--out", text(&out)];
    // Makes what the image of the pod has.
    let here = home.path("here");
    let made = ["--engine", "process", "--out", text(&here)];
    expect_exit(&xtask(&[&bench[..], &made[..]].concat()), 0);
    let (libtorch, scenario) = parts();

    let base = home.path("base.tar");
    expect_exit(&xtask(&["images", "base", "--to", text(&base)]), 0);
    let image = "torchgauge-test/pod:1";
    let docker = |words: &[&str]| {
        Command::new("docker")
            .args(words)
            .output()
            .expect("docker runs")
    };
    expect_exit(&docker(&["import", text(&base), image]), 0);
    let mounted = |from: &Path, to: &str| format!("--volume={}:{to}", from.display());
    let root = home.path("");
    let pod = [
        "run".to_owned(),
        "--rm".to_owned(),
        "--network=none".to_owned(),
        "--hostname=runner-x7k2p".to_owned(),
        "--env=CI=true".to_owned(),
        "--env=TORCHGAUGE_SHARE_CPU=1".to_owned(),
        "--env=TORCHGAUGE_NODE=gpu-node-7".to_owned(),
        format!("--env=HOME={}", home.path("user").display()),
        format!("--workdir={}", root.display()),
        mounted(&root, text(&root)),
        mounted(
            Path::new(env!("CARGO_BIN_EXE_torchgauge")),
            "/opt/torchgauge:ro",
        ),
        mounted(&libtorch, "/opt/libtorch:ro"),
        mounted(&scenario, "/opt/scenario:ro"),
        image.to_owned(),
        "/opt/torchgauge".to_owned(),
    ];
    let pod: Vec<&str> = pod.iter().map(String::as_str).collect();
    let in_pod = |words: &[&str]| docker(&[&pod[..], &bench[..], &to[..], words].concat());
    // Nothing takes an engine's place by itself in CI.
    let refused = in_pod(&[]);
    expect_exit(&refused, 4);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("pass --engine process"), "{said}");
    let parts = [
        "--libtorch",
        "/opt/libtorch",
        "--scenario-binary",
        "/opt/scenario",
    ];
    let measured = in_pod(&[&["--engine", "process"], &parts[..]].concat());
    expect_exit(&measured, 0);
    let (session, records) = read(&out);
    assert_eq!(session.machine_names(), "gpu-node-7");
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(record.outcome, Outcome::Ok);
        for missing in ["file system", "network", "memory limit"] {
            assert!(
                record
                    .isolation
                    .missing
                    .iter()
                    .any(|known| known == missing),
                "{missing}"
            );
        }
    }
    expect_exit(&docker(&["image", "rm", image]), 0);
}
