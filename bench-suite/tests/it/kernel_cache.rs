//! Where runs find the kernels that the CUDA driver compiled for the runs before them.

use std::{collections::BTreeMap, fs};

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

/// What each run found, in the order of the runs: its choice, and its log's last line.
async fn found(executor: &dyn Executor, image: &str) -> Vec<(String, String)> {
    let home = tempfile::tempdir().unwrap();
    let name = bench_suite::session::fresh_name();
    let spec = spec(SUITE, &[image], Device::Cuda(0));
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
        let choice = record.axes["kernel_cache"].clone();
        (choice, line.unwrap_or(&log).to_owned())
    });
    told.collect()
}

fn check(found: &[(String, String)]) {
    assert_eq!(found.len(), 4, "{found:?}");
    let of = |choice: &str| -> Vec<&str> {
        let those = found.iter().filter(|(of, _)| *of == choice);
        those.map(|(_, line)| line.as_str()).collect()
    };
    let own = of("run");
    assert!(
        own.iter().all(|line| line.starts_with("found 0 ")),
        "{own:?}"
    );
    let shared = of("session");
    assert!(shared[0].starts_with("found 0 "), "{shared:?}");
    assert!(shared[1].starts_with("found 1 "), "{shared:?}");
}

#[tokio::test]
async fn processes_share_compiled_kernels_where_they_say_so() {
    let home = tempfile::tempdir().unwrap();
    let script = format!(
        "{GOOD}echo found $(ls \"$CUDA_CACHE_PATH\" | wc -l) in \"$CUDA_CACHE_PATH\"\n\
         echo kernel > \"$CUDA_CACHE_PATH/$run\"\n{END}"
    );
    let runtimes = BTreeMap::from([("local".to_owned(), program(home.path(), &script))]);
    let executor = Process::new(host::local::open(), runtimes);
    check(&found(&executor, "local").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_share_compiled_kernels_where_they_say_so() {
    let images = BTreeMap::from([("tiny".to_owned(), image::with_mode("kernel-cache"))]);
    let executor = Container::new(host::local::open(), engine().await, images, None);
    check(&found(&executor, "tiny").await);
}
