//! Sides measured in the same place, and in others that look like it.

use protocol::{CudaFacts, Device, Started};
use record::{Gpu, Record, Sample, Sampled, Series, Session};
use verdict::{CompareError, Options, Side, Warning, compare};

use crate::support::{records, runs, session};

/// A host with these GPUs, as a cloud names it.
fn host(name: &str, gpus: &[&str]) -> Session {
    let mut session = session(name, "vm");
    session.hosts.values_mut().next().unwrap().gpus = (0_u32..)
        .zip(gpus)
        .map(|(index, uuid)| Gpu {
            index,
            name: "NVIDIA H200".into(),
            uuid: format!("GPU-{uuid}"),
            ..Gpu::default()
        })
        .collect();
    session
}

/// Runs that tell of this GPU, or were sent to it where they tell nothing.
fn on(session: &Session, gpu: u32, uuid: Option<&str>) -> Vec<Record> {
    let name = &session.session;
    let mut all = records(name, "img", 0, "tiny", &runs(100.0, 1000));
    for run in &mut all {
        run.device = Device::Cuda(gpu);
        run.started = uuid.map(|uuid| Started {
            cuda: Some(CudaFacts {
                device_name: "NVIDIA H200".into(),
                uuid: uuid.into(),
                ..CudaFacts::default()
            }),
            ..Started::default()
        });
    }
    all
}

type At<'a> = (&'a Session, &'a [Record]);

fn warned(base: At<'_>, head: At<'_>, across_machines: bool) -> Result<Vec<Warning>, CompareError> {
    let base = Side::pick(base.0, base.1, None).unwrap();
    let head = Side::pick(head.0, head.1, None).unwrap();
    let options = Options {
        across_machines,
        ..Options::default()
    };
    compare(&base, &head, &options).map(|verdicts| verdicts.warnings)
}

#[test]
fn hosts_of_one_name_are_told_apart_by_their_gpus() {
    let (here, there) = (host("a", &["aa"]), host("b", &["bb"]));
    let mut refusals = Vec::new();
    for (of_here, of_there) in [(Some("GPU-aa"), Some("GPU-bb")), (None, None)] {
        let (left, right) = (on(&here, 0, of_here), on(&there, 0, of_there));
        let refused = warned((&here, &left), (&there, &right), false).unwrap_err();
        assert!(
            matches!(refused, CompareError::EnvironmentsDiffer { .. }),
            "{refused:?}"
        );
        refusals.push(refused.to_string());
        let warnings = warned((&here, &left), (&there, &right), true).unwrap();
        let what = "GPUs: GPU-aa, GPU-bb".to_owned();
        assert_eq!(
            warnings,
            [Warning::AcrossMachines { what }, Warning::NotInterleaved]
        );
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    GPUs differ: `GPU-aa` and `GPU-bb`; a change may be theirs and not the image's. Measure both images in one session, or pass --across-machines
    GPUs differ: `GPU-aa` and `GPU-bb`; a change may be theirs and not the image's. Measure both images in one session, or pass --across-machines
    ");
}

#[test]
fn another_gpu_of_the_host_is_the_same_machine_and_a_warning() {
    let (here, again) = (host("a", &["aa", "bb"]), host("b", &["bb", "aa"]));
    let left = on(&here, 0, Some("aa"));
    let moved = on(&again, 0, Some("GPU-BB"));
    let warnings = warned((&here, &left), (&again, &moved), false).unwrap();
    let cell = "tiny · fp32 bs1".to_owned();
    assert_eq!(
        warnings,
        [
            Warning::OtherGpus { cell, cells: 1 },
            Warning::NotInterleaved
        ]
    );
    // The same GPU under another index is the same GPU, however its UUID is written.
    let same = on(&again, 1, Some("GPU-AA"));
    let warnings = warned((&here, &left), (&again, &same), false).unwrap();
    assert_eq!(warnings, [Warning::NotInterleaved]);
}

#[test]
fn cells_that_are_not_compared_do_not_count() {
    let (here, there) = (host("a", &["aa"]), host("b", &["aa", "bb"]));
    let left = on(&here, 0, Some("aa"));
    let mut right = on(&there, 0, Some("aa"));
    let mut other = on(&there, 1, Some("bb"));
    for run in &mut other {
        run.scenario = "new".into();
    }
    right.extend(other);
    let warnings = warned((&here, &left), (&there, &right), false).unwrap();
    assert!(
        warnings
            .iter()
            .all(|known| !matches!(known, Warning::OtherGpus { .. }))
    );
}

#[test]
fn cpus_of_one_model_and_other_counts_of_cores_are_other_machines() {
    let (mut here, mut there) = (session("a", "vm"), session("b", "vm"));
    for (session, cores) in [(&mut here, 8), (&mut there, 16)] {
        session.hosts.values_mut().next().unwrap().cpu.model = "Xeon".into();
        session.hosts.values_mut().next().unwrap().cpu.logical_cores = cores;
    }
    let left = records("a", "img", 0, "tiny", &runs(100.0, 1000));
    let right = records("b", "img", 0, "tiny", &runs(100.0, 1000));
    let refused = warned((&here, &left), (&there, &right), false).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.starts_with("CPUs differ: `8 × Xeon` and `16 × Xeon`"),
        "{text}"
    );
    there.hosts.values_mut().next().unwrap().cpu.logical_cores = 8;
    let warnings = warned((&here, &left), (&there, &right), false).unwrap();
    assert_eq!(warnings, [Warning::NotInterleaved]);
}

/// A GPU held to 400 W is slower than itself at 700 W.
#[test]
fn another_power_limit_is_another_environment() {
    let limited = |name: &str, watts: Option<f64>| {
        let mut session = host(name, &["aa"]);
        session.hosts.values_mut().next().unwrap().gpus[0].power_limit_watts = watts;
        session
    };
    let here = limited("a", Some(700.0));
    for (watts, refused) in [(Some(400.0), true), (Some(700.0), false), (None, false)] {
        let there = limited("b", watts);
        let (left, right) = (on(&here, 0, Some("aa")), on(&there, 0, Some("aa")));
        match warned((&here, &left), (&there, &right), false) {
            Err(error) => {
                let text = error.to_string();
                let expect = "GPU power limits differ: `700 W` and `400 W`";
                assert!(refused && text.starts_with(expect), "{text}");
            }
            Ok(warnings) => {
                assert!(!refused);
                assert_eq!(warnings, [Warning::NotInterleaved]);
            }
        }
    }
}

#[test]
fn runs_beside_which_others_were_busy_are_counted() {
    let mut session = session("s", "vm");
    session.hosts.values_mut().next().unwrap().cpu.logical_cores = 2;
    let with = |side: usize, others: f64| -> Vec<Record> {
        let mut all = records("s", ["a", "b"][side], side, "tiny", &runs(100.0, 1000));
        for run in &mut all[1..] {
            let used = Series::of(&[Sample(0.0, others)]).unwrap();
            run.monitor.series = [(Sampled::OtherCores, used)].into();
        }
        all
    };
    let warned = |base: f64, head: f64| {
        let (base, head) = (with(0, base), with(1, head));
        warned((&session, &base), (&session, &head), false).unwrap()
    };
    assert_eq!(warned(0.1, 0.5), []);
    let busy = Warning::BusyHost {
        base: 0,
        head: 5,
        runs: 12,
        used: 1.7,
        cpus: 2,
    };
    assert_eq!(warned(0.1, 1.7), [busy]);
}

/// Two images in six blocks, each block on one of these nodes, each node this much slower.
fn on_nodes(nodes: &[(&str, f64)]) -> Vec<Record> {
    let mut all = records("s", "old", 0, "tiny", &runs(100.0, 1000));
    all.extend(records("s", "new", 1, "tiny", &runs(110.0, 1000)));
    for run in &mut all {
        let (node, slower) = nodes[run.block as usize % nodes.len()];
        node.clone_into(&mut run.host);
        for (name, value) in &mut run.values {
            match name.as_str() {
                "throughput_samples_per_second" => *value /= slower,
                name if name.ends_with("_seconds") => *value *= slower,
                _ => {}
            }
        }
    }
    all
}

#[test]
fn a_slow_node_is_named_and_moves_no_ratio() {
    let session = session("s", "node1");
    let check = |nodes: &[(&str, f64)], tear: bool| {
        let mut records = on_nodes(nodes);
        if tear {
            "elsewhere".clone_into(&mut records[0].host);
        }
        let base = Side::pick(&session, &records, Some("old")).unwrap();
        let head = Side::pick(&session, &records, Some("new")).unwrap();
        let verdicts = compare(&base, &head, &Options::default()).unwrap();
        let found = verdicts.cells[0].metrics.iter();
        let mut found = found.filter(|found| found.metric == "throughput_samples_per_second");
        let comparison = found.next().unwrap().comparison.clone();
        let slow = verdicts
            .warnings
            .into_iter()
            .filter_map(|known| match known {
                Warning::SlowNode { node, share, .. } => {
                    Some(format!("{node} {:.0} %", share * 100.0))
                }
                _ => None,
            });
        (slow.collect::<Vec<_>>(), comparison)
    };
    let alike = [("node1", 1.0), ("node2", 1.004), ("node3", 0.997)];
    let (slow, of_alike) = check(&alike, false);
    assert!(slow.is_empty(), "{slow:?}");
    let (slow, of_bad) = check(&[("node1", 1.0), ("node2", 1.12), ("node3", 1.0)], false);
    assert_eq!(slow, ["node2 12 %"]);
    // Within a node as before: the image is 10 % faster on each.
    let ratio = |of: &judge::compare::Comparison| of.ratio.unwrap();
    assert!(
        (ratio(&of_bad) - ratio(&of_alike)).abs() < 1e-3,
        "{of_bad:?}"
    );
    assert_eq!(of_bad.verdict, judge::compare::Verdict::Improved);
    // A block that is torn over two nodes is no pair.
    let (_, torn) = check(&alike, true);
    assert_eq!((of_bad.blocks_used, torn.blocks_used), (6, 5));
}
