//! Sessions whose blocks run on nodes: handed over, carried out wherever, gathered.

use std::{collections::BTreeSet, fs};

use record::{Record, SessionFolder};
use rustix::process::Signal;

use crate::support::{Home, Running, outcomes};

impl Home {
    /// A session on nodes that run this script of the mock's.
    fn on_nodes(&self, name: &str, script: &str, words: &str) -> Running {
        let suite = self.path("suite.yaml");
        let line = format!(
            "cargo xtask bench --suite {} --engine 'nodes:mock:{script}' --device cpu --out {} {words}",
            suite.display(),
            self.path(name).display()
        );
        self.shell(name, &line)
    }

    pub(crate) fn resume(&self, name: &str) -> Running {
        let line = format!("cargo xtask bench --resume {}", self.path(name).display());
        self.shell(name, &line)
    }

    /// `torchgauge node` on a part, on a node of this name.
    fn node(&self, node: &str, part: &str) -> Running {
        let folder = self.path(part);
        let line = format!(
            "exec env TORCHGAUGE_NODE={node} cargo xtask node {}",
            folder.display()
        );
        self.shell(part, &line)
    }
}

fn hosts(records: &[Record]) -> Vec<(u32, &str)> {
    let mut hosts: Vec<_> = records
        .iter()
        .map(|run| (run.block, run.host.as_str()))
        .collect();
    hosts.dedup();
    hosts
}

#[test]
fn blocks_of_a_session_run_on_nodes_and_are_gathered() {
    let home = Home::new();
    home.suite("wait: 1s", &["one", "two"]);
    let text = home.on_nodes("s", "*=ok", "").ends_with(3);
    for part in ["parts/000", "parts/001"] {
        let command = format!("cargo xtask node {}", home.path("s").join(part).display());
        assert!(text.contains(&command), "{text}");
    }
    // A node may lack the suite's file; the part has a copy.
    fs::rename(home.path("suite.yaml"), home.path("moved")).expect("the suite is moved");
    home.node("node1", "s/parts/000").ends_with(0);
    let part = home.read("s/parts/000").1;
    let text = home.node("node1", "s/parts/000").ends_with(0);
    assert!(text.contains("every run of this part is done"), "{text}");
    assert_eq!(home.read("s/parts/000").1, part, "nothing ran again");

    fs::rename(home.path("moved"), home.path("suite.yaml")).expect("the suite is moved back");
    let text = home.resume("s").ends_with(3);
    assert!(text.contains("2 runs are still to do"), "{text}");
    assert_eq!(hosts(&home.read("s").1), [(0, "node1")]);
    home.node("node2", "s/parts/001").ends_with(0);
    home.resume("s").ends_with(0);
    home.resume("s").ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(session.machine_names(), "node1, node2");
    assert_eq!(hosts(&records), [(0, "node1"), (1, "node2")]);
    let runs: BTreeSet<_> = records.iter().map(|record| &record.run).collect();
    assert_eq!((runs.len(), records.len()), (4, 4));
    assert!(
        records
            .iter()
            .all(|record| record.session == session.session)
    );
    let report = fs::read_to_string(home.path("s/report.md")).expect("a report");
    assert!(
        report.contains("node1") && report.contains("node2"),
        "{report}"
    );
}

/// Two cells that are compared with each other.
const PAIR: &str = "version: 1\ndescription: d\ndefaults: {blocks: 1, steps: {warmup: 1, measured: 4}}\n\
    scenarios: [{name: one, model: vit-tiny, axes: {batch: [2, 4]}}]\n";

/// A session of them, the second of which takes seconds.
fn pair(home: &Home) {
    fs::write(home.path("suite.yaml"), PAIR).expect("the suite is written");
    home.on_nodes("s", "0001=sleep:3000", "").ends_with(3);
    let running = home.node("node1", "s/parts/000");
    running.until_records(1);
    running.until_it_runs();
    running.signal(Signal::TERM);
    let text = running.ends_with(3);
    assert!(text.contains("xtask node "), "{text}");
}

fn told(order: u32, attempt: u32, outcome: &str) -> (u32, u32, String) {
    (order, attempt, outcome.to_owned())
}

#[test]
fn a_part_that_was_cut_off_repeats_nothing_on_its_node() {
    let home = Home::new();
    pair(&home);
    home.node("node1", "s/parts/000").ends_with(0);
    let expected = [
        told(0, 1, "ok"),
        told(1, 1, "interrupted"),
        told(1, 2, "ok"),
    ];
    assert_eq!(outcomes(&home.read("s/parts/000").1), expected);
}

#[test]
fn a_part_that_goes_on_elsewhere_keeps_what_is_compared_on_one_node() {
    let home = Home::new();
    pair(&home);
    home.node("node2", "s/parts/000").ends_with(0);
    let (part, records) = home.read("s/parts/000");
    let again = [told(0, 2, "ok"), told(1, 2, "ok")];
    assert_eq!(outcomes(&records[2..]), again);
    assert!(records[2..].iter().all(|record| record.host == "node2"));
    assert_eq!(part.machine_names(), "node1, node2");
    let note = "begun on node1, goes on on node2";
    assert!(
        part.notes.iter().any(|known| known.starts_with(note)),
        "{:?}",
        part.notes
    );
    home.resume("s").ends_with(0);
    assert_eq!(home.read("s").1.len(), 4);
}

#[test]
fn what_is_no_part_is_refused() {
    let home = Home::new();
    home.bench("s", "", &["--device=cpu"]).ends_with(0);
    let text = home.node("node1", "s").ends_with(2);
    assert!(text.contains("is no part of a session"), "{text}");
    let text = home.node("node1", "nowhere").ends_with(2);
    assert!(text.contains("is this the folder of a session?"), "{text}");
    let text = home.on_nodes("t", "fire", "").ends_with(3);
    assert!(text.contains("parts/000"), "{text}");
    let text = home.node("node1", "t/parts/000").ends_with(2);
    assert!(text.contains("`fire` is no rule"), "{text}");
    fs::write(home.path("suite.yaml"), PAIR).expect("the suite is written");
    let words = "--until-decided --by batch=2,4";
    let text = home.on_nodes("u", "", words).ends_with(2);
    assert!(text.contains("a fixed number of --blocks"), "{text}");
    let line = format!(
        "cargo xtask bench --suite {} --engine nodes:slurm:x --device cpu --out {}",
        home.path("suite.yaml").display(),
        home.path("v").display()
    );
    let text = home.shell("v", &line).ends_with(2);
    assert!(text.contains("expected one that runs on a node"), "{text}");
}

#[test]
fn parts_of_other_images_are_not_mixed() {
    let home = Home::new();
    home.on_nodes("s", "", "").ends_with(3);
    home.node("node1", "s/parts/000").ends_with(0);
    home.node("node2", "s/parts/001").ends_with(0);
    let part = SessionFolder::at(home.path("s/parts/001"));
    let mut session = part.read_session().expect("a part");
    session.images[0].id = Some("sha256:other".to_owned());
    part.write_session(&session).expect("the part is written");
    let text = home.resume("s").ends_with(2);
    assert!(
        text.contains("parts/001") && text.contains("sha256:other"),
        "{text}"
    );
}
