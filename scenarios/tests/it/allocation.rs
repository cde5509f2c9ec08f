//! Tensors that come and go without a model.

use std::collections::HashMap;

use protocol::{FailureReason, Model, RunFile, Task, TensorEvent, Values};
use scenario::data::Tensors;

use crate::{
    binary::{Folder, check_failure, finished, run_file},
    support::alone,
};

const MIB: u64 = 1 << 20;

fn file(variant: &str) -> RunFile {
    RunFile::parse(&run_file(Model::None, Task::Allocation, variant)).unwrap()
}

/// Name and bytes of the first tensors of a run, and the most bytes of them that are there at once.
fn first(file: &RunFile, count: usize) -> (Vec<(u64, u64)>, u64) {
    let (mut live, mut most, mut all) = (HashMap::new(), 0, Vec::new());
    for event in Tensors::of(file) {
        match event {
            TensorEvent::Freed { id } => {
                assert!(live.remove(&id).is_some(), "{id} goes and is not there");
            }
            TensorEvent::Allocated { id, bytes } => {
                assert_eq!(live.insert(id, bytes), None, "{id}");
                most = most.max(live.values().sum());
                all.push((id, bytes));
            }
        }
        if all.len() == count {
            break;
        }
    }
    (all, most)
}

#[test]
fn random_tensors_have_their_sizes_and_keep_to_their_room() {
    let asked = file(r#"{"batch":100,"allocation_mib":"1-400","live_mib":4096}"#);
    let (all, most) = first(&asked, 5000);
    let mib = |&(_, bytes): &(u64, u64)| bytes as f64 / MIB as f64;
    assert!(all.iter().all(|next| (0.7..520.0).contains(&mib(next))));
    assert!((4000 * MIB..=4096 * MIB).contains(&most), "{most}");
    // Half of them are below the geometric mean of the ends; five deviations of a share.
    let small = all.iter().filter(|next| mib(next) < 20.0).count();
    assert!(small.abs_diff(2500) < 177, "{small}");
    assert_eq!(first(&asked, 5000).0, all, "the seed says all");
    let other = RunFile {
        seed: 8,
        ..asked.clone()
    };
    assert_ne!(first(&other, 5000).0, all);
    // One that is larger than the room is there alone.
    let (_, most) = first(
        &file(r#"{"batch":100,"allocation_mib":"9-10","live_mib":1}"#),
        50,
    );
    assert!((7 * MIB..13 * MIB).contains(&most), "{most}");
}

#[test]
fn alternating_tensors_and_those_of_a_trace_come_in_turn() {
    let asked = file(r#"{"batch":100,"allocations":"alternating","live_mib":1000}"#);
    let (all, most) = first(&asked, 6);
    let bytes: Vec<u64> = all.iter().map(|&(_, bytes)| bytes).collect();
    let pair = [400_000_000, 100_000_000];
    assert_eq!(bytes, [pair, pair, pair].concat());
    assert_eq!(most, 1_000_000_000, "two of each");
    let freed = Tensors::of(&asked).filter_map(|event| match event {
        TensorEvent::Freed { id } => Some(id),
        TensorEvent::Allocated { .. } => None,
    });
    assert_eq!(
        freed.take(4).collect::<Vec<_>>(),
        [0, 1, 2, 3],
        "the oldest first"
    );

    let asked = RunFile {
        trace: Some("+1 10\n+2 20\n-1\n+1 30\n-2".parse().unwrap()),
        ..file(r#"{"batch":100}"#)
    };
    let (all, most) = first(&asked, 5);
    assert_eq!(all, [(1, 10), (2, 20), (1, 30), (1, 10), (2, 20)]);
    assert_eq!(most, 50);
}

#[test]
fn on_a_cpu_there_are_bytes_and_times_and_nothing_else() {
    let _turn = alone();
    let variant = r#"{"batch":100,"allocation_mib":"1-4","live_mib":64}"#;
    let text = run_file(Model::None, Task::Allocation, variant);
    let (values, steps) = finished(&text);
    let live = |steps: &[Values]| -> Vec<f64> {
        steps.iter().map(|of| of["step_allocated_bytes"]).collect()
    };
    let room = 64.0 * MIB as f64;
    assert_eq!(steps.len(), 3);
    for step in &steps {
        assert_eq!(step.len(), 2, "{step:?}");
        assert!(step["step_seconds"] > 0.0);
    }
    assert!(
        live(&steps)
            .iter()
            .all(|bytes| (room * 0.9..=room).contains(bytes))
    );
    assert_eq!(live(&finished(&text).1), live(&steps), "the seed says all");
    assert!(values["thousand_allocations_seconds"] > 0.0);
    assert!(values["peak_allocated_bytes"] <= room);
    for name in [
        "survived_allocations_count",
        "peak_reserved_bytes",
        "largest_free_block_bytes",
        "throughput_samples_per_second",
    ] {
        assert_eq!(values.get(name), None, "{name}");
    }
    let trace = run_file(Model::None, Task::Allocation, r#"{"batch":100}"#);
    let trace = trace.replace(
        r#""seed":7"#,
        r#""seed":7,"trace":"+1 1048576\n+2 2097152\n-1\n""#,
    );
    let (_, steps) = finished(&trace);
    assert_eq!(live(&steps), [3.0 * MIB as f64; 3]);
}

#[test]
fn what_no_allocator_can_do_is_refused() {
    let run = run_file(Model::BertTiny, Task::Training, "{}");
    let snapshot = run.replace(r#""warmup":1"#, r#""warmup":1,"snapshot":true"#);
    let traced = run.replace(r#""seed":7"#, r#""seed":7,"trace":"+1 5""#);
    for (text, words) in [
        (snapshot, "only the allocator of a CUDA GPU keeps a history"),
        (traced, "a trace of tensors is for the task allocation"),
    ] {
        let folder = Folder::new(&text);
        check_failure(&folder, &folder.run(), FailureReason::BadRunFile, words);
    }
}
