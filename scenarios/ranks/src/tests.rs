use std::{fs, path::Path, process::Command, time::Duration};

use super::*;

const SHORT: Patience = Patience {
    grace: Duration::from_millis(300),
    others: Duration::from_millis(600),
};

/// Runs a shell script as each rank, in a folder; what came of it in words.
fn check(count: u32, script: &str, expect: &str) -> (tempfile::TempDir, Duration) {
    let home = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let outcome = run(count, SHORT, |_| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(home.path());
        command
    });
    let found = match outcome {
        Ok(()) => "ok".to_owned(),
        Err(Lost { rank, how }) => format!("rank {rank} {how}"),
    };
    assert!(found.starts_with(expect), "{found}");
    let took = began.elapsed();
    // Each script that goes on writes its number first.
    for pid in fs::read_dir(home.path()).unwrap().flatten() {
        let name = pid.file_name();
        let name = name.to_string_lossy();
        if let Some(pid) = name.strip_prefix("pid-") {
            assert!(!Path::new("/proc").join(pid).exists(), "{pid} was left");
        }
    }
    (home, took)
}

#[test]
fn ranks_have_the_environment_of_torchrun() {
    let script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR > r$RANK; \
                  echo $MASTER_PORT > port$RANK";
    let (home, _) = check(3, script, "ok");
    let read = |name: &str| fs::read_to_string(home.path().join(name)).unwrap();
    for rank in 0..3 {
        assert_eq!(
            read(&format!("r{rank}")),
            format!("{rank} {rank} 3 3 127.0.0.1\n")
        );
        assert_eq!(read("port0"), read(&format!("port{rank}")));
    }
    assert!(read("port0").trim().parse::<u16>().unwrap() > 0);
}

#[test]
fn the_first_that_fails_ends_all_and_is_named() {
    let wait = "touch pid-$$; while :; do sleep 0.05; done";
    let (_, took) = check(
        4,
        &format!("[ $RANK = 2 ] && exit 7; {wait}"),
        "rank 2 ended with status 7",
    );
    assert!(took < Duration::from_secs(5), "{took:?}");
    check(
        3,
        &format!("[ $RANK = 1 ] && kill -9 $$; {wait}"),
        "rank 1 ended by signal 9; somebody killed it",
    );
    // What goes with another one is not the cause.
    let follows = "[ $RANK = 0 ] && { touch there; kill -SEGV $$; }; \
                   while [ ! -e there ]; do sleep 0.01; done; sleep 0.2; exit 1";
    check(2, follows, "rank 0 ended by signal 11");
}

#[test]
fn a_rank_that_ignores_sigterm_is_killed() {
    let script = "touch pid-$$; trap '' TERM; [ $RANK = 1 ] && { sleep 0.3; exit 3; }; \
                  while :; do sleep 0.05; done";
    let (_, took) = check(2, script, "rank 1 ended with status 3");
    assert!(took >= SHORT.grace, "{took:?}");
}

#[test]
fn a_rank_that_hangs_is_ended_by_name_and_a_slow_one_is_not() {
    let hangs = "touch pid-$$; [ $RANK = 1 ] && while :; do sleep 0.05; done; exit 0";
    let (_, took) = check(
        3,
        hangs,
        "rank 1 still ran 1 s after the first rank was done",
    );
    assert!(took >= SHORT.others, "{took:?}");
    // As long as the first one took it has anyway.
    check(
        2,
        "[ $RANK = 1 ] && sleep 1.4; [ $RANK = 0 ] && sleep 1; exit 0",
        "ok",
    );
}

#[test]
fn a_program_that_is_not_there_starts_nothing() {
    let outcome = run(2, SHORT, |rank| {
        Command::new(if rank == 0 {
            "sleep"
        } else {
            "/no/such/program"
        })
    });
    let lost = outcome.unwrap_err();
    assert_eq!(lost.rank, 1);
    assert!(lost.how.to_string().starts_with("cannot be started"));
}

#[test]
fn a_results_file_gets_what_the_rank_did_not_say() {
    let said = "{\"event\":\"phase-began\",\"phase\":\"warmup\",\"rank\":1}\n\
                {\"event\":\"failed\",\"reason\":\"libtorch\",\"phase\":\"warmup\",\"message\":\"m\"}\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), said).unwrap();
    let lost = |rank| Lost {
        rank,
        how: How::Signalled(9),
    };
    report(file.path(), &lost(0)).unwrap();
    let text = || fs::read_to_string(file.path()).unwrap();
    assert_eq!(text(), said, "rank 0 has said it");
    report(file.path(), &lost(1)).unwrap();
    let added = text()[said.len()..].to_owned();
    for part in [
        r#""rank":1"#,
        r#""reason":"rank-crash""#,
        r#""phase":"warmup""#,
        "ended by signal 9",
    ] {
        assert!(added.contains(part), "{added}");
    }
}
