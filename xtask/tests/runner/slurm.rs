//! Sessions on a real Slurm cluster, that of `.ci/slurm`. Nodes run the mock engine.

use std::{collections::BTreeMap, fs, process::Command};

use record::Record;
use rustix::process::Signal;

use crate::support::{Home, Running, until};

pub(crate) const CONF: &str = "/run/torchgauge-slurm/slurm.conf";

/// A command of Slurm's on the tests' cluster.
pub(crate) fn slurm(words: &[&str]) -> String {
    let output = Command::new(words[0])
        .args(&words[1..])
        .env("SLURM_CONF", CONF)
        .output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}; run .ci/slurm", words[0]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{words:?}: {said}; .ci/slurm starts a cluster"
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Home {
    /// A session by Slurm, with these lines in its profile.
    fn on_slurm(&self, name: &str, script: &str, profile: &str, words: &str) -> Running {
        let file = self.path("profile.yaml");
        let text = format!("version: 1\nengine: 'mock:{script}'\n{profile}");
        fs::write(&file, text).expect("the profile is written");
        let line = format!(
            "exec env -u CARGO_MANIFEST_DIR SLURM_CONF={CONF} cargo xtask bench --suite {} --engine slurm:{} --device cpu \
             --out {} {words}",
            self.path("suite.yaml").display(),
            file.display(),
            self.path(name).display()
        );
        self.shell(name, &line)
    }

    pub(crate) fn resume_on_slurm(&self, name: &str) -> Running {
        let folder = self.path(name);
        let line = format!(
            "exec env -u CARGO_MANIFEST_DIR SLURM_CONF={CONF} cargo xtask bench --resume {}",
            folder.display()
        );
        self.shell(name, &line)
    }

    /// The name of a session's jobs, once it is planned.
    pub(crate) fn jobs(&self, name: &str) -> String {
        until(|| self.path(name).join("session.json").exists());
        format!("torchgauge-{}", self.read(name).0.session)
    }

    /// The tasks of a session that wait or run.
    pub(crate) fn queue(&self, name: &str) -> String {
        let name = format!("--name={}", self.jobs(name));
        slurm(&["squeue", "--noheader", "--array", &name, "--format=%i"])
    }

    pub(crate) fn until_part_records(&self, part: &str, count: usize) {
        let file = self.path(part).join("records.ndjson");
        until(|| fs::read_to_string(&file).is_ok_and(|text| text.lines().count() >= count));
    }
}

fn all_once(records: &[Record]) {
    let again = records
        .iter()
        .find(|record| record.attempt > 1 || !record.outcome.is_ok());
    assert!(again.is_none(), "{again:?}");
}

#[test]
fn a_session_is_an_array_of_blocks() {
    let home = Home::new();
    let running = home.on_slurm("s", "*=sleep:1500", "time: 10", "--blocks 4");
    let text = running.ends_with(0);
    assert!(
        text.contains("block 0 ") && text.contains(" is done"),
        "{text}"
    );
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(records.len(), 4);
    all_once(&records);
    for record in &records {
        assert!(
            ["node1", "node2"].contains(&record.host.as_str()),
            "{record:?}"
        );
        assert!(session.hosts.contains_key(&record.host));
    }
    assert_eq!(home.queue("s"), "");
    assert!(home.path("s/report.html").exists());
}

#[test]
fn a_submitter_that_is_killed_loses_no_job() {
    let home = Home::new();
    let running = home.on_slurm("s", "0001=sleep:8000", "", "--blocks 2");
    home.until_part_records("s/parts/000", 1);
    running.signal(Signal::KILL);
    home.resume_on_slurm("s").ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(records.len(), 2);
    all_once(&records);
}

#[test]
fn ctrl_c_leaves_nothing_in_the_queue() {
    let home = Home::new();
    let running = home.on_slurm("s", "0001=sleep:60000", "", "--blocks 3");
    home.until_part_records("s/parts/000", 1);
    until(|| home.path("s/parts/001/work").exists());
    running.signal(Signal::INT);
    let text = running.ends_with(3);
    assert!(text.contains("bench --resume"), "{text}");
    assert_eq!(home.queue("s"), "");
    let records = home.read("s").1;
    let endings: BTreeMap<u32, String> = records
        .iter()
        .map(|record| (record.order, record.outcome.word()))
        .collect();
    assert_eq!(endings[&0], "ok");
    // The node was asked, and cleaned up.
    assert_eq!(endings[&1], "interrupted");
    assert!(!home.path("s/parts/001/work").exists());
}

#[test]
fn a_job_that_somebody_cancels_is_named_and_goes_on_later() {
    let home = Home::new();
    let running = home.on_slurm("s", "0001=sleep:12000", "", "--blocks 2");
    home.until_part_records("s/parts/000", 1);
    slurm(&["scancel", &format!("--name={}", home.jobs("s"))]);
    let text = running.ends_with(3);
    assert!(text.contains("was cancelled (CANCELLED)"), "{text}");
    home.resume_on_slurm("s").ends_with(0);
    assert!(home.read("s").0.complete);
}

/// Nodes of each of these tests are alone in a partition.
#[test]
fn a_node_that_is_drained_is_named_and_its_blocks_wait_for_it() {
    let home = Home::new();
    let profile = "partition: drained\nextra: [--exclusive]";
    let running = home.on_slurm("s", "0000=sleep:4000", profile, "--blocks 2");
    until(|| home.path("s/parts/000/work").exists());
    slurm(&[
        "scontrol",
        "update",
        "NodeName=node4",
        "State=DRAIN",
        "Reason=disk",
    ]);
    let text = running.until_it_says("node4: disk");
    assert!(text.contains("block 1 waits as job "), "{text}");
    // What runs there ends well, and nothing begins.
    running.until_it_says("block 0 on node4 is done");
    running.signal(Signal::INT);
    let text = running.ends_with(3);
    assert!(text.contains("bench --resume"), "{text}");
    assert_eq!(home.queue("s"), "");
    let first = home.read("s").1;
    assert_eq!(first.len(), 1, "{first:?}");

    slurm(&["scontrol", "update", "NodeName=node4", "State=RESUME"]);
    home.resume_on_slurm("s").ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0], first[0], "what finished ran again");
    all_once(&records);
}

#[test]
fn a_node_that_is_lost_is_named_and_nothing_that_finished_runs_again() {
    let home = Home::new();
    let text = "version: 1\ndescription: d\ndefaults: {blocks: 1, steps: {warmup: 1, measured: 4}}\n\
        scenarios:\n- {name: one, model: vit-tiny}\n- {name: two, model: vit-tiny}\n";
    fs::write(home.path("suite.yaml"), text).expect("the suite is written");
    // It registers again at once, as a node does that was rebooted.
    let down = || {
        slurm(&[
            "scontrol",
            "update",
            "NodeName=node5",
            "State=DOWN",
            "Reason=power",
        ]);
    };
    let profile = "partition: lost\nextra: [--no-requeue]";
    let running = home.on_slurm("s", "0001=sleep:8000", profile, "");
    home.until_part_records("s/parts/000", 1);
    down();
    let text = running.ends_with(3);
    let expected = "block 0 on node5 its node was lost (NODE_FAIL)";
    assert!(text.contains(expected), "{text}");
    assert_eq!(home.queue("s"), "");

    let running = home.resume_on_slurm("s");
    until(|| home.path("s/parts/000/work").exists() && !home.queue("s").is_empty());
    running.until_it_says("runs on node5");
    down();
    running.ends_with(3);
    home.resume_on_slurm("s").ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    let of_first = records.iter().filter(|record| record.order == 0);
    assert_eq!(of_first.count(), 1, "what finished ran again: {records:?}");

    // Slurm's own way, unless it is told otherwise: the job goes back into the queue.
    let running = home.on_slurm("t", "0001=sleep:8000", "partition: lost", "");
    home.until_part_records("t/parts/000", 1);
    running.until_it_says("runs on node5");
    down();
    running.until_it_says("Slurm took it off node5 and runs it again");
    running.signal(Signal::INT);
    running.ends_with(3);
    assert_eq!(home.queue("t"), "");
    home.resume_on_slurm("t").ends_with(0);
    let records = home.read("t").1;
    let of_first = records.iter().filter(|record| record.order == 0);
    assert_eq!(of_first.count(), 1, "what finished ran again: {records:?}");
}

#[test]
fn blocks_wait_where_the_queue_is_full() {
    let home = Home::new();
    let other = ["sbatch", "--parsable", "--partition=full", "--exclusive"];
    let rest = ["--output=/dev/null", "--wrap=sleep 60"];
    let other = slurm(&[&other[..], &rest].concat());
    let profile = "partition: full\nextra: [--exclusive]";
    let running = home.on_slurm("s", "", profile, "--blocks 3");
    // Until the scheduler has seen a task, the reason is none.
    let text = running.until_it_says(": Resources");
    assert!(!text.contains("runs on"), "{text}");
    slurm(&["scancel", &other]);
    running.ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(records.len(), 3);
    all_once(&records);
    assert_eq!(home.queue("s"), "");
}

#[test]
fn a_block_that_slurm_requeues_goes_on() {
    let home = Home::new();
    let text = "version: 1\ndescription: d\ndefaults: {blocks: 1, steps: {warmup: 1, measured: 4}}\n\
        scenarios:\n- {name: one, model: vit-tiny}\n- {name: two, model: vit-tiny}\n";
    fs::write(home.path("suite.yaml"), text).expect("the suite is written");
    let running = home.on_slurm("s", "0001=sleep:8000", "", "");
    home.until_part_records("s/parts/000", 1);
    slurm(&["scontrol", "requeue", &home.queue("s")]);
    // Slurm holds back what it requeues for two minutes.
    until(|| {
        let waits = slurm(&[
            "squeue",
            "--noheader",
            "--array",
            &format!("--name={}", home.jobs("s")),
            "--format=%T",
        ]);
        waits == "PENDING"
    });
    slurm(&[
        "scontrol",
        "update",
        &format!("JobId={}", home.queue("s")),
        "StartTime=now",
    ]);
    running.ends_with(0);
    let records = home.read("s").1;
    let of_first = records.iter().filter(|record| record.order == 0);
    assert_eq!(of_first.count(), 1, "what finished ran again: {records:?}");
    assert!(home.read("s").0.complete);
}

#[test]
fn a_block_out_of_time_names_the_key_and_goes_on() {
    let home = Home::new();
    let running = home.on_slurm("s", "0001=sleep:50000", "time: 1", "");
    let text = running.ends_with(3);
    assert!(text.contains("raise `time` in the profile"), "{text}");
    assert_eq!(home.queue("s"), "");
    let records = home.read("s").1;
    assert!(
        records
            .iter()
            .any(|run| run.order == 0 && run.outcome.is_ok()),
        "{records:?}"
    );
}

#[test]
fn what_slurm_cannot_do_names_the_key_and_leaves_no_job() {
    let home = Home::new();
    for (name, profile, code, expected) in [
        ("a", "partition: nope", 2, "no such `partition`"),
        (
            "h",
            "partition: closed",
            2,
            "Required partition not available (inactive or drain); profile",
        ),
        ("b", "gres: 'gpu:1'", 2, "no node has such a `gres`"),
        (
            "j",
            "account: nope",
            2,
            "`account` and `partition` do not go",
        ),
        ("k", "qos: nope", 2, "no such `qos`, or not yours"),
        (
            "l",
            "account: team\nqos: one\ntime: 40",
            2,
            ": QOSMaxWallDurationPerJobLimit; profile",
        ),
        (
            "c",
            "constraint: nope",
            2,
            "no node has such a `constraint`",
        ),
        ("d", "time: 5-0", 2, "`time` is above the partition's limit"),
        ("e", "partitoin: x", 2, "unknown key `partitoin`"),
        (
            "f",
            "partition: island",
            3,
            "it is not shared with the nodes",
        ),
        (
            "g",
            "program: /no/torchgauge",
            3,
            "the node has no program /no/torchgauge",
        ),
    ] {
        let text = home.on_slurm(name, "", profile, "").ends_with(code);
        assert!(text.contains(expected), "{name}: {text}");
        if home.path(name).join("session.json").exists() {
            assert_eq!(home.queue(name), "", "{name}");
        }
    }
    // The cluster's arrays have 64 tasks at most.
    let text = home.on_slurm("i", "", "", "--blocks 65").ends_with(2);
    for expected in ["Invalid job array specification", "more --blocks than"] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(home.queue("i"), "");
    let text = home
        .on_slurm("m", "", "account: team\nqos: one", "--blocks 5")
        .ends_with(2);
    for expected in ["QOSMaxSubmitJobPerUserLimit", "fewer --blocks"] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(home.queue("m"), "");
}

/// Slurm's limit of jobs keeps the second block waiting, and the first one's end lets it go.
#[test]
fn blocks_wait_for_what_a_qos_allows() {
    let home = Home::new();
    let profile = "account: team\nqos: one\ntime: 10";
    let running = home.on_slurm("s", "*=sleep:3000", profile, "--blocks 2");
    running.until_it_says(": QOSMaxJobsPerUserLimit");
    running.ends_with(0);
    let records = home.read("s").1;
    assert_eq!(records.len(), 2);
    all_once(&records);
    assert_eq!(home.queue("s"), "");
}
