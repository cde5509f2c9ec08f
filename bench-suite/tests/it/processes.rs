//! The process executor against small programs that behave as workloads do, well and badly.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use crate::common::{Listener, ending, message, spec};
use bench_suite::{
    executors::{LocalRuntime, process::Process},
    host,
    plan::Plan,
    session::Session,
};
use protocol::{Device, Phase, Snapshot};
use record::{Outcome, Record, Sampled, Stage};
use tokio_util::sync::CancellationToken;

/// Writes events as a workload that ran one step of one sample does.
pub(crate) const GOOD: &str = r#"
run=$(sed -n 's/.*"run": "\(.*\)".*/\1/p' "$1")
say() { printf '%s\n' "$1" >> "$results"; }
results=$2
started='{"event":"started","version":4,"run":"'$run'","scenario_version":"0","libtorch_version":"2.11.0","threads":1,"cuda":null,"allocator":null}'
finished='{"event":"finished","values":{"parameters_count":1,"micro_batch_samples":1,"effective_batch_samples":1,"samples_count":1,"measured_seconds":0.05,"throughput_samples_per_second":20.0}}'
say "$started"
say '{"event":"phase-began","phase":"measure"}'
"#;
pub(crate) const END: &str = r#"
sleep 0.06
say '{"event":"step","index":0,"values":{"step_seconds":0.04}}'
say "$finished"
"#;

fn suite(limits: &str) -> String {
    format!(
        "version: 1\ndescription: d\ndefaults: {{blocks: 1, steps: {{warmup: 0, measured: 1}}}}\n\
         scenarios: [{{name: a, model: vit-tiny, task: inference, limits: {limits}}}]\n"
    )
}

pub(crate) fn program(folder: &Path, script: &str) -> LocalRuntime {
    let program = folder.join("scenario");
    fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    LocalRuntime {
        program,
        library_path: vec!["/opt/libtorch/lib".into()],
    }
}

async fn run_until(
    script: &str,
    limits: &str,
    cancel: CancellationToken,
) -> (tempfile::TempDir, Record, String) {
    run_suite(script, &suite(limits), cancel).await
}

async fn run_suite(
    script: &str,
    suite: &str,
    cancel: CancellationToken,
) -> (tempfile::TempDir, Record, String) {
    run_changed(script, suite, cancel, |_| {}).await
}

async fn run_changed(
    script: &str,
    suite: &str,
    cancel: CancellationToken,
    change: impl FnOnce(&mut Plan),
) -> (tempfile::TempDir, Record, String) {
    let home = tempfile::tempdir().unwrap();
    let runtimes = BTreeMap::from([("local".to_owned(), program(home.path(), script))]);
    let mut spec = spec(suite, &["local"], Device::Cpu);
    change(&mut spec);
    let mut session = Session::create(&home.path().join("s"), "s", spec).unwrap();
    let mut listener = Listener::default();
    let executor = Process::new(host::local::open(), runtimes);
    session
        .run(&executor, &mut listener, &cancel)
        .await
        .unwrap();
    let record = listener.records.remove(0);
    let log = record
        .log
        .as_ref()
        .map(|log| home.path().join("s").join(log));
    let log = log
        .and_then(|log| fs::read_to_string(log).ok())
        .unwrap_or_default();
    (home, record, log)
}

async fn run(script: &str, limits: &str) -> (Record, String) {
    let (_home, record, log) = run_until(script, limits, CancellationToken::new()).await;
    (record, log)
}

/// How a run ended and its message, with the session's folder replaced, which is another one each
/// time.
async fn end(script: &str, limits: &str) -> String {
    let (home, record, _) = run_until(script, limits, CancellationToken::new()).await;
    let end = format!("{}: {}", ending(&record), message(&record));
    end.replace(home.path().to_str().unwrap(), "/home")
}

#[tokio::test]
async fn a_good_workload_gives_metrics() {
    let script = format!("{GOOD}sleep 0.4; echo to stdout; echo to stderr >&2\n{END}");
    let (record, log) = run(&script, "{time: 30s, memory: 1GiB}").await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    assert_eq!(log, "to stdout\nto stderr\n");
    assert_eq!(record.value("throughput_samples_per_second"), Some(20.0));
    assert_eq!(record.value("step_median_seconds"), Some(0.04));
    assert!(record.wall_seconds > 0.4 && record.wall_seconds < 20.0);
    assert!(record.harness.total_seconds() < record.wall_seconds - 0.3);
    let memory = record
        .monitor
        .get(Sampled::MemoryBytes)
        .expect("memory was watched");
    assert!(memory.count >= 3 && memory.maximum > 1e5, "{memory:?}");
    assert_eq!(
        record.values.get("run_container_peak_bytes"),
        Some(&memory.maximum)
    );
    assert_eq!(record.isolation.engine, "process");
    let missing = record.isolation.missing;
    assert!(missing.contains(&"memory limit".to_owned()));
    assert_eq!(
        record.warnings,
        ["limits not applied without a container: memory"]
    );
}

#[tokio::test]
async fn kernels_of_profiled_steps_are_in_the_record() {
    let suite = suite("{time: 30s}").replace("measured: 1", "measured: 1, profiled: 2");
    let measured =
        "sleep 0.06; say '{\"event\":\"step\",\"index\":0,\"values\":{\"step_seconds\":0.04}}'";
    let kernel = |name: &str, seconds: f64| {
        format!(
            "say '{{\"event\":\"kernel\",\"name\":\"{name}\",\"count\":2.5,\"seconds\":{seconds}}}'"
        )
    };
    let kernels = [kernel("relu", 0.001), kernel("void gemm<float>(int)", 0.03)].join("\n");
    let script = format!("{GOOD}grep profiled $1\n{measured}\n{kernels}\nsay \"$finished\"\n");
    let (_home, record, log) = run_suite(&script, &suite, CancellationToken::new()).await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    assert_eq!(log.trim().trim_end_matches(','), "\"profiled\": 2");
    let found = record.kernels.iter();
    let found: Vec<_> = found
        .map(|one| (one.name.as_str(), one.count, one.seconds))
        .collect();
    let expect = [("void gemm<float>(int)", 2.5, 0.03), ("relu", 2.5, 0.001)];
    assert_eq!(found, expect, "the longest first");
    assert_eq!(record.warnings, [""; 0]);
    let line = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);

    // A workload that has none, such as one whose profiler does not work, is measured all the same.
    let script = format!("{GOOD}{END}");
    let (_home, record, _) = run_suite(&script, &suite, CancellationToken::new()).await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    insta::assert_snapshot!(record.warnings.join("\n"), @"no kernel of 2 profiled steps was reported; the log has the cause where it is known");
    assert!(!serde_json::to_string(&record).unwrap().contains("kernels"));
}

#[tokio::test]
async fn modules_are_in_the_record_where_they_add_up() {
    let suite = suite("{time: 30s}").replace("warmup: 0", "warmup: 3, attribution: true");
    let suite = suite.replace("task: inference", "task: training");
    let good = GOOD.replace(
        "\"samples_count\"",
        "\"first_loss\":2,\"last_loss\":1,\"samples_count\"",
    );
    let end = END.replace("{\"step_seconds\"", "{\"loss\":1,\"step_seconds\"");
    let module = |name: &str, kept: u32| {
        let values = format!("\"values\":{{\"kept_bytes\":{kept}}}");
        format!("say '{{\"event\":\"module\",\"name\":\"{name}\",{values}}}'")
    };
    let script = |encoder: u32| {
        let modules = [
            ("[step]", 1000),
            ("encoder", encoder),
            ("encoder.0", 500),
            ("[loss]", 300),
        ];
        let lines = modules.map(|(name, kept)| module(name, kept)).join("\n");
        format!("{good}grep attribution $1\n{lines}\n{end}")
    };
    let (_home, record, log) = run_suite(&script(700), &suite, CancellationToken::new()).await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    assert!(log.contains("\"attribution\": true"), "{log}");
    let names: Vec<&str> = record.modules.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["[loss]", "[step]", "encoder", "encoder.0"]);
    assert_eq!(record.notes, [""; 0]);
    let line = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);

    let mut warnings = Vec::new();
    for script in [script(650), format!("{good}{end}")] {
        let (_home, record, _) = run_suite(&script, &suite, CancellationToken::new()).await;
        assert_eq!(ending(&record), "ok", "{}", message(&record));
        assert!(
            !serde_json::to_string(&record)
                .unwrap()
                .contains("modules\":")
        );
        warnings.extend(record.warnings);
    }
    insta::assert_snapshot!(warnings.join("\n"), @r"
    the modules are left out: kept_bytes of all modules is 950, and of the step 1000
    no module was attributed; the log has the cause where it is known
    ");
}

#[tokio::test]
async fn a_snapshot_is_kept_and_the_run_is_not_for_speed() {
    let write = "printf history > \"$(dirname \"$2\")/snapshot.pickle\"\n";
    let recorded = async |script: String, snapshot| {
        let change = |plan: &mut Plan| plan.cells[0].plan.steps.snapshot = snapshot;
        run_changed(
            &script,
            &suite("{time: 30s}"),
            CancellationToken::new(),
            change,
        )
        .await
    };
    let good = format!("{GOOD}{write}grep snapshot $1\n{END}");
    let (home, record, log) = recorded(good, Snapshot::Always).await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    assert!(log.contains("\"snapshot\": true"), "{log}");
    let kept = record.snapshot.as_ref().unwrap();
    assert!(
        kept.starts_with("snapshots/") && kept.ends_with(".pickle"),
        "{kept}"
    );
    let content = fs::read_to_string(home.path().join("s").join(kept)).unwrap();
    assert_eq!(content, "history");
    assert_eq!(record.value("throughput_samples_per_second"), None);
    assert_eq!(record.value("step_median_seconds"), None);
    assert_eq!(record.value("samples_count"), Some(1.0));
    let warnings = &record.warnings;
    assert!(warnings[0].starts_with("not for speed"), "{warnings:?}");
    let told = format!("allocations recorded: {kept};");
    assert!(record.notes[0].starts_with(&told), "{:?}", record.notes);
    let line = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);

    let none = format!("{GOOD}{END}");
    let failed = "say '{\"event\":\"failed\",\"reason\":\"out-of-memory\",\"phase\":\"measure\",\"message\":\"2 GiB\"}'; exit 1";
    for (script, snapshot, warnings) in [
        (none.clone(), Snapshot::Always, 2),
        (none, Snapshot::OnOutOfMemory, 1),
        (format!("{GOOD}{failed}"), Snapshot::OnOutOfMemory, 2),
    ] {
        let (_home, record, _) = recorded(script, snapshot).await;
        assert_eq!(record.snapshot, None);
        assert_eq!(record.warnings.len(), warnings, "{:?}", record.warnings);
        if let Some(last) = record.warnings.get(1) {
            assert!(last.starts_with("no snapshot was written"), "{last}");
        }
    }
}

#[tokio::test]
async fn the_workload_s_environment_is_the_variant_s() {
    let script = format!("{GOOD}env >&2; pwd >&2\n{END}");
    let (_, log) = run(&script, "{}").await;
    assert!(log.contains("CUDA_VISIBLE_DEVICES=\n"), "{log}");
    assert!(log.contains("LD_LIBRARY_PATH=/opt/libtorch/lib"), "{log}");
    assert!(!log.contains("PYTORCH_ALLOC_CONF"), "{log}");
}

#[tokio::test]
async fn bad_workloads_are_told_apart() {
    let wrong = END.replace("0.04", "7.5");
    // With those that the harness adds, too many for a record.
    let many = (0..990).map(|i| format!("\"v{i}\":1,"));
    let many = format!("\"values\":{{{}", many.collect::<String>());
    let many = GOOD.replace("\"values\":{", &many) + END;
    let mut ends = Vec::new();
    for script in [
        "exit 3",
        "echo why >&2; exit 127",
        "kill -SEGV $$",
        "kill -KILL $$",
        "exit 0",
        "echo garbage > $2",
        "rm $2",
        "rm $2; mkdir $2",
        "rm $2; mkfifo $2",
        GOOD,
        &format!("{GOOD}{END}exit 5"),
        &format!("{GOOD}{wrong}"),
    ] {
        ends.push(end(script, "{}").await);
    }
    insta::assert_snapshot!(ends.join("\n"), @r"
    exit-status: ended with status 3
    exit-status: ended with status 127; its log ends with: why
    crash: ended by SIGSEGV
    crash: ended by SIGKILL; somebody or something killed it (the kernel's log has an entry where memory ran out)
    unreadable-results: the results file is empty
    unreadable-results: line 1 of the results file, `garbage`: expected value at line 1 column 1
    unreadable-results: the results file cannot be read: No such file or directory (os error 2)
    unreadable-results: the results file cannot be read: it is a directory; expected a file
    unreadable-results: the results file cannot be read: it is a FIFO; expected a file
    unreadable-results: the results file ends without the event `finished` or `failed`
    exit-status: ended with status 5
    invalid: step_sum_seconds is 7.5, more than measured_seconds, which is 0.05
    ");
    // How many the harness adds depends on the machine.
    let many = end(&many, "{}").await;
    assert!(many.starts_with("invalid: 10"), "{many}");
    assert!(many.ends_with(" values; at most 1000"), "{many}");
    let random = end("head -c 100 /dev/urandom > $2", "{}").await;
    let expect = "unreadable-results: line 1 of the results file";
    assert!(random.starts_with(expect), "{random}");
    // With the phase, what was asked for, and what the allocator held.
    let told = r#"say '{"event":"failed","reason":"out-of-memory","phase":"warmup","message":"tried to allocate 2 GiB","values":{"reserved_bytes":7}}'; exit 1"#;
    let (record, _) = run(&format!("{GOOD}{told}"), "{}").await;
    assert_eq!(ending(&record), "out-of-memory");
    insta::assert_snapshot!(message(&record), @"tried to allocate 2 GiB");
    let stage = record.outcome.failure().unwrap().stage;
    assert_eq!(stage, Stage::Workload(Phase::Warmup));
    assert_eq!(
        record.notes.last().map(String::as_str),
        Some("memory when it failed: reserved 7 B")
    );
    let shortage = r#""shortage":{"requested_bytes":1048576,"free_bytes":1024,"capacity_bytes":4096,"allocated_bytes":1024,"reserved_bytes":2048}"#;
    let told = format!(
        r#"say '{{"event":"failed","reason":"out-of-memory","phase":"warmup","message":"",{shortage}}}'; exit 1"#
    );
    let (record, _) = run(&format!("{GOOD}{told}"), "{}").await;
    assert_eq!(record.shortage.unwrap().requested_bytes, 1 << 20);
    assert_eq!(
        record.notes.last().map(String::as_str),
        Some(
            "when memory ran out: 1.0 MiB asked for, 1.0 KiB free of 4.0 KiB; the allocator held \
             2.0 KiB, of them 1.0 KiB in tensors"
        )
    );
}

#[tokio::test]
async fn a_hanging_workload_is_ended_with_all_its_children() {
    let began = Instant::now();
    // The child ignores what can be ignored, and holds the log open.
    let script =
        format!("{GOOD}sh -c 'trap \"\" TERM INT; echo $$ > {{}}; sleep 300; sleep 300' & wait");
    let home = tempfile::tempdir().unwrap();
    let pid_file = home.path().join("pid");
    let script = script.replace("{}", pid_file.to_str().unwrap());
    let (record, _) = run(&script, "{time: 700ms}").await;
    assert_eq!(ending(&record), "time-limit");
    insta::assert_snapshot!(message(&record), @"longer than its limit of 0.7 s; raise `limits.time`, or take fewer steps");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    let pid = fs::read_to_string(pid_file).unwrap();
    // Killed processes stay for a moment, as zombies.
    for _ in 0..100 {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        if state.is_err() || state.is_ok_and(|text| text.contains(") Z ")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the child {pid} lives on");
}

#[tokio::test]
async fn a_workload_gets_no_secret_of_the_user() {
    // Cargo gives its tests variables that are nobody else's.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let script = format!("{GOOD}env >&2\n{END}");
    let (_, log) = run(&script, "{}").await;
    let names: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    assert!(
        names.contains(&"PATH") && names.contains(&"TORCHGAUGE_RUN_FOLDER"),
        "{log}"
    );
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{log}");
}

#[tokio::test]
async fn runs_of_any_image_get_texts_of_one_length() {
    let home = tempfile::tempdir().unwrap();
    let script = format!("{GOOD}echo \"$*\" $(wc -c < \"$1\") >&2\n{END}");
    let runtime = program(home.path(), &script);
    let images = ["i", "an-image-of-a-longer-name"];
    let runtimes = images.map(|image| (image.to_owned(), runtime.clone()));
    let spec = spec(&suite("{}"), &images, Device::Cpu);
    let folder = home.path().join("s");
    let mut session = Session::create(&folder, "s", spec).unwrap();
    let mut listener = Listener::default();
    let executor = Process::new(host::local::open(), BTreeMap::from(runtimes));
    let cancel = CancellationToken::new();
    session
        .run(&executor, &mut listener, &cancel)
        .await
        .unwrap();
    let told = listener.records.iter().map(|record| {
        assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
        fs::read_to_string(folder.join(record.log.as_ref().unwrap())).unwrap()
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with("run.json events.ndjson "), "{told:?}");
    assert_eq!(told[0], told[1]);
}

#[tokio::test]
async fn a_workload_that_writes_without_end_is_ended() {
    let began = Instant::now();
    let script = format!(
        "{GOOD}while :; do say '{{\"event\":\"heartbeat\",\"phase\":\"measure\",\"step\":1}}'; done"
    );
    insta::assert_snapshot!(end(&script, "{results: 64KiB}").await, @"flooded: ended for writing more than 65536 bytes of results; the limit is `limits.results`");
    // A length that costs nothing counts as well.
    let script = format!("{GOOD}truncate -s 10T $2; sleep 300");
    insta::assert_snapshot!(end(&script, "{}").await, @"flooded: ended for writing more than 67108864 bytes of results; the limit is `limits.results`");
    let script = format!("{GOOD}echo first; yes 0123456789 & sleep 300");
    let (record, log) = run(&script, "{log: 64KiB}").await;
    assert_eq!(ending(&record), "flooded", "{}", message(&record));
    insta::assert_snapshot!(message(&record), @"ended for writing more than 65536 bytes of log; the limit is `limits.log`");
    assert!(log.len() < 66 << 10, "{}", log.len());
    assert!(log.starts_with("first\n0123456789\n"), "{log}");
    let (_, tail) = log.split_once(" bytes left out …\n").expect("a cut");
    assert!(tail.contains("\n0123456789\n"), "{tail}");
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_run_s_folder_is_its_user_s_alone() {
    let script = format!("{GOOD}stat -c %a . ..\n{END}");
    let (record, log) = run(&script, "{}").await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    assert_eq!(log, "700\n700\n");
}

#[tokio::test]
async fn silence_is_noticed_before_the_time_limit() {
    let script = format!("{GOOD}sleep 300");
    let (record, _) = run(&script, "{time: 5min, silence: 500ms}").await;
    assert_eq!(ending(&record), "hang");
    insta::assert_snapshot!(message(&record), @"no event for 0.5 s; it hangs, or `limits.silence` is too short");
    assert!(record.wall_seconds < 20.0);
}

#[tokio::test]
async fn what_a_workload_leaves_behind_is_ended() {
    let script = format!("{GOOD}{END}sleep 300 > /dev/null 2>&1 &");
    let (record, _) = run(&script, "{}").await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    insta::assert_snapshot!(record.notes.join("\n"), @"processes that the workload left behind were ended");
}

#[tokio::test]
async fn an_interrupted_run_is_ended_at_once() {
    let cancel = CancellationToken::new();
    let soon = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        soon.cancel();
    });
    let script = format!("{GOOD}sleep 300");
    let (_home, record, _) = run_until(&script, "{}", cancel).await;
    assert_eq!(ending(&record), "interrupted");
    assert!(record.wall_seconds < 20.0);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let home = tempfile::tempdir().unwrap();
    let mut messages = Vec::new();
    for runtimes in [
        BTreeMap::new(),
        BTreeMap::from([(
            "local".to_owned(),
            LocalRuntime {
                program: "/no/such/scenario".into(),
                library_path: Vec::new(),
            },
        )]),
    ] {
        let folder = home.path().join(runtimes.len().to_string());
        let spec = spec(&suite("{}"), &["local"], Device::Cpu);
        let mut session = Session::create(&folder, "s", spec).unwrap();
        let mut listener = Listener::default();
        let executor = Process::new(host::local::open(), runtimes);
        let cancel = CancellationToken::new();
        session
            .run(&executor, &mut listener, &cancel)
            .await
            .unwrap();
        assert_eq!(ending(&listener.records[0]), "image-broken");
        messages.push(message(&listener.records[0]).to_owned());
    }
    insta::assert_snapshot!(messages.join("\n"), @r"
    the image `local` is not here
    cannot start /no/such/scenario: No such file or directory (os error 2)
    ");
}

/// A supervisor as the workload's is one: as every rank itself, unless it is one.
const RANKS: &str = r#"
if [ -z "$RANK" ]; then
    RANK=0 sh "$0" "$1" "$2" & RANK=1 sh "$0" "$1" "$2" & wait
    [ "$LOST" ] || exit 0
    echo "{\"event\":\"failed\",\"rank\":$LOST,\"reason\":\"rank-crash\",\"phase\":\"measure\",\"message\":\"ended by signal 9\"}" >> "$2"
    exit 1
fi
"#;
const OF_RANK: &str = r#"
say() { printf '%s\n' "$1" | sed "s/^{/{\"rank\":$RANK,/; s/0\.04/0.0$((4 * (RANK + 1)))/" >> "$results"; }
"#;

async fn ranks(lost: &str) -> Record {
    let suite = suite("{}").replace("task:", "ranks: 2, task:");
    let good = GOOD.replacen("results=$2", &format!("results=$2{OF_RANK}"), 1);
    let slower = "[ $RANK = 0 ] || finished=$(echo $finished | sed s/0.05/0.1/ | sed s/20.0/10.0/)\n\
                  [ \"$RANK\" = \"$LOST\" ] && exit 9\n[ $RANK = 0 ] || sleep 0.06\n";
    let good = good.replacen("say() { printf '%s\\n' \"$1\" >> \"$results\"; }\n", "", 1);
    let script = format!("{lost}{RANKS}{good}{slower}{END}");
    let change = |plan: &mut Plan| {
        let place = plan.cells[0].places.clone();
        *plan = plan.clone().spread(&place).unwrap();
    };
    run_changed(&script, &suite, CancellationToken::new(), change)
        .await
        .1
}

#[tokio::test]
async fn the_ranks_of_a_run_are_one_record() {
    let record = ranks("").await;
    assert_eq!(ending(&record), "ok", "{}", message(&record));
    let rates: Vec<f64> = record
        .ranks
        .iter()
        .map(|rank| rank.values["throughput_samples_per_second"])
        .collect();
    assert_eq!(rates, [20.0, 10.0]);
    assert_eq!(record.value("throughput_samples_per_second"), Some(30.0));
    assert_eq!(record.value("measured_seconds"), Some(0.1));
    let lag = record.value("rank_lag_ratio").unwrap();
    assert!((lag - 1.0 / 3.0).abs() < 1e-9, "{lag}");
    let lost = ranks("export LOST=1\n").await;
    assert_eq!(ending(&lost), "crash");
    assert_eq!(message(&lost), "rank 1: ended by signal 9");
}
