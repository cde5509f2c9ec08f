//! An image that means harm, in a container. `docs/security.md` says what it can and cannot do.

use std::{
    fs,
    time::{Duration, Instant},
};

use engine::{Endpoint, Engine};
use record::Sampled;

use crate::{
    common::{ending, message},
    containers::{check, run_until},
};

#[tokio::test(flavor = "multi_thread")]
async fn results_without_end_are_cut_off_while_they_are_written() {
    let began = Instant::now();
    let record = check(
        "flood-results",
        "{results: 1MiB}",
        "flooded",
        "1048576 bytes of results",
    );
    let record = record.await;
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
    assert!(!record.values.contains_key("samples_count") && record.series.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_end_is_cut_off_and_keeps_both_ends() {
    let began = Instant::now();
    let done = run_until("flood-log", "{log: 1MiB}", None).await;
    assert_eq!(ending(&done.record), "flooded", "{}", message(&done.record));
    assert!(
        began.elapsed() < Duration::from_secs(90),
        "{:?}",
        began.elapsed()
    );
    let log = &done.log;
    assert!(log.len() < (1 << 20) + 100, "{}", log.len());
    assert!(log.starts_with("mode flood-log\nfirst\n0123456789"));
    assert!(log.contains(" bytes left out …\n"));
    assert_eq!(done.left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_says_acts_on_no_terminal_and_no_ci() {
    for (mode, word, expect) in [
        (
            "escapes",
            "libtorch",
            "\\u{1b}]0;owned\\u{7}\n\\::error::in the message\\u{202e}",
        ),
        (
            "log-escapes",
            "exit-status",
            "\\u{1b}[2J\n\\::error::in the log",
        ),
    ] {
        let record = check(mode, "{}", word, expect).await;
        assert_eq!(record::printable(message(&record)), message(&record));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_stays_within_its_container() {
    let limits = "{pids: 32, time: 3s}";
    let done = run_until("fork-bomb", limits, None).await;
    assert_eq!(
        ending(&done.record),
        "time-limit",
        "{}",
        message(&done.record)
    );
    let most = done
        .record
        .monitor
        .get(Sampled::Pids)
        .map(|pids| pids.maximum);
    assert!(most.is_none_or(|most| most <= 32.0), "{most:?}");
    assert!(done.record.wall_seconds < 60.0);
    assert_eq!(done.left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_that_cannot_be_are_none() {
    check(
        "forged",
        "{}",
        "invalid",
        "step_minimum_seconds is 0.000002",
    )
    .await;
    check("overstated", "{}", "invalid", "more than lived_seconds").await;
}

/// The limit of trust: of the work that this one reports it does none.
#[tokio::test(flavor = "multi_thread")]
async fn figures_that_could_be_are_believed() {
    let record = check("forged-well", "{}", "ok", "").await;
    assert_eq!(record.value("throughput_samples_per_second"), Some(20.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_fills_no_more_of_tmp_than_it_may() {
    let done = run_until("fill-tmp", "{tmp: 8MiB}", None).await;
    assert_eq!(ending(&done.record), "ok", "{}", message(&done.record));
    assert!(
        done.log.contains("8 MiB in /tmp: StorageFull"),
        "{}",
        done.log
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setuid_file_of_root_s_makes_nobody_root() {
    let done = run_until("setuid", "{}", None).await;
    let log = done.log.replace('\t', " ");
    assert!(log.contains("file 104755"), "{log}");
    let powerless = "Uid: 65534 65534 65534 65534 Gid: 65534 65534 65534 65534 \
                     CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1";
    assert_eq!(log.matches(powerless).count(), 2, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn its_memory_has_a_limit_where_the_suite_sets_none() {
    let done = run_until("memory-limit", "{}", None).await;
    assert_eq!(ending(&done.record), "ok", "{}", message(&done.record));
    let limit = done
        .log
        .lines()
        .find_map(|line| line.strip_prefix("limit "));
    let limit: u64 = limit.unwrap().parse().unwrap_or(u64::MAX);
    let machine = bench_suite::host::local::open().facts().memory_bytes;
    assert!(
        limit <= machine / 10 * 9 && limit > machine / 2,
        "{limit} of {machine}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_somebody_removes_did_not_run_out_of_memory() {
    let engine = Engine::connect(&Endpoint::Auto).await.unwrap();
    let remover = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // By the name of the scenario, which is this test's alone.
            let found = engine.list_containers(engine::LABEL_SESSION).await.unwrap();
            let ours = found
                .iter()
                .find(|found| found.is_running && found.name.ends_with("-removed-by-somebody"));
            if let Some(container) = ours {
                let removed = std::process::Command::new("docker")
                    .args(["rm", "--force", &container.id])
                    .status();
                assert!(removed.unwrap().success());
                break;
            }
        }
    });
    let done = crate::containers::run_scenario(
        crate::image::with_mode("hang"),
        "{name: removed-by-somebody, model: vit-tiny, task: inference, \
          limits: {memory: 256MiB, time: 60s}}",
        None,
    );
    let record = done.await.record;
    let (ending, message) = (ending(&record), message(&record));
    // Where it was gone before anybody waited for it, the engine knows of no end.
    if ending == "engine" {
        assert!(message.contains("somebody else removed"), "{message}");
    } else {
        assert_eq!(ending, "crash", "{message}");
        assert!(message.contains("ended by SIGKILL"), "{message}");
        let mut notes = record.notes.iter();
        let is_told = notes.any(|note| note.contains("somebody asked the engine"));
        assert!(is_told, "{:?}", record.notes);
    }
    remover.await.unwrap();
}

/// Processes of a running container whose name ends so, without what the engine watches it with.
async fn processes_of(engine: &Engine, name: &str) -> Vec<i32> {
    let found = engine.list_containers(engine::LABEL_SESSION).await.unwrap();
    let Some(container) = found
        .iter()
        .find(|one| one.is_running && one.name.ends_with(name))
    else {
        return Vec::new();
    };
    let is_inside = |pid: &i32| {
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        group.contains(&container.id) && !group.contains("conmon")
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_inside).collect()
}

/// Podman 4.3 tells neither of this kill nor of one for memory; the kernel counts the latter, over the
/// whole machine, so that those of tests beside this one count as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_that_nobody_tells_of_is_not_said_to_be_for_memory() {
    let oom_kills = || procfs::vmstat().unwrap().get("oom_kill").copied();
    for _ in 0..5 {
        let before = oom_kills();
        let (record, reports_oom) = killed_by_nobody().await;
        if oom_kills() != before {
            continue;
        }
        assert_eq!(ending(&record), "crash", "{}", message(&record));
        let told = message(&record);
        assert!(told.contains("ended by SIGKILL"), "{told}");
        let open = "it may have been for memory: the container's memory limit of 268435456 bytes";
        let is_open = record.notes.iter().any(|note| note.contains(open));
        assert_eq!(is_open, !reports_oom, "{:?}", record.notes);
        return;
    }
    panic!("something on this machine runs out of memory all the time");
}

/// A run whose processes are killed past the engine, and whether that would report a kill for memory.
async fn killed_by_nobody() -> (record::Record, bool) {
    let engine = Engine::connect(&Endpoint::Auto).await.unwrap();
    let reports_oom = engine.facts().reports_oom();
    let killer = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let pids = processes_of(&engine, "-killed-by-nobody").await;
            for pid in &pids {
                let pid = rustix::process::Pid::from_raw(*pid).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            if !pids.is_empty() {
                break;
            }
        }
    });
    let done = crate::containers::run_scenario(
        crate::image::with_mode("hang"),
        "{name: killed-by-nobody, model: vit-tiny, task: inference, \
          limits: {memory: 256MiB, time: 60s}}",
        None,
    );
    let record = done.await.record;
    killer.await.unwrap();
    (record, reports_oom)
}
