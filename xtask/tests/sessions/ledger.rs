//! A repository of 200 nights: what its gate says each night, and what its ledger remembers.

use std::{fmt::Write as _, fs};

use jiff::{SignedDuration, Timestamp};
use protocol::{Device, Precision};
use record::{Gpu, Record, Session};
use serde_json::Value;

use crate::support::{Home, records, session};

const NIGHTS: usize = 200;
/// Throughput and memory of one cell fall together, until …
const STEP: usize = 60;
/// … somebody mends it.
const FIX: usize = 110;
/// Another cell takes more memory, on purpose.
const TRADE: usize = 80;
/// One night is odd.
const GLITCH: usize = 130;
/// A cell's noise grows.
const NOISIER: usize = 145;
/// By then enough of its nights lie on one side to look like a step beyond the noise threshold.
const NOISIER_LOOKS_SO: usize = 149;
/// All cells are slower from a driver on.
const DRIVER: usize = 165;

const CELLS: [Precision; 3] = [Precision::Fp32, Precision::AmpBf16, Precision::AmpFp16];

/// A scatter from −½ to ½ that repeats no time soon.
fn scatter(night: usize, salt: usize) -> f64 {
    let mixed = (night * 7919 + salt * 104_729 + 13) % 1009;
    f64::from(u32::try_from(mixed).expect("small")) / 1009.0 - 0.5
}

fn throughput(night: usize, cell: usize) -> f64 {
    let is_slow = cell == 0 && (STEP..FIX).contains(&night);
    let level = [1.0, 0.94][usize::from(is_slow)]
        * [1.0, 0.96][usize::from(night >= DRIVER)]
        * [1.0, 0.8][usize::from(cell == 0 && night == GLITCH)];
    let noise = [0.006, 0.03][usize::from(cell == 2 && night >= NOISIER)];
    100.0 * level * (1.0 + noise * scatter(night, cell))
}

fn peak(night: usize, cell: usize) -> u64 {
    let is_large = cell == 0 && (STEP..FIX).contains(&night);
    let is_traded = cell == 1 && night >= TRADE;
    4_500_000_000 + u64::from(is_large) * 400_000_000 + u64::from(is_traded) * 300_000_000
}

/// Measures a night and adds it to the history.
fn measure(home: &Home, night: usize) {
    let name = format!("night-{night}");
    let ago = i64::try_from(24 * (NIGHTS - 1 - night) + 2).expect("small");
    let mut this: Session = session(&name);
    this.started_at = Timestamp::now() - SignedDuration::from_hours(ago);
    this.device = Device::Cuda(0);
    this.hosts.values_mut().next().unwrap().driver_version =
        Some(["570.86", "580.12"][usize::from(night >= DRIVER)].into());
    this.hosts.values_mut().next().unwrap().gpus = vec![Gpu {
        name: "NVIDIA H200".into(),
        uuid: "GPU-a1".into(),
        ..Gpu::default()
    }];
    let mut all: Vec<Record> = Vec::new();
    for (cell, precision) in CELLS.into_iter().enumerate() {
        let mut runs = records(
            &name,
            "torch-2.11.0-cu130",
            precision,
            throughput(night, cell),
        );
        for (place, run) in runs.iter_mut().enumerate() {
            let minutes = i64::try_from(10 * cell + place).expect("small");
            run.started_at = this.started_at + SignedDuration::from_mins(minutes);
            run.device = this.device;
            let peak = peak(night, cell) as f64;
            run.values.insert("peak_allocated_bytes".into(), peak);
        }
        all.extend(runs);
    }
    home.write(&name, &this, &all);
    let folder = format!("sessions/{name}");
    let revision = format!("commit-{night}");
    let words = [
        "history",
        "add",
        &folder,
        "--branch",
        "main",
        "--revision",
        &revision,
    ];
    home.check(&words, 0, &name);
}

const GATE: [&str; 12] = [
    "trend",
    "--branch",
    "main",
    "--gate",
    "--stale-after",
    "100000",
    "--ledger",
    "regressions.toml",
    "--format",
    "markdown",
    "--out",
    "trend",
];

fn list(home: &Home) -> Vec<Value> {
    let words = ["ledger", "list", "--all", "--format", "json"];
    let told = home.check(
        &[&words[..], &["--ledger", "regressions.toml"]].concat(),
        0,
        "[",
    );
    let end = told.rfind(']').expect("a list");
    let json: Value = serde_json::from_str(&told[..=end]).expect("JSON");
    json.as_array().expect("a list").clone()
}

fn id_of(line: &str) -> String {
    let start = line.find("\n  R").expect("an ID") + 3;
    line[start..].split(' ').next().expect("an ID").to_owned()
}

/// Measures night after night and looks at each with the gate; what it said on those that fail, by
/// the ID of the entry.
fn walk(home: &Home) -> Vec<(String, String)> {
    let mut failed: Vec<(String, String)> = Vec::new();
    for night in 0..NIGHTS {
        measure(home, night);
        // Every fourth night where nothing happens.
        let is_near = |event: &usize| (event.saturating_sub(2)..event + 8).contains(&night);
        let eventful = [STEP, TRADE, FIX, GLITCH, NOISIER, DRIVER]
            .iter()
            .any(is_near);
        if night < 40 || !(eventful || night % 4 == 0) {
            continue;
        }
        let fails = [STEP, TRADE, GLITCH, NOISIER_LOOKS_SO, DRIVER].contains(&night);
        let said = home.check(&GATE, i32::from(fails), "series");
        if fails {
            let causes = said.matches("\n  R").count();
            assert_eq!(causes, 1, "one line a cause, night {night}: {said}");
            failed.push((id_of(&said), said.clone()));
        }
        match night {
            TRADE => accept(home, &failed[1].0),
            _ if night == STEP + 5 => assert!(said.contains("open: R"), "it reminds: {said}"),
            _ if night == FIX + 5 => {
                assert!(!said.contains("open: R"), "quiet again: {said}");
                assert!(said.contains("1 entry is accepted"), "{said}");
            }
            _ => {}
        }
    }
    failed
}

fn accept(home: &Home, id: &str) {
    let words = ["ledger", "accept", id, "--ledger", "regressions.toml"];
    let why = ["--by", "ada", "--why", "a larger workspace makes it faster"];
    let what = ["--metric", "peak_*"];
    let expected = "accepted by ada for metric peak_*";
    home.check(&[&words[..], &why, &what].concat(), 0, expected);
}

#[test]
fn two_hundred_nights_fail_once_for_each_of_their_causes() {
    let home = Home::new();
    let failed = walk(&home);
    let [step, trade, glitch, noisier, driver] = &failed[..] else {
        panic!("five failures: {failed:?}")
    };
    for ((_, said), words) in [
        (step, "2 series regressed by -5.76 % to +8.89 %"),
        (step, "last good commit-59, first bad commit-60"),
        (trade, "regressed by +6.67 %, 4.191 GiB to 4.470 GiB"),
        (driver, "from driver 570.86 to 580.12"),
    ] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    let entries = list(&home);
    assert_eq!(entries.len(), 5, "{entries:?}");
    let fixed = |(id, _): &(String, String)| {
        let entry = entries.iter().find(|entry| entry["id"] == *id);
        let series = entry.expect("an entry")["series"].as_array();
        let series = series.expect("a list").iter();
        series.filter(|one| one["fixed"].is_string()).count()
    };
    assert_eq!((fixed(step), fixed(glitch)), (2, 1));
    assert_eq!(fixed(noisier), 1, "it closes by itself");
    assert_eq!((fixed(trade), fixed(driver)), (0, 0));
    let open = format!("open: {}", driver.0);
    home.check(&[&GATE[..3], &GATE[6..10]].concat(), 0, &open);
    let page = fs::read_to_string(home.path("trend/trend.html")).expect("a page");
    let why = "a larger workspace makes it faster";
    for words in ["Ledger (5 entries)", &driver.0, why] {
        assert!(page.contains(words), "no `{words}`");
    }
    // For whoever wants to look at it.
    let kept = concat!(env!("CARGO_TARGET_TMPDIR"), "/two-hundred-nights.html");
    fs::write(kept, page).expect("written");
}

/// A series from elsewhere, flat for so many days and one in which it fell.
fn measured(home: &Home, days: u32, fell: bool) {
    let mut text = "timestamp,revision,value\n".to_owned();
    for day in 0..=days {
        let level = if fell && day == days { 90.0 } else { 100.0 };
        let value = level * (1.0 + 0.005 * scatter(day as usize, 1));
        let time = 1_700_000_000 + 86_400 * day;
        writeln!(text, "{time},r{day},{value}").expect("a line");
    }
    fs::write(home.path("speed.csv"), text).expect("a file");
    fs::create_dir_all(home.path("history")).expect("a folder");
}

/// The gate over that series, with this ledger.
fn gate(ledger: &str) -> Vec<&str> {
    let words = [
        "trend",
        "--input",
        "speed.csv",
        "--gate",
        "--format",
        "markdown",
    ];
    [&words[..], &["--ledger", ledger]].concat()
}

const OWN: &str = "history/regressions.toml";

fn first_id(home: &Home) -> String {
    let json = home.check(&["ledger", "list", "--format", "json"], 0, "[");
    let json: Value =
        serde_json::from_str(&json[..=json.rfind(']').expect("a list")]).expect("JSON");
    json[0]["id"].as_str().expect("an ID").to_owned()
}

#[test]
fn a_cause_fails_one_night_and_is_fixed_where_its_level_is_back() {
    let home = Home::new();
    let gate = |code: i32, expected: &str| home.check(&gate(OWN), code, expected);
    measured(&home, 40, false);
    gate(0, "1 series");
    measured(&home, 41, true);
    let told = gate(1, "the gate failed: 1 failure");
    let lines = told.lines().filter(|line| line.contains("last good "));
    let lines: Vec<String> = lines
        .map(|line| line.replace(&id_of(&told), "ID"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    - ID speed.csv: regressed by -9.96 %, 100.00 to 90.041; last good r40, first bad r41
      ID speed.csv: regressed by -9.96 %, 100.00 to 90.041; last good r40, first bad r41
    ");
    // The same results fail again.
    gate(1, "the gate failed: 1 failure");
    measured(&home, 41, false);
    measured(&home, 44, false);
    gate(0, "fixed: R");
    home.check(&["ledger", "list"], 0, "0 open, 0 accepted, 1 fixed");
}

#[test]
fn a_ledger_is_looked_at_accepted_and_refused() {
    let home = Home::new();
    let (with, gate) = (gate("regressions.toml"), gate(OWN));
    measured(&home, 40, false);
    home.check(&["ledger", "list"], 2, "there is no ledger at");
    home.check(&gate, 0, "1 series");
    home.check(&["ledger", "list"], 0, "0 open");
    measured(&home, 41, true);
    home.check(&gate, 1, "the gate failed: 1 failure");
    home.check(&["ledger", "list"], 0, "1 open");
    let id = first_id(&home);
    home.check(&["ledger", "show", &id], 0, "last good r40, first bad r41");
    home.check(
        &["ledger", "show", "R0"],
        2,
        &format!("has no entry R0; it has {id}"),
    );
    let accept = |more: &[&str], code: i32, expected: &str| {
        let words = ["ledger", "accept", &id, "--by", "ada"];
        home.check(&[&words[..], more].concat(), code, expected)
    };
    accept(&[], 2, "--why");
    accept(&["--why", ""], 2, "name who accepts, and why");
    accept(&["--why", "x", "--until", "soon"], 2, "--until");
    accept(
        &["--why", "x", "--cell", "other"],
        2,
        "expected one of speed.csv · value",
    );
    accept(&["--why", "wanted"], 0, "accepted by ada: wanted");
    home.check(&gate, 0, "1 entry is accepted");
    home.check(&["ledger", "withdraw", &id], 0, "1 acceptance");
    home.check(&gate, 1, &id);
    accept(&["--why", "old", "--until", "2026-01-01"], 0, "expired");
    // One that a repository holds, in place of the history's own.
    let file = ["--ledger", "regressions.toml"];
    accept(
        &["--why", "x", "--ledger", "regressions.toml"],
        2,
        "there is no ledger at",
    );
    let text = fs::read_to_string(home.path("history/regressions.toml")).expect("a ledger");
    fs::write(home.path("regressions.toml"), &text).expect("written");
    home.check(&with, 1, &id);
    let spoilt = text.clone() + "=======\n";
    fs::write(home.path("regressions.toml"), &spoilt).expect("written");
    home.check(&with, 2, "is no ledger: line ");
    let list = [&["ledger", "list"], &file[..]].concat();
    home.check(&list, 2, "is no ledger: line ");
    let left = fs::read_to_string(home.path("regressions.toml")).expect("a file");
    assert_eq!(left, spoilt);
    // Of a history that has none of its series: kept, and nothing fails.
    fs::write(
        home.path("regressions.toml"),
        text.replace("speed", "other"),
    )
    .expect("written");
    home.check(
        &[
            "trend",
            "--input",
            "speed.csv",
            "--ledger",
            "regressions.toml",
        ],
        0,
        "speed.csv",
    );
    home.check(
        &["ledger", "list", "--ledger", "no/such/folder/r.toml"],
        2,
        "no ledger",
    );
    home.check(
        &self::gate("no/such/folder/r.toml"),
        1,
        "cannot write no/such/folder/r.toml",
    );
}
