//! Against a real engine: Docker or Podman, whichever answers, or the one that
//! `TORCHGAUGE_TEST_ENGINE` (or `DOCKER_HOST`) names. Where none does, every test
//! here fails and says how to start one.

#[path = "support/mod.rs"]
mod support;

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use engine::{Engine, Error, Liveness, Mount, Oom, Owner, Product, Ulimit};
use futures_util::StreamExt as _;
use support::{Bed, LABEL};

const MIB: u64 = 1 << 20;
const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_loaded_found_named_and_removed() {
    let bed = Bed::new().await;
    let facts = bed.engine.image(&bed.image).await.unwrap().unwrap();
    assert!(facts.id.starts_with("sha256:"), "{facts:?}");
    assert_eq!(facts.layers.len(), 1);
    assert_eq!(facts.labels[LABEL], bed.session);
    assert_eq!(facts.environment["GREETING"], "hello");
    assert_eq!(facts.volumes, ["/data"]);
    assert!(facts.size_bytes > 100_000, "{facts:?}");
    assert_eq!(
        bed.engine.image(&facts.id).await.unwrap().unwrap().id,
        facts.id
    );

    let listed = bed
        .engine
        .list_images(&format!("{LABEL}={}", bed.session))
        .await
        .unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0].id, facts.id);
    assert_eq!(listed[0].labels[LABEL], bed.session);

    let other = format!("{}-again", bed.image);
    bed.engine.tag(&bed.image, &other).await.unwrap();
    assert_eq!(
        bed.engine.image(&other).await.unwrap().unwrap().id,
        facts.id
    );
    bed.engine.untag(&other).await.unwrap();
    assert_eq!(bed.engine.image(&other).await.unwrap(), None);
    assert!(bed.engine.image(&bed.image).await.unwrap().is_some());

    // With its last name it goes, and gone is fine.
    bed.engine.untag(&bed.image).await.unwrap();
    assert_eq!(bed.engine.image(&facts.id).await.unwrap(), None);
    bed.engine.untag(&bed.image).await.unwrap();
    assert_eq!(
        bed.engine
            .image("torchgauge-no-such-image:1")
            .await
            .unwrap(),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_reports_progress_and_the_image_keeps_its_id() {
    let bed = Bed::new().await;
    let before = bed.engine.image(&bed.image).await.unwrap().unwrap();
    let archive = support::archive(&bed.image, &bed.session);
    let total = archive.len() as u64;
    let steps = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = steps.clone();
    bed.engine
        .load(support::chunks(&archive), move |step| {
            seen.lock().unwrap().push(step);
        })
        .await
        .unwrap();
    let steps = steps.lock().unwrap().clone();
    assert!(steps.contains(&total), "{steps:?}");
    assert_eq!(bed.engine.image(&bed.image).await.unwrap().unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_is_refused() {
    let engine = support::connect().await;
    let error = engine
        .load(support::chunks("x".repeat(100_000).as_bytes()), |_| {})
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Failed(failure) if failure.operation == "load image archive into"),
        "{error:?}"
    );
    assert!(!error.is_engine_gone(), "{error}");

    let mut cut = support::archive("torchgauge-engine-test:cut", "cut");
    cut.truncate(cut.len() / 2);
    let error = engine
        .load(support::chunks(&cut), |_| {})
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Failed(failure) if failure.operation == "load image archive into"),
        "{error:?}"
    );
    assert_eq!(
        engine.image("torchgauge-engine-test:cut").await.unwrap(),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_and_signals_arrive() {
    let bed = Bed::new().await;
    // A program that is process 1 itself does not get its own SIGABRT, and crashes
    // harder.
    let crash = if bed.has_init().await {
        (134, 6)
    } else {
        (139, 11)
    };
    for (words, code, signal) in [
        (&["exit", "0"][..], 0, None),
        (&["exit", "7"], 7, None),
        (&["abort"], crash.0, Some(crash.1)),
    ] {
        let (exit, _) = bed.run(&bed.spec(words)).await;
        assert_eq!(
            (exit.code, exit.signal),
            (Some(code), signal),
            "{words:?}: {exit:?}"
        );
        assert_eq!(exit.oom, Oom::No, "{exit:?}");
        assert!(!exit.timed_out);
        assert!(
            exit.started_at.is_some() && exit.finished_at.is_some(),
            "{exit:?}"
        );
    }
    assert_eq!(bed.containers_left().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_limit_kills() {
    let bed = Bed::new().await;
    let container = bed.start(&bed.spec(&["sleep", "600"])).await;
    let begin = std::time::Instant::now();
    let exit = container.wait(Duration::from_secs(2)).await.unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "{:?}",
        begin.elapsed()
    );
    assert!(exit.timed_out && exit.code != Some(0), "{exit:?}");
    assert_eq!((exit.code, exit.oom), (Some(137), Oom::No), "{exit:?}");
    // Killing and waiting again change nothing.
    container.kill().await.unwrap();
    assert_eq!(container.wait(MINUTE).await.unwrap().code, Some(137));
    container.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_from_outside_is_not_out_of_memory() {
    let bed = Bed::new().await;
    let container = bed.start(&bed.spec(&["sleep", "600"])).await;
    container.kill().await.unwrap();
    let exit = container.wait(MINUTE).await.unwrap();
    assert_eq!(
        (exit.code, exit.signal, exit.oom),
        (Some(137), Some(9), Oom::No),
        "{exit:?}"
    );
    assert!(!exit.timed_out);
    assert_eq!(exit.ended_by.as_deref(), Some("kill"), "{exit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_limit_kills_and_says_whom() {
    let bed = Bed::new().await;
    let limited = |words: &[&str]| {
        let mut spec = bed.spec(words);
        spec.limits.memory_bytes = Some(64 * MIB);
        spec
    };
    let bytes = (512 * MIB).to_string();
    let (exit, _) = bed.run(&limited(&["eat", &bytes])).await;
    let told = bed.engine.facts().reports_oom();
    assert_eq!(exit.code, Some(137), "{exit:?}");
    assert_eq!(
        exit.oom,
        if told { Oom::Container } else { Oom::Unknown },
        "{exit:?}"
    );

    let (exit, output) = bed.run(&limited(&["parent-of-eater", &bytes])).await;
    assert_eq!(exit.code, Some(3), "{exit:?} {output}");
    assert!(output.contains("signal: 9"), "{output}");
    assert_eq!(
        exit.oom,
        if told { Oom::Child } else { Oom::No },
        "{exit:?}"
    );

    // Half of the limit fits.
    let (exit, output) = bed.run(&limited(&["eat", &(32 * MIB).to_string()])).await;
    assert_eq!(
        (exit.code, exit.oom),
        (Some(0), Oom::No),
        "{exit:?} {output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_hardened() {
    let bed = Bed::new().await;
    let has_init = bed.has_init().await;
    let (exit, output) = bed.run(&bed.spec(&["isolation"])).await;
    assert!(exit.code == Some(0), "{exit:?}\n{output}");
    assert_eq!(!output.contains("process 1: probe"), has_init, "{output}");
    for line in [
        "Uid: 65534 65534 65534 65534",
        "Gid: 65534 65534 65534 65534",
        "CapEff: 0000000000000000",
        "CapBnd: 0000000000000000",
        "NoNewPrivs: 1",
        "interfaces: lo",
        "/file: ReadOnlyFilesystem",
        "/dev/shm/file: written",
        "/tmp/file: written",
    ] {
        assert!(
            output.lines().any(|found| found == line),
            "no `{line}` in\n{output}"
        );
    }
    assert!(
        output.contains("mount /tmp tmpfs rw,nosuid,nodev,noexec"),
        "{output}"
    );
}

/// `HEALTHCHECK` would write to the results as the workload's user, ten times a second.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_image_runs_beside_the_command() {
    let bed = Bed::new().await;
    let results = bed.folder.path().join("results");
    std::fs::write(&results, "").unwrap();
    std::fs::set_permissions(&results, std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut spec = bed.spec(&["sleep", "3"]);
    spec.mounts.push(Mount {
        source: results.clone(),
        target: "/results".to_owned(),
        read_only: false,
    });
    let (exit, output) = bed.run(&spec).await;
    assert!(exit.code == Some(0), "{exit:?}\n{output}");
    assert_eq!(std::fs::read_to_string(&results).unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_limits_and_environment_arrive() {
    let bed = Bed::new().await;
    let results = bed.folder.path().join("results");
    std::fs::write(&results, "").unwrap();
    std::fs::set_permissions(&results, std::fs::Permissions::from_mode(0o666)).unwrap();
    let mount = |read_only| Mount {
        source: results.clone(),
        target: "/results".to_owned(),
        read_only,
    };

    let mut spec = bed.spec(&["write", "/results", "one line"]);
    spec.mounts.push(mount(false));
    let (exit, output) = bed.run(&spec).await;
    assert!(exit.code == Some(0), "{exit:?}\n{output}");
    assert_eq!(std::fs::read_to_string(&results).unwrap(), "one line");

    spec.mounts = vec![mount(true)];
    spec.command[3] = "another".to_owned();
    let (exit, output) = bed.run(&spec).await;
    assert!(
        exit.code != Some(0) && output.contains("ReadOnlyFilesystem"),
        "{exit:?}\n{output}"
    );
    assert_eq!(std::fs::read_to_string(&results).unwrap(), "one line");

    let mut spec = bed.spec(&["environment", "GREETING"]);
    assert_eq!(bed.run(&spec).await.1, "hello\n");
    spec.environment
        .insert("GREETING".to_owned(), "good = evening".to_owned());
    assert_eq!(bed.run(&spec).await.1, "good = evening\n");

    let mut spec = bed.spec(&["isolation"]);
    spec.limits.shm_bytes = Some(16 * MIB);
    spec.limits.cpus = Some(0.5);
    spec.limits.cpuset = Some("0".to_owned());
    let ulimit = Ulimit { soft: 77, hard: 99 };
    spec.limits.ulimits.insert("nofile".into(), ulimit);
    let (_, output) = bed.run(&spec).await;
    assert!(output.contains("Max open files 77 99 files"), "{output}");
    let shm = output
        .lines()
        .find(|line| line.starts_with("mount /dev/shm"))
        .unwrap();
    assert!(shm.contains("size=16384k"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_the_reason() {
    let bed = Bed::new().await;
    let mut spec = bed.spec(&["exit", "0"]);
    spec.image = "torchgauge-no-such-image:1".to_owned();
    let error = bed.engine.create(&spec).await.unwrap_err();
    assert!(matches!(error, Error::ImageMissing { .. }), "{error:?}");

    let mut spec = bed.spec(&["exit", "0"]);
    spec.name = Some(bed.session.clone());
    let first = bed.engine.create(&spec).await.unwrap();
    assert_eq!(first.name(), bed.session);
    let error = bed.engine.create(&spec).await.unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    first.remove().await.unwrap();
    bed.engine
        .create(&spec)
        .await
        .unwrap()
        .remove()
        .await
        .unwrap();

    let mut spec = bed.spec(&["exit", "0"]);
    spec.command = vec!["/no-such-program".to_owned()];
    spec.without_init = true;
    let mut container = bed.engine.create(&spec).await.unwrap();
    let error = container.start().await.unwrap_err();
    assert!(
        matches!(&error, Error::Failed(failure) if failure.operation == "start container"),
        "{error:?}"
    );
    assert!(error.to_string().contains("no-such-program"), "{error}");
    drop(container);
    bed.engine.cleanup().await.unwrap();
    assert_eq!(bed.containers_left().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_arrive_whole() {
    let bed = Bed::new().await;
    // About 8 MB, more than a daemon's usual rotation would keep of one file.
    let container = bed.start(&bed.spec(&["lines", "40000", "200"])).await;
    let exit = container.wait(Duration::from_mins(2)).await.unwrap();
    assert!(exit.code == Some(0), "{exit:?}");
    let saved_path = bed.folder.path().join("saved");
    container.save_logs(&saved_path, 16 << 20).await.unwrap();
    let padding = "x".repeat(200);
    let text = std::fs::read_to_string(&saved_path).unwrap();
    assert_eq!(text.lines().count(), 40_000);
    for (number, line) in text.lines().enumerate() {
        assert_eq!(line, format!("{number} {padding}"));
    }
    // Of what is more than the limit, the first and the last part.
    container.save_logs(&saved_path, 1 << 20).await.unwrap();
    let parts = std::fs::read_to_string(&saved_path).unwrap();
    assert!(parts.len() < (1 << 20) + 100, "{}", parts.len());
    let (head, rest) = parts.split_once("\n… ").unwrap();
    let (words, tail) = rest.split_once(" …\n").unwrap();
    assert!(text.starts_with(head) && text.ends_with(tail));
    let left_out = text.len() - head.len() - tail.len();
    assert_eq!(words, format!("{left_out} bytes left out"));
    // Told while the container runs, and here after it.
    let told = tokio::time::timeout(Duration::from_mins(1), container.log_exceeds(1 << 20));
    told.await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(2), container.log_exceeds(16 << 20));
    told.await.unwrap_err();
    // One line longer than an engine's buffer comes as one line.
    let (_, output) = bed.run(&bed.spec(&["lines", "1", "100000"])).await;
    assert_eq!(output.len(), 100_003);
    container.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_file_that_cannot_be_made_is_named() {
    let bed = Bed::new().await;
    let container = bed.start(&bed.spec(&["exit", "0"])).await;
    let path = bed.folder.path().join("no such folder/log");
    let error = container
        .save_logs(&path, 1 << 20)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("no such folder/log"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_are_sampled_and_end_with_the_container() {
    let bed = Bed::new().await;
    let mut spec = bed.spec(&["burn", "2"]);
    spec.limits.memory_bytes = Some(256 * MIB);
    let container = bed.start(&spec).await;
    let samples = tokio::spawn(container.stats().collect::<Vec<_>>());
    let exit = container.wait(MINUTE * 5).await.unwrap();
    assert!(exit.code == Some(0), "{exit:?}");
    let samples = tokio::time::timeout(Duration::from_secs(20), samples)
        .await
        .unwrap()
        .unwrap();
    let samples: Vec<engine::Sample> = samples.into_iter().map(Result::unwrap).collect();
    assert!(samples.len() >= 2, "{samples:?}");
    assert!(
        samples
            .iter()
            .any(|one| one.memory_bytes.is_some_and(|b| b > 10_000)),
        "{samples:?}"
    );
    assert!(
        samples
            .iter()
            .any(|one| one.pids.is_some_and(|pids| pids >= 1)),
        "{samples:?}"
    );
    let last = samples.iter().rev().find_map(|one| one.cpu_time).unwrap();
    assert!(last > Duration::from_millis(500), "{samples:?}");
    let busy: Vec<f64> = samples.iter().filter_map(|one| one.cpus_used).collect();
    assert!(
        // On a machine that others use it gets less than the half that it asks for.
        busy.iter().any(|cpus| *cpus > 0.0 && *cpus < 1.5),
        "{busy:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_container_is_removed() {
    let bed = Bed::new().await;
    let container = bed.start(&bed.spec(&["sleep", "600"])).await;
    assert_eq!(bed.containers_left().await.len(), 1);
    let mut stats = container.stats();
    drop(container);
    bed.engine.cleanup().await.unwrap();
    assert_eq!(bed.containers_left().await, []);
    assert_eq!(bed.engine.live_containers(), Vec::<String>::new());
    // The stream ends too.
    tokio::time::timeout(MINUTE, async { while stats.next().await.is_some() {} })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_leaves_nothing() {
    let bed = Bed::new().await;
    // Cancelled at many points, most of them inside of `create`.
    for milliseconds in [0, 1, 2, 5, 10, 20, 50, 100, 200] {
        let spec = bed.spec(&["sleep", "600"]);
        let run = async {
            let mut container = bed.engine.create(&spec).await.unwrap();
            container.start().await.unwrap();
            container.wait(MINUTE).await.unwrap();
        };
        assert!(
            tokio::time::timeout(Duration::from_millis(milliseconds), run)
                .await
                .is_err()
        );
    }
    // A creation that was cancelled still runs to its end before it is undone.
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        bed.engine.cleanup().await.unwrap();
        if bed.containers_left().await.is_empty() {
            return;
        }
    }
    panic!("left: {:?}", bed.containers_left().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeping_takes_the_dead_and_leaves_the_others() {
    let bed = Bed::new().await;
    // The owner's process has ended.
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    let mut owner = Owner::this_process(&bed.session, "dead");
    owner.pid = dead.id();
    dead.wait().unwrap();
    assert_eq!(owner.liveness(), Liveness::Dead);
    let with = |labels: std::collections::BTreeMap<String, String>| {
        let mut spec = bed.spec(&["sleep", "600"]);
        spec.labels.retain(|key, _| key == LABEL);
        spec.labels.extend(labels);
        spec
    };
    let orphan_running = bed.start(&with(owner.labels())).await;
    let orphan_created = bed.engine.create(&with(owner.labels())).await.unwrap();
    let mine = bed
        .start(&with(Owner::this_process(&bed.session, "alive").labels()))
        .await;
    let unlabelled = bed.start(&with(std::collections::BTreeMap::new())).await;
    let mut elsewhere = owner.clone();
    elsewhere.host = "another machine".to_owned();
    let elsewhere = bed.start(&with(elsewhere.labels())).await;

    // Another connection, as another session would have.
    let other = Engine::connect(&engine::Endpoint::parse(&bed.engine.facts().endpoint).unwrap())
        .await
        .unwrap();
    let swept = other.sweep_dead_owners().await.unwrap();
    let mut swept: Vec<String> = swept
        .into_iter()
        .filter(|leftover| leftover.labels.get(LABEL) == Some(&bed.session))
        .map(|leftover| leftover.id)
        .collect();
    let mut expect = vec![
        orphan_running.id().to_owned(),
        orphan_created.id().to_owned(),
    ];
    swept.sort();
    expect.sort();
    assert_eq!(swept, expect);
    let mut left: Vec<String> = bed
        .containers_left()
        .await
        .into_iter()
        .map(|leftover| leftover.id)
        .collect();
    let mut expect: Vec<String> = [&mine, &unlabelled, &elsewhere]
        .iter()
        .map(|one| one.id().to_owned())
        .collect();
    left.sort();
    expect.sort();
    assert_eq!(left, expect);
    // Removing what was swept away meanwhile is fine.
    orphan_running.remove().await.unwrap();
    // What was swept away runs no more.
    let pid = tokio::time::timeout(MINUTE, orphan_created.host_pid()).await;
    assert_eq!(pid.unwrap().unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_says_who_it_is() {
    let engine = support::connect().await;
    let facts = engine.facts();
    assert!(facts.version_numbers().0 >= 4, "{facts:?}");
    assert!(facts.storage_driver.is_some(), "{facts:?}");
    assert_eq!(
        facts.product == Product::Podman,
        facts.describe().starts_with("Podman")
    );
    engine.ping().await.unwrap();
}
