//! Where runs find the kernels that the CUDA driver compiled for the runs before them.

use std::fs;

use bench_suite::{
    executors::{Executor, container::Container, process::Process},
    host,
    session::Session,
};
use protocol::Device;
use tokio_util::sync::CancellationToken;

use crate::{
    common::{Listener, spec},
    containers::engine,
    image,
    processes::{END, GOOD, program},
};

const SUITE: &str = "version: 1
description: d
defaults: {blocks: 2, steps: {warmup: 0, measured: 1}}
scenarios:
  - {name: a, model: vit-tiny, task: inference, devices: [cuda], axes: {kernel_cache: [run, session]}}
";

/// What each run found, in the order of the runs: its image and choice, and its log's last line.
async fn found(executor: &dyn Executor, images: [&str; 2]) -> Vec<(String, String)> {
    let home = tempfile::tempdir().unwrap();
    let name = bench_suite::session::fresh_name();
    let spec = spec(SUITE, &images, Device::Cuda(0));
    let mut session = Session::create(home.path(), &name, spec).unwrap();
    let mut listener = Listener::default();
    session
        .run(executor, &mut listener, &CancellationToken::new())
        .await
        .unwrap();
    assert!(
        !home.path().join("kernel-cache").exists(),
        "the session left its kernels"
    );
    let told = listener.records.iter().map(|record| {
        let log = home.path().join(record.log.as_ref().unwrap());
        let log = fs::read_to_string(log).unwrap_or_default();
        let line = log.lines().find(|line| line.starts_with("found"));
        let choice = format!("{} {}", record.image, record.axes["kernel_cache"]);
        (choice, line.unwrap_or(&log).to_owned())
    });
    told.collect()
}

/// Runs share what those of their image left, and no image what another one did.
async fn check(executor: &dyn Executor, images: [&str; 2]) {
    let found = found(executor, images).await;
    assert_eq!(found.len(), 8, "{found:?}");
    for image in images {
        for (choice, in_second) in [("run", 0), ("session", 1)] {
            let choice = format!("{image} {choice}");
            let lines = found.iter().filter(|(of, _)| *of == choice);
            let lines: Vec<&str> = lines.map(|(_, line)| line.as_str()).collect();
            assert!(lines[0].starts_with("found 0 "), "{choice}: {lines:?}");
            let second = format!("found {in_second} ");
            assert!(lines[1].starts_with(&second), "{choice}: {lines:?}");
        }
    }
}

#[tokio::test]
async fn processes_share_compiled_kernels_where_they_say_so() {
    let home = tempfile::tempdir().unwrap();
    let script = format!(
        "{GOOD}echo found $(ls \"$CUDA_CACHE_PATH\" | wc -l) in \"$CUDA_CACHE_PATH\"\n\
         echo kernel > \"$CUDA_CACHE_PATH/$run\"\n{END}"
    );
    let images = ["local", "other"];
    let runtimes = images.map(|image| (image.to_owned(), program(home.path(), &script)));
    let executor = Process::new(host::local::open(), runtimes.into());
    check(&executor, images).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_share_compiled_kernels_where_they_say_so() {
    let images = ["tiny", "other"];
    let modes = images.map(|image| (image.to_owned(), image::with_mode("kernel-cache")));
    let executor = Container::new(host::local::open(), engine().await, modes.into(), None);
    check(&executor, images).await;
}
