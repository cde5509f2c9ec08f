//! A host that others keep busy, for real.

use std::{
    process::{Child, Command},
    thread::available_parallelism,
};

use bench_suite::{executors::mock::Mock, session::Session};
use protocol::Device;
use tokio_util::sync::CancellationToken;

use crate::common::{Listener, ending, message, spec};

const SUITE: &str = "version: 1
description: d
defaults:
  blocks: 1
  steps: {warmup: 0, measured: 1}
  validity: {host_busy_percent: 50, wait: 200ms, repeats: 1}
scenarios:
- {name: a, model: vit-tiny, task: inference}
- {name: b, model: vit-tiny, task: inference}
";

/// Somebody who has every CPU at work.
struct Others(Vec<Child>);

impl Others {
    fn at_work() -> Self {
        let count = available_parallelism().map_or(1, usize::from);
        let one = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        Self((0..count).map(one).collect())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test]
async fn a_host_that_others_keep_busy_is_not_measured_on() {
    let home = tempfile::tempdir().unwrap();
    let mut spec = spec(SUITE, &["local"], Device::Cpu);
    spec.session.policy.shares_cpu = false;
    let mut session = Session::create(home.path(), "s", spec).unwrap();
    let mut listener = Listener::default();
    let others = Others::at_work();
    let totals = session
        .run(
            &Mock::new("").unwrap(),
            &mut listener,
            &CancellationToken::new(),
        )
        .await
        .unwrap();
    drop(others);
    // Tried again as often as the suite says, and then given up, with all that would wait as long.
    assert_eq!((totals.ok, totals.failed, totals.remaining), (0, 1, 1));
    let unfit = listener
        .told
        .iter()
        .find(|told| told.starts_with("unfit: "));
    assert!(unfit.is_some(), "{:?}", listener.told);
    let endings: Vec<_> = listener.records.iter().map(ending).collect();
    assert_eq!(endings, ["contaminated", "contaminated"]);
    let record = &listener.records[0];
    let words = message(record);
    assert!(
        words.contains("within 0.2 s") && words.contains("(limit 50 %)"),
        "{words}"
    );
    assert!(record.started.is_none(), "it was not started");
    let before = record.validity.before.as_ref().unwrap();
    assert!(before.host_busy_percent > Some(50.0), "{before:?}");
}
