//! The largest batch within a container's memory, against the real engine.

use std::collections::BTreeMap;

use bench_suite::{
    executors::container::Container,
    fit::{Question, find},
    host,
    scratch_run::ScratchRuns,
    session::fresh_name,
};
use protocol::Device;
use record::{Reason, fit::Attempt};
use tokio_util::sync::CancellationToken;

use crate::{common::spec, containers::engine, image};

const SUITE: &str = "version: 1
description: d
defaults: {blocks: 1, steps: {warmup: 0, measured: 1}, limits: {time: 60s}}
scenarios: [{name: a, model: vit-tiny, axes: {batch: 1}}]
";
const MIB: u64 = 1 << 20;

/// What the workload's batches of 8 MiB each come to in so much memory.
async fn attempts(mode: &str, memory_bytes: u64, most_batch: u32) -> (Option<u32>, Vec<Attempt>) {
    let engine = engine().await;
    let home = tempfile::tempdir().unwrap();
    let spec = spec(SUITE, &["tiny"], Device::Cpu);
    let session = fresh_name();
    let images = BTreeMap::from([("tiny".to_owned(), image::with_mode(mode))]);
    let executor = Container::new(host::local::open(), engine, images, None);
    let question = Question {
        plan: &spec,
        runs: ScratchRuns {
            hosts: &spec.session.hosts,
            session: &session,
            folder: home.path(),
            is_watched: true,
        },
        memory_bytes,
        most_batch,
    };
    let mut told = 0;
    let cancel = CancellationToken::new();
    let mut found = find(&question, &executor, &cancel, &mut |_, _| told += 1)
        .await
        .unwrap();
    let found = found.remove(0);
    assert_eq!(told, found.attempts.len());
    assert_eq!(found.problem, None);
    (found.largest_batch, found.attempts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_runs_out_of_memory_is_the_wall() {
    let (largest, attempts) = attempts("by-batch", 100 * MIB, 64).await;
    // Eight MiB a sample, and something for the program itself.
    assert!(
        matches!(largest, Some(9..=12)),
        "{largest:?} of {attempts:?}"
    );
    let killed = |attempt: &&Attempt| attempt.outcome.reason() == Some(Reason::HostOutOfMemory);
    assert!(
        attempts.iter().any(|attempt| killed(&attempt)),
        "{attempts:?}"
    );
    assert!(
        attempts
            .iter()
            .all(|attempt| attempt.outcome.is_ok() || killed(&attempt))
    );
    let peak = attempts
        .iter()
        .filter_map(|attempt| attempt.peak_bytes)
        .max()
        .unwrap();
    assert!((60 * MIB..=100 * MIB).contains(&peak), "{peak}");
}
