//! `compare` on sessions written for the test.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Command,
};

use protocol::Precision;
use record::{Outcome, Reason, SessionFolder, Stage};

use crate::support::{Home, records, session};

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file was written")
}

#[test]
fn a_gate_writes_every_form_and_exits_with_1() {
    let home = Home::new();
    let words = [
        "compare",
        "sessions/renamed",
        "sessions/head:other",
        "--junit",
        "verdicts.xml",
        "--summary",
        "verdicts.md",
        "--annotations",
        "--out",
        "page",
    ];
    let all = home.check(&words, 1, "the gate failed");
    let errors = all.lines().filter(|line| line.starts_with("::error "));
    insta::assert_snapshot!(errors.collect::<Vec<_>>().join("\n"), @"::error title=tiny · fp32 bs1%3A throughput regressed::100.0 samples/s to 80.00 samples/s, -20.00 %25 (interval -20.02 … -19.98 %25, threshold 0.50 %25)");
    assert!(read(&home.path("verdicts.xml")).contains("type=\"regressed\""));
    assert!(read(&home.path("verdicts.md")).contains("### Regressed: 1"));
    // The page is there although the gate failed, and says why.
    assert!(all.contains("drawn: page/comparison.html"), "{all}");
    let page = read(&home.path("page/comparison.html"));
    assert!(page.contains("Gate failed: 1 of ") && page.contains("<svg"));
    assert!(read(&home.path("page/comparison.json")).contains("\"regressed\""));
    home.check(
        &[
            "compare",
            "sessions/renamed",
            "sessions/head:img",
            "--junit",
            "no/such/x.xml",
        ],
        4,
        "cannot write no/such/x.xml",
    );
}

#[test]
fn cannot_tell_fails_on_request_alone() {
    let home = Home::new();
    let once = records("once", "img", Precision::Fp32, 90.0);
    home.write("once", &session("once"), &once[..1]);
    let words = ["compare", "sessions/renamed", "sessions/once"];
    home.check(&words, 0, "inconclusive");
    let strict = [
        "compare",
        "sessions/renamed",
        "sessions/once",
        "--fail-on",
        "inconclusive",
    ];
    home.check(&strict, 1, "the gate failed");
}

#[test]
fn two_values_of_an_axis_are_compared_in_one_session() {
    let home = Home::new();
    let by = "precision=fp32,amp-bf16";
    home.check(
        &["compare", "sessions/head:img", "--by", by],
        1,
        "img with precision=amp-bf16 against img with precision=fp32",
    );
    let swapped = "precision=amp-bf16,fp32";
    home.check(
        &["compare", "sessions/head:img", "--by", swapped],
        0,
        "1 improved",
    );
    for (by, expected) in [
        ("speed=1,2", "no axis is named `speed`"),
        (
            "precision=fp32,fp8",
            "has precision=fp8; there are: amp-bf16, fp32",
        ),
        ("precision=fp32", "expected AXIS=BASE,HEAD"),
        ("precision=fp32,fp32", "give two values"),
    ] {
        home.check(&["compare", "sessions/head:img", "--by", by], 2, expected);
    }
    home.check(
        &["compare", "sessions/head", "--by", by],
        2,
        "has several images",
    );
    home.check(&["compare", "sessions/head"], 2, "name one");
}

/// Two of one name are told apart by their digests; sessions of before that called the second by its
/// whole reference.
#[test]
fn images_whose_names_have_colons_are_compared_by_name() {
    let home = Home::new();
    let names = [
        "images",
        "registry.example:5000/team/images@sha256:00ffee",
        "torch-2.11.0-cpu@0011aa22bb33",
    ];
    let runs = |(name, speed)| records("two", name, Precision::Fp32, speed);
    let runs = names.into_iter().zip([100.0, 80.0, 60.0]).flat_map(runs);
    home.write("out", &session("two"), &runs.collect::<Vec<_>>());
    let sides = names.map(|name| format!("sessions/out:{name}"));
    for head in &sides[1..] {
        home.check(&["compare", &sides[0], head], 1, "1 regressed");
    }
    // As an error lists them: by the name of the session, which has no folder of that name.
    let said = home.check(&["compare", "sessions/out", &sides[0]], 2, "name one");
    for name in &names[1..] {
        let side = format!("two:{name}");
        assert!(said.contains(&side), "{said}");
        home.check(&["compare", "two:images", &side], 1, "1 regressed");
    }
    home.check(&["history", "add", "sessions/out"], 0, "runs added");
    let side = format!("@two:{}", names[1]);
    home.check(&["compare", "@two:images", &side], 1, "1 regressed");
}

/// Nights that differ by 0.4 % though nothing changed: against a night out of the history 0.8 % is
/// no change, which the runs of two nights alone would call one.
#[test]
fn nights_out_of_the_history_are_judged_by_the_variance_between_nights() {
    let home = Home::new();
    let days = [0.3, -1.2, 0.8, -0.4, 1.5, -0.9, 0.1, 1.1, -1.4, 0.6];
    for (i, day) in days.into_iter().enumerate() {
        let name = format!("night-{i}");
        let throughput = 100.0 * (1.0 + 0.004 * day);
        let mut runs = records(&name, "img", Precision::Fp32, throughput);
        for run in &mut runs {
            run.started_at = format!("2026-01-{:02}T03:04:05Z", i + 1)
                .parse()
                .expect("a time");
        }
        home.write(&name, &session(&name), &runs);
        let folder = format!("sessions/{name}");
        home.check(&["history", "add", &folder], 0, "5 runs added");
    }
    let night = |name: &str, throughput| {
        let runs = records(name, "img", Precision::Fp32, throughput);
        home.write(name, &session(name), &runs);
    };
    night("calm", 99.4);
    night("slow", 95.0);
    let alone = ["compare", "sessions/night-9", "sessions/calm"];
    home.check(&alone, 1, "1 regressed");
    home.check(
        &["compare", "@night-9", "sessions/calm"],
        0,
        "1 inconclusive",
    );
    let slow = ["compare", "@night-9", "sessions/slow", "--format", "json"];
    let json = home.check(&slow, 1, "\"between-sessions\"");
    assert!(json.contains("\"regressed\""), "{json}");
}

#[test]
fn a_side_comes_out_of_the_history() {
    let home = Home::new();
    home.check(
        &["compare", "@base", "sessions/head:img"],
        2,
        "there is no history at",
    );
    let add = ["history", "add", "sessions/renamed", "--branch", "main"];
    home.check(&add, 0, "5 runs added");
    for base in ["@base", "@base:img", "branch=main", "image=img"] {
        home.check(&["compare", base, "sessions/head:img"], 0, "1 unchanged");
        home.check(&["compare", base, "sessions/head:other"], 1, "1 regressed");
    }
    home.check(&["compare", "@nightly", "sessions/head:img"], 2, "nightly");
    home.check(
        &["compare", "branch=fix/x", "sessions/head:img"],
        2,
        "no complete session that matches `branch=fix/x`",
    );
    home.check(
        &[
            "compare",
            "@base",
            "sessions/head:img",
            "--sessions",
            "elsewhere",
        ],
        2,
        "its folder is not below elsewhere",
    );
    home.check(
        &["compare", "@base:newer", "sessions/head:img"],
        2,
        "has no image `newer`",
    );
}

#[test]
fn a_side_is_not_compared_with_itself() {
    let home = Home::new();
    let mut refusals = Vec::new();
    for words in [
        ["compare", "sessions/renamed", "sessions/renamed"],
        ["compare", "sessions/renamed", "sessions/renamed:img"],
    ] {
        refusals.push(home.check(&words, 2, "both sides are base:img"));
    }
    insta::assert_snapshot!(refusals.concat(), @r"
    error: both sides are base:img; give another session or image as HEAD, or two values of an axis with --by AXIS=BASE,HEAD
    error: both sides are base:img; give another session or image as HEAD, or two values of an axis with --by AXIS=BASE,HEAD
    ");
}

#[test]
fn a_torn_last_record_is_left_out_and_said() {
    let home = Home::new();
    let records = home.path("sessions/head").join(SessionFolder::RECORDS);
    let mut file = File::options().append(true).open(records).expect("records");
    file.write_all(b"{\"version\": 1, \"run\": \"cut")
        .expect("half a line");
    let compare = ["compare", "sessions/renamed:img", "sessions/head:img"];
    home.check(
        &compare,
        0,
        "head: last line of the records cut off while it was written; left out",
    );
    let claims = ["claims", "sessions/head"];
    home.check(
        &claims,
        2,
        "head: last line of the records cut off while it was written; left out",
    );
}

#[test]
fn the_newest_session_is_the_newest_with_a_cell_in_common() {
    let home = Home::new();
    let mut newer = session("newer");
    newer.started_at = "2026-02-02T03:04:05Z".parse().expect("a time");
    let mut other_suite = records("newer", "img", Precision::Fp32, 50.0);
    for run in &mut other_suite {
        run.suite = "claims".into();
    }
    home.write("newer", &newer, &other_suite);
    for folder in ["sessions/renamed", "sessions/newer", "sessions/head"] {
        let add = ["history", "add", folder, "--branch", "main"];
        home.check(&add, 0, "runs added");
    }
    // `newer` has another suite; `head` is the other side itself, but for its second image.
    home.check(
        &["compare", "branch=main:img", "sessions/head:img"],
        0,
        "img @ head against img @ base",
    );
    home.check(
        &["compare", "sessions/head:other", "image=img"],
        0,
        "img against other",
    );
    let mut elsewhere = records("lonely", "img", Precision::Fp32, 50.0);
    for run in &mut elsewhere {
        run.scenario = "alone".into();
    }
    home.write("lonely", &session("lonely"), &elsewhere);
    home.check(
        &["compare", "branch=main:img", "sessions/lonely"],
        2,
        "newer:img has claims; lonely:img has smoke",
    );
}

#[test]
fn a_cell_that_works_no_more_fails_the_gate_and_says_why() {
    let home = Home::new();
    let mut broken = records("broken", "img", Precision::Fp32, 100.0);
    for run in &mut broken {
        run.outcome = Outcome::failed(Reason::OutOfMemory, Stage::Exit, "tried to allocate 2 GiB");
    }
    home.write("broken", &session("broken"), &broken);
    let words = [
        "compare",
        "sessions/renamed",
        "sessions/broken",
        "--junit",
        "verdicts.xml",
        "--summary",
        "verdicts.md",
        "--annotations",
    ];
    let why = "runs failed 5 of 5 (out-of-memory)";
    let all = home.check(&words, 1, "the gate failed: 1 metric");
    let error = all.lines().find(|line| line.starts_with("::error "));
    assert!(error.is_some_and(|line| line.contains(why)), "{all}");
    assert_eq!(all.matches("runs failed 5 of 5").count(), 2, "{all}");
    for file in ["verdicts.xml", "verdicts.md"] {
        let text = read(&home.path(file)).replace('\\', "");
        assert!(text.contains(why), "{text}");
        assert!(!text.contains("no block has both sides"), "{text}");
    }
    let json = home.check(
        &[
            "compare",
            "sessions/renamed",
            "sessions/broken",
            "--format",
            "json",
        ],
        1,
        "\"failed\": 5",
    );
    assert!(json.contains("\"out-of-memory\": 5"), "{json}");
    // The other way round nothing is lost, and nothing is judged either.
    let text = home.check(
        &["compare", "sessions/broken", "sessions/renamed"],
        2,
        "base 5 of 5 (out-of-memory), head 0 of 5",
    );
    insta::assert_snapshot!(text, @r"
    img @ base against img @ broken.

    1 gated metric in 1 cell: 0 regressed, 0 improved, 0 inconclusive, 0 unchanged, 1 measured on one side only.

    warning: tiny · fp32 bs1: runs failed: base 5 of 5 (out-of-memory), head 0 of 5; these are left out.
    warning: The two sides did not run interleaved: drift of the machine counts as change. Measure both images in one session.

    Gate: nothing judged: no gated metric has values of base and head.
    error: no gated metric was measured on both sides, so a gate would pass with nothing judged; see the failed runs above
    ");
}

#[test]
fn thresholds_by_the_names_that_people_see() {
    let home = Home::new();
    let slower = ["compare", "sessions/head:img", "sessions/head:other"];
    home.check(&slower, 1, "1 regressed");
    for name in ["throughput", "throughput_samples_per_second"] {
        let threshold = format!("{name}=0.5");
        let words = [&slower[..], &["--threshold", &threshold]].concat();
        home.check(&words, 0, "1 unchanged");
    }
    let unknown = [&slower[..], &["--threshold", "speed=0.5"]].concat();
    home.check(&unknown, 2, "no compared metric is named `speed`");
}

#[test]
fn sides_of_different_methods_are_refused_by_name() {
    let home = Home::new();
    for (name, cpus, threads) in [
        ("one", "1", "2"),
        ("other", "0.4", "2"),
        ("both", "0.4", "8"),
    ] {
        let mut runs = records(name, "img", Precision::Fp32, 100.0);
        for run in &mut runs {
            run.method.set("limits.cpus", cpus);
            run.method.set("threads", threads);
        }
        home.write(name, &session(name), &runs);
    }
    let compare = ["compare", "sessions/one", "sessions/other", "--all"];
    let said = home.check(&compare, 2, "limits.cpus: 1 in the base, 0.4 in the head");
    insta::assert_snapshot!(said, @r"
    error: the sides were measured by different methods:
      limits.cpus: 1 in the base, 0.4 in the head
    measure both by the same, or pass --ignore method.limits.cpus
    ");
    for key in ["method.limits.cpus", "method.limits", "method"] {
        let words = [&compare[..], &["--ignore", key]].concat();
        home.check(&words, 0, "which was ignored");
    }
    let compare = ["compare", "sessions/one", "sessions/both"];
    let words = [&compare[..], &["--ignore", "method.limits"]].concat();
    let said = home.check(&words, 2, "threads: 2 in the base, 8 in the head");
    insta::assert_snapshot!(said, @r"
    error: the sides were measured by different methods:
      threads: 2 in the base, 8 in the head
    measure both by the same, or pass --ignore method.threads
    ");
    for key in [
        "limits.cpus",
        "method.limits.cpu",
        "method.limits.ulimits.nofil",
        "methods",
        "method.",
    ] {
        let words = [&compare[..], &["--ignore", key]].concat();
        home.check(&words, 2, "expected method, or one of");
    }
    // Of an older session little is known, and nothing is held against it.
    home.check(
        &["compare", "sessions/renamed", "sessions/one"],
        0,
        "unchanged",
    );
}

#[test]
fn a_damaged_line_is_named_by_whoever_reads_it() {
    let home = Home::new();
    let path = home.path("sessions/head").join(SessionFolder::RECORDS);
    let whole = fs::read_to_string(&path).expect("records");
    let damaged = whole.replacen("\"attempt\":1", "\"attempt\":", 1);
    fs::write(&path, &damaged).expect("records");
    let compare = ["compare", "sessions/renamed", "sessions/head:img"];
    let told = home.check(&compare, 0, "warning: head: line 1 of the records");
    let warning = told.lines().find(|line| line.starts_with("warning: head"));
    insta::assert_snapshot!(warning.expect(&told), @"warning: head: line 1 of the records: not a record: expected value; left out (run img-Fp32-0)");
}

/// As the gallery's sessions are: whatever reads one says the same of it.
#[test]
fn a_packed_session_is_read_as_the_plain_one() {
    let home = Home::new();
    let reading: [&[&str]; 5] = [
        &["compare", "sessions/renamed:img", "sessions/head:img"],
        &["report", "sessions/head", "--out", "page"],
        &["history", "add", "sessions/head"],
        &["history", "list", "--format", "json"],
        &["site", "sessions", "--out", "site"],
    ];
    let read = || {
        let told = reading.map(|words| home.check(words, 0, ""));
        let files = ["page/report.json", "site/head/report.md"].map(|file| read(&home.path(file)));
        fs::remove_dir_all(home.path("history")).expect("the history");
        (told, files)
    };
    let plain = read();
    for folder in ["sessions/renamed", "sessions/head"] {
        let records = home.path(folder).join(SessionFolder::RECORDS);
        let packed = Command::new("gzip").arg(&records).status();
        assert!(packed.expect("gzip runs").success() && !records.exists());
    }
    assert_eq!(read(), plain);
    let cut = home.path("sessions/head").join(SessionFolder::PACKED);
    let bytes = fs::read(&cut).expect("packed records");
    fs::write(&cut, &bytes[..bytes.len() / 2]).expect("half of them");
    home.check(reading[0], 2, "records.ndjson.gz: damaged");
}

#[test]
fn one_name_in_two_suites_is_two_cells() {
    let home = Home::new();
    for name in ["one", "other"] {
        let mut runs = records(name, "img", Precision::Fp32, 100.0);
        let mut more = runs.clone();
        for run in &mut more {
            run.suite = "nightly".into();
        }
        runs.extend(more);
        home.write(name, &session(name), &runs);
    }
    let compare = ["compare", "sessions/one", "sessions/other", "--all"];
    let said = home.check(&compare, 0, "smoke/tiny · ");
    assert!(said.contains("nightly/tiny · "), "{said}");
}
