//! GPUs that are in use, hot, held back or lost, and several at once.

use std::{collections::BTreeSet, thread, time::Duration};

use protocol::Device;
use rustix::process::Signal;

use crate::support::{Home, message, outcomes};

const GPU: &str = "--device=cuda:0";

fn words(home: &Home, name: &str) -> Vec<String> {
    let records = home.read(name).1;
    outcomes(&records)
        .into_iter()
        .map(|(order, attempt, word)| format!("{order}.{attempt} {word}"))
        .collect()
}

#[test]
fn a_gpu_is_one_session_s_at_a_time() {
    let home = Home::new();
    let first = home.bench("first", "*=sleep:60000", &[GPU]);
    first.until_it_runs();
    let text = home.bench("second", "", &[GPU]).ends_with(4);
    let holder = home.read("first").0.session;
    assert!(
        text.contains("cuda:0 (Fake GPU, GPU-")
            && text.contains(&format!("in use by the session {holder}, process "))
            && text.contains(", since 2"),
        "{text}"
    );
    assert!(!home.path("second").exists(), "something was begun");
    // Another GPU and the CPU are free, and whoever shares still waits for who does not.
    home.bench("other", "", &["--device=cuda:1"]).ends_with(0);
    home.bench("cpu", "", &["--device=cpu"]).ends_with(0);
    home.bench("share", "", &[GPU, "--share-gpu"]).ends_with(4);
    // The lock goes with its holder, however that ends.
    first.signal(Signal::KILL);
    first.ends_with(-1);
    home.bench("second", "", &[GPU]).ends_with(0);
}

#[test]
fn the_cpu_is_one_session_s_at_a_time() {
    let home = Home::new();
    home.suite("host_busy_percent: any", &["one"]);
    let line = |name: &str, script: &str, share: &str| {
        format!(
            "TORCHGAUGE_SHARE_CPU= cargo xtask bench --suite {} --engine 'mock:{script}' --device cpu \
             --out {} {share}",
            home.path("suite.yaml").display(),
            home.path(name).display()
        )
    };
    let first = home.shell("first", &line("first", "*=sleep:60000", ""));
    first.until_it_runs();
    for share in ["", "--share-cpu"] {
        let text = home
            .shell("second", &line("second", "", share))
            .ends_with(4);
        let holder = home.read("first").0.session;
        assert!(
            text.contains("this machine's CPU is in use by the session")
                && text.contains(&holder)
                && text.contains("--share-cpu"),
            "{text}"
        );
    }
    assert!(!home.path("second").exists(), "something was begun");
}

#[test]
fn a_session_keeps_how_its_gpus_reach_each_other() {
    let home = Home::new();
    let links = |name: &str, state: &str| {
        home.gpus(&format!("gpus 3\n{state}"));
        home.bench(name, "", &[GPU]).ends_with(0);
        let session = home.read(name).0;
        let gpus = session.machine().gpus.clone();
        gpus.into_iter().map(|gpu| gpu.links).collect::<Vec<_>>()
    };
    // Two have each other, the third nobody.
    let found = links(
        "direct",
        "0.nvlinks 4\n0.nvlinks_to 1\n1.nvlinks 4\n1.nvlinks_to 0\nancestor 20\n",
    );
    let link = |to, nvlinks, path| record::Link {
        to,
        nvlinks,
        path: Some(path),
        peer_access: Some(true),
    };
    let switches = record::PciPath::Switches;
    assert_eq!(found[0], [link(1, 4, switches), link(2, 0, switches)]);
    assert_eq!(found[1], [link(0, 4, switches), link(2, 0, switches)]);
    assert_eq!(found[2], [link(0, 0, switches), link(1, 0, switches)]);
    // Behind switches each has all of its links to whoever has some.
    let found = links("switched", "0.nvlinks 18\n1.nvlinks 18\n");
    let system = record::PciPath::System;
    assert_eq!(found[0], [link(1, 18, system), link(2, 0, system)]);
    assert_eq!(found[2], [link(0, 0, system), link(1, 0, system)]);
}

#[test]
fn sessions_that_agree_share_a_gpu() {
    let home = Home::new();
    let first = home.bench("first", "*=sleep:1500", &[GPU, "--share-gpu"]);
    first.until_it_runs();
    home.bench("second", "", &[GPU, "--share-gpu"]).ends_with(0);
    first.ends_with(0);
    assert!(home.read("second").0.policy.shares_gpu);
}

#[test]
fn a_run_waits_for_an_idle_gpu() {
    let home = Home::new();
    home.suite("wait: 60s", &["one"]);
    home.gpus("gpus 1\n0.processes 1\n0.utilization 90\n");
    let running = home.bench("s", "", &[GPU]);
    running.until_it_runs();
    thread::sleep(Duration::from_millis(700));
    home.gpus("gpus 1\n");
    running.ends_with(0);
    let records = home.read("s").1;
    assert_eq!(words(&home, "s"), ["0.1 ok", "1.1 ok"]);
    let before = records[0].validity.before.as_ref().expect("a look");
    assert!(before.waited_seconds > 0.3, "{before:?}");
    assert_eq!(before.waited_for[0], "the GPU is 90 % at work (limit 10 %)");
    assert!(before.waited_for[1].starts_with("other processes use the GPU: 1 ("));
    assert_eq!(before.gpu_processes, Some(vec![]));
    let limits = records[0].validity.limits.as_ref().expect("limits");
    assert!((limits.wait_seconds - 60.0).abs() < 1e-9 && limits.repeats == 2);
}

#[test]
fn a_gpu_that_stays_hot_is_not_measured_on() {
    let home = Home::new();
    home.suite("wait: 300ms, repeats: 1", &["one"]);
    home.gpus("gpus 1\n0.temperature 91\n");
    let text = home.bench("s", "", &[GPU]).ends_with(3);
    assert!(
        text.contains("the session ends here") && text.contains("1 run is still to do"),
        "{text}"
    );
    let records = home.read("s").1;
    assert_eq!(words(&home, "s"), ["0.1 contaminated", "0.2 contaminated"]);
    let words = message(&records[0]);
    assert!(
        words.contains("within 0.3 s: the GPU is at 91 °C (limit 75 °C)"),
        "{words}"
    );
    assert!(records[0].started.is_none(), "it was not started");
}

#[test]
fn a_run_that_was_contaminated_is_marked_left_out_and_repeated() {
    let home = Home::new();
    home.suite("wait: 60s, repeats: 2", &["one"]);
    let running = home.bench("s", "0000=sleep:1500", &[GPU]);
    running.until_it_runs();
    thread::sleep(Duration::from_millis(600));
    home.gpus("gpus 1\n0.processes 1\n");
    running.until_records(1);
    home.gpus("gpus 1\n");
    running.ends_with(0);
    assert_eq!(words(&home, "s"), ["0.1 contaminated", "0.2 ok", "1.1 ok"]);
    let records = home.read("s").1;
    assert!(
        message(&records[0]).contains("other processes used the GPU: 1 (")
            && message(&records[0]).ends_with("it ended well"),
        "{}",
        message(&records[0])
    );
    assert!(!records[0].values.is_empty(), "for looking at");
    assert_eq!(records[0].validity.contamination.len(), 1);
    assert_eq!(records[0].monitor.gpus[0].other_processes, [1]);
    let [stretch] = &records[0].monitor.gpus[0].intervals[..] else {
        panic!("{:?}", records[0].monitor.gpus)
    };
    assert_eq!(stretch.reason, "others");
    assert!(
        stretch.from_seconds > 0.3 && stretch.to_seconds > stretch.from_seconds,
        "{stretch:?}"
    );
    assert_eq!(records[1].monitor.gpus[0].intervals, []);

    // Verdicts and reports stand on the others.
    let text = std::fs::read_to_string(home.path("s/report.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let count = &report["cells"][0]["metrics"]["throughput_samples_per_second"]["n"];
    assert_eq!(count, 2, "{}", report["cells"][0]);
    assert!(
        std::fs::read_to_string(home.path("s/report.md"))
            .expect("a report")
            .contains(
                "1 attempt was contaminated by something else on the machine, and left out of every \
                 metric; 1 of them repeated with success."
            )
    );
    let contaminated = &report["contaminated"][0];
    assert_eq!(
        (
            &contaminated["attempt"],
            &contaminated["last_attempt"],
            &contaminated["last_outcome"]["kind"]
        ),
        (&1.into(), &2.into(), &"ok".into()),
        "{contaminated}"
    );
    let page = std::fs::read_to_string(home.path("s/report.html")).expect("a report");
    assert!(page.contains("<section id=\"contaminated\""));
    assert!(page.contains("others, from "), "the stretch is drawn");
}

#[test]
fn a_run_on_a_gpu_that_was_held_back_is_worth_nothing() {
    let home = Home::new();
    home.suite("repeats: 0", &["one"]);
    // Bits of nvml.h: 0x40 is the slowdown for heat.
    home.gpus("gpus 1\n0.throttle 0x40\n");
    home.bench("s", "*=sleep:400", &[GPU]).ends_with(3);
    assert_eq!(words(&home, "s"), ["0.1 contaminated", "1.1 contaminated"]);
    let records = home.read("s").1;
    assert!(
        message(&records[0]).contains("held back by hw_thermal_slowdown in 100 % of the samples"),
        "{}",
        message(&records[0])
    );
    // 0x4 is the power cap, which a large model reaches by itself.
    home.gpus("gpus 1\n0.throttle 0x4\n");
    home.bench("cap", "*=sleep:400", &[GPU]).ends_with(0);
    home.suite("repeats: 0, power_cap_percent: 20", &["one"]);
    home.bench("strict", "*=sleep:400", &[GPU]).ends_with(3);
}

#[test]
fn a_lost_gpu_ends_the_session_which_goes_on_when_it_is_back() {
    for (state, words_of_it) in [
        ("0.lost 1", "it fell off the bus"),
        ("0.xid 79", "XID 79: the GPU has fallen off the bus"),
        ("0.ecc 2", "2 uncorrectable errors in the GPU's memory"),
    ] {
        let home = Home::new();
        home.gpus("gpus 1\n");
        let running = home.bench("s", "0000=sleep:60000", &[GPU]);
        running.until_it_runs();
        thread::sleep(Duration::from_millis(600));
        home.gpus(&format!("gpus 1\n{state}\n"));
        let text = running.ends_with(3);
        assert!(text.contains("runs are still to do"), "{text}");
        assert_eq!(words(&home, "s"), ["0.1 gpu-lost"], "{state}");
        let records = home.read("s").1;
        assert!(
            message(&records[0]).contains(words_of_it),
            "{}",
            message(&records[0])
        );
        home.gpus("gpus 1\n");
        home.bench("s", "", &[GPU, "--resume"]).ends_with(0);
        assert_eq!(words(&home, "s"), ["0.1 gpu-lost", "0.2 ok", "1.1 ok"]);
    }
}

#[test]
fn a_program_s_own_error_on_the_gpu_is_noted_and_no_more() {
    let home = Home::new();
    let running = home.bench("s", "0000=sleep:1500", &[GPU]);
    running.until_it_runs();
    thread::sleep(Duration::from_millis(500));
    home.gpus("gpus 1\n0.xid 13\n");
    running.ends_with(0);
    assert_eq!(home.read("s").1[0].monitor.gpus[0].xids, [13]);
}

#[test]
fn an_executor_brings_hosts_and_gpus_of_its_own() {
    let home = Home::new();
    home.suite("wait: 1s", &["one", "two"]);
    let cluster = "hosts=2,gpus=4";
    home.bench("s", cluster, &["--device=cuda:3"]).ends_with(0);
    let (session, records) = home.read("s");
    assert_eq!(session.machine_names(), "mock-1, mock-2");
    let hosts: BTreeSet<_> = records.iter().map(|record| record.host.as_str()).collect();
    assert_eq!(hosts, ["mock-1", "mock-2"].into());
    assert_eq!(home.locks(), 0, "no GPU of this machine was locked");
    let report = std::fs::read_to_string(home.path("s/report.md")).expect("a report");
    assert!(
        report.contains("mock-1") && report.contains("mock-2"),
        "{report}"
    );
    home.bench("s", cluster, &["--resume"]).ends_with(0);
    let text = home.bench("t", cluster, &["--device=cuda:4"]).ends_with(2);
    assert!(text.contains("there is no GPU cuda:4"), "{text}");
}

#[test]
fn ranks_that_cannot_be_are_refused_before_anything_starts() {
    let home = Home::new();
    let text =
        "version: 1\ndescription: d\nscenarios:\n- {name: wide, model: vit-tiny, ranks: 1024}\n";
    std::fs::write(home.path("suite.yaml"), text).expect("the suite is written");
    let words = home
        .bench("s", "hosts=2,gpus=3", &["--device=cuda:0,1,2"])
        .ends_with(2);
    assert!(
        words.contains("suite, scenario wide: 1024 ranks need as many GPUs, 6 given"),
        "{words}"
    );
    let line = format!(
        "cargo xtask bench --suite {} --engine process --device cpu --out {}",
        home.path("suite.yaml").display(),
        home.path("t").display()
    );
    let words = home.shell("t", &line).ends_with(2);
    assert!(
        words.contains("suite, scenario wide: 1024 ranks, but runs as plain processes")
            && words.contains("lower `ranks`"),
        "{words}"
    );
    assert!(!home.path("s").exists() && !home.path("t").exists());
}

#[test]
fn counts_of_ranks_are_swept_as_far_as_there_are_gpus() {
    let home = Home::new();
    let text = "version: 1\ndescription: d\ndefaults: {blocks: 2}\nscenarios:\n\
        - {name: wide, model: vit-tiny, ranks: [1, 2, 8]}\n";
    std::fs::write(home.path("suite.yaml"), text).expect("the suite is written");
    let words = home
        .bench("s", "hosts=1,gpus=3", &["--device=cuda:0,1,2"])
        .ends_with(0);
    let left_out = "suite: 1 variant of wide left out: 8 ranks need as many GPUs, 3 given";
    assert!(words.contains(left_out), "{words}");
    let (_, records) = home.read("s");
    let ranks: BTreeSet<_> = records
        .iter()
        .map(|record| (record.axes["ranks"].clone(), record.ranks.len()))
        .collect();
    assert_eq!(ranks, [("1".to_owned(), 0), ("2".to_owned(), 2)].into());
    for record in &records {
        assert!(
            !record.values.contains_key("scaling_efficiency_ratio"),
            "it is in no record"
        );
    }
    let page = std::fs::read_to_string(home.path("s/report.html")).expect("a page");
    for part in ["id=\"ranks\"", "against ranks", "linear", "cuda:1"] {
        assert!(page.contains(part), "no {part}");
    }
    let report = std::fs::read_to_string(home.path("s/report.md")).expect("a report");
    assert!(report.contains("## Ranks"), "{report}");
    let json = std::fs::read_to_string(home.path("s/report.json")).expect("a report");
    assert!(json.contains("scaling_efficiency_ratio"));
}

#[test]
fn cells_spread_over_gpus_run_side_by_side_and_stay_where_they_are() {
    let home = Home::new();
    home.suite("wait: 1s", &["one", "two"]);
    let both = "--device=cuda:0,1";
    let running = home.bench("s", "*=sleep:1500", &[both]);
    running.until_it_runs();
    home.bench("other", "", &["--device=cuda:1"]).ends_with(4);
    running.ends_with(0);
    let (session, records) = home.read("s");
    let spread = session.policy.places.iter().map(|place| place.device);
    let spread: Vec<Device> = spread.collect();
    assert_eq!(spread, [Device::Cuda(0), Device::Cuda(1)]);
    for scenario in ["one", "two"] {
        let gpus: BTreeSet<_> = records
            .iter()
            .filter(|record| record.scenario == scenario)
            .map(|record| {
                let told = record.started.as_ref().and_then(|told| told.cuda.clone());
                (record.device, told.expect("a GPU").uuid)
            })
            .collect();
        assert_eq!(gpus.len(), 1, "{scenario} moved: {gpus:?}");
    }
    // The two runs of a block overlap: each began before the other was over.
    let of_block: Vec<_> = records.iter().filter(|record| record.block == 0).collect();
    let apart = of_block[0]
        .started_at
        .duration_since(of_block[1].started_at)
        .as_secs_f64()
        .abs();
    assert!(apart < 1.4, "they ran one after the other, {apart} s apart");

    let text = home.bench("s", "", &[GPU, "--resume"]).ends_with(2);
    assert!(
        text.contains("--device cuda:0 contradicts the session, which was begun with cuda:0,1"),
        "{text}"
    );
}
