//! Verdicts in every form.

use judge::compare::{Comparison, Interval, Method, Verdict};
use record::{ImageChange, Part, PartValue, Reason};
use reports::{
    comparison::{self, annotations, junit},
    json,
    text::Style,
};
use verdict::{
    BaseOrHead, CellVerdicts, FailOn, FailedRuns, Failures, MetricVerdict, Origin, Verdicts,
    Warning,
};

fn text(verdicts: &Verdicts) -> String {
    comparison::text(verdicts, FailOn::Regressed, Style::Plain, true)
}

fn markdown(verdicts: &Verdicts) -> String {
    comparison::markdown(verdicts, FailOn::Regressed, None)
}

/// The section of a page that has every verdict.
pub(crate) fn html(verdicts: &Verdicts) -> String {
    let home = tempfile::tempdir().unwrap();
    let page = comparison::write(verdicts, FailOn::Regressed, home.path());
    let page = std::fs::read_to_string(page.unwrap()).unwrap();
    let start = page.find("<section id=\"comparison\"").unwrap();
    let end = page.find("</main>").unwrap();
    page[start..end].to_owned()
}

fn image_changes() -> Vec<ImageChange> {
    let text = |text: &str| Some(PartValue::Text(text.into()));
    let change = |part, name: &str, base, head| ImageChange {
        part,
        name: name.into(),
        base,
        head,
    };
    vec![
        change(Part::Version, "cuDNN", text("9.10.2.21"), text("9.19.0.56")),
        change(Part::Package, "nvidia-nvshmem", None, text("3.4.5 | <b>")),
        change(
            Part::Layer,
            "libtorch",
            Some(PartValue::Bytes(5_440_000_000)),
            Some(PartValue::Bytes(3_298_182_656)),
        ),
    ]
}

/// Two images of one session: the head is slower in one cell, takes less memory, and is so noisy
/// in the other cell that nobody can tell.
pub(crate) fn verdicts() -> Verdicts {
    let origin = |image: &str| Origin {
        session: "2026-11-12T10-20-30-abcd".into(),
        image: image.into(),
        image_id: None,
        libtorch_version: Some("2.11.0".into()),
        machine: "gpu-ci-1".into(),
        device: "NVIDIA H200".into(),
        driver_version: Some("580.159".into()),
        choice: None,
    };
    let cell = |variant: &str, metrics| CellVerdicts {
        name: format!("resnet50 · {variant}"),
        suite: "sample".into(),
        scenario: "resnet50".into(),
        variant: variant.into(),
        failures: (variant != "fp32 bs64").then(|| failures(0, 1)),
        inside: None,
        metrics,
    };
    let gib = 1_073_741_824.0;
    let throughput = "throughput_samples_per_second";
    Verdicts {
        version: verdict::VERSION,
        base: origin("torch-2.10-cu128"),
        head: origin("torch-2.11-cu130"),
        warnings: vec![
            Warning::OtherGpus {
                cell: "resnet50 · fp32 bs64".into(),
                cells: 2,
            },
            Warning::NotInterleaved,
        ],
        looks: 0,
        image_changes: image_changes(),
        images: vec![judged(
            "image_size_bytes",
            (5.4 * gib, 3.3 * gib),
            (0.6111, 0.6111, 0.6111),
            Verdict::Improved,
        )],
        cold_start: vec![
            judged(
                "process_start_seconds",
                (1.9, 2.4),
                (1.263, 1.21, 1.318),
                Verdict::Regressed,
            ),
            judged(
                "cuda_start_seconds",
                (0.31, 0.312),
                (1.006, 0.99, 1.022),
                Verdict::Unchanged,
            ),
        ],
        cells: vec![
            cell(
                "fp32 bs64",
                vec![
                    judged(
                        throughput,
                        (942.7, 860.9),
                        (0.9133, 0.9071, 0.9195),
                        Verdict::Regressed,
                    ),
                    judged(
                        "step_p99_seconds",
                        (0.0698, 0.0702),
                        (1.006, 0.981, 1.031),
                        Verdict::Unchanged,
                    ),
                    judged(
                        "peak_allocated_bytes",
                        (5.602 * gib, 5.535 * gib),
                        (0.988, 0.988, 0.988),
                        Verdict::Improved,
                    ),
                ],
            ),
            cell(
                "tf32 bs64 | wide",
                vec![
                    judged(
                        throughput,
                        (2005.0, 2021.0),
                        (1.0079, 0.9017, 1.1265),
                        Verdict::Inconclusive,
                    ),
                    judged(
                        "peak_reserved_bytes",
                        (6.218 * gib, 6.218 * gib),
                        (1.0, 1.0, 1.0),
                        Verdict::Unchanged,
                    ),
                ],
            ),
        ],
    }
}

/// How many of five runs failed on either side.
fn failures(base: usize, head: usize) -> Failures {
    let side = |failed: usize| FailedRuns {
        expected: 0,
        runs: 5,
        failed,
        reasons: (failed > 0)
            .then_some((Reason::OutOfMemory, failed))
            .into_iter()
            .collect(),
    };
    Failures {
        base: side(base),
        head: side(head),
        q_value: None,
    }
}

fn judged(
    name: &str,
    (base, head): (f64, f64),
    (ratio, lo, hi): (f64, f64, f64),
    verdict: Verdict,
) -> MetricVerdict {
    let open = verdict == Verdict::Inconclusive;
    MetricVerdict {
        metric: name.into(),
        gated: metrics::Metric::named(name).unwrap().is_gated(),
        base: Some(base),
        head: Some(head),
        not_measured_in: None,
        comparison: Comparison {
            ratio: Some(ratio),
            interval: Some(Interval { lo, hi }),
            level: Some(0.02),
            p_value: Some(0.01),
            q_value: Some(0.02),
            verdict,
            threshold: 0.01,
            minimum_detectable_change: Some(if open { 0.2067 } else { 0.008 }),
            blocks_needed: open.then_some(812),
            noise: Some(0.004),
            blocks_used: 5,
            blocks_dropped: 0,
            method: Method::Combined,
            reason: format!("because it is {verdict}"),
        },
    }
}

#[test]
fn forms_of_a_comparison() {
    let verdicts = verdicts();
    let short = comparison::text(&verdicts, FailOn::Regressed, Style::Plain, false);
    insta::assert_snapshot!("comparison_text_short", short);
    insta::assert_snapshot!("comparison_text", text(&verdicts));
    insta::assert_snapshot!("comparison_markdown", markdown(&verdicts));
    insta::assert_snapshot!(
        "comparison_annotations",
        annotations(&verdicts, FailOn::Regressed)
    );
    insta::assert_snapshot!(
        "comparison_junit",
        junit(&verdicts, FailOn::Regressed).unwrap()
    );
    let back: Verdicts = serde_json::from_str(&json::render(&verdicts).unwrap()).unwrap();
    assert_eq!(back, verdicts);
}

#[test]
fn a_strict_gate_fails_what_nobody_can_tell() {
    let verdicts = verdicts();
    let failures = |fail_on| {
        let xml = junit(&verdicts, fail_on).unwrap();
        let document = roxmltree::Document::parse(&xml).unwrap();
        let count = document.root_element().attribute("failures").unwrap();
        count.parse::<usize>().unwrap()
    };
    let gated = |verdict| {
        let all = verdicts.all();
        all.filter(|(_, found)| found.gated && found.comparison.verdict == verdict)
            .count()
    };
    assert_eq!(failures(FailOn::Regressed), gated(Verdict::Regressed));
    assert_eq!(
        failures(FailOn::Inconclusive),
        gated(Verdict::Regressed) + gated(Verdict::Inconclusive)
    );
    assert!(gated(Verdict::Inconclusive) > 0);
    assert!(annotations(&verdicts, FailOn::Regressed).contains("::warning "));
    let strict = annotations(&verdicts, FailOn::Inconclusive);
    assert_eq!(
        strict.matches("::error ").count(),
        failures(FailOn::Inconclusive)
    );
}

#[test]
fn a_cell_that_works_no_more_is_told_in_every_form() {
    let mut verdicts = verdicts();
    verdicts.cells[1].failures = Some(failures(0, 5));
    verdicts.cells[1].metrics.truncate(1);
    let mut nowhere = verdicts.cells[1].clone();
    nowhere.variant = "fp16 bs64".into();
    nowhere.failures = Some(failures(5, 5));
    nowhere.metrics.clear();
    verdicts.cells.push(nowhere);
    let why = "works in the base, fails in the head: runs failed 5 of 5 (out-of-memory)";
    let both = "runs failed: base 5 of 5 (out-of-memory), head 5 of 5 (out-of-memory)";
    let xml = junit(&verdicts, FailOn::Regressed).unwrap();
    // In a table of text a message goes on in the next line.
    let told: Vec<String> = text(&verdicts)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    for form in [
        told.join(" "),
        markdown(&verdicts).replace('\\', ""),
        annotations(&verdicts, FailOn::Regressed),
        xml.clone(),
        html(&verdicts),
    ] {
        assert!(form.contains(why), "{form}");
        assert!(form.contains(both), "{form}");
    }
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suites = document.root_element().children();
    let counts: Vec<_> = suites
        .filter(|node| node.has_tag_name("testsuite"))
        .map(|suite| (suite.attribute("failures"), suite.attribute("skipped")))
        .collect();
    assert_eq!(counts[1], (Some("1"), Some("0")));
    assert_eq!(counts[2], (Some("0"), Some("1")));
}

#[test]
fn a_cell_that_was_interrupted_in_the_head_does_not_fail_there() {
    let mut verdicts = verdicts();
    let mut interrupted = failures(0, 5);
    interrupted.head.reasons = [(Reason::Interrupted, 5)].into();
    verdicts.cells[1].failures = Some(interrupted);
    let told: Vec<String> = text(&verdicts)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let why = "not measured in the head: runs failed 5 of 5 (interrupted)";
    for form in [told.join(" "), markdown(&verdicts).replace('\\', "")] {
        assert!(form.contains(why), "{form}");
        assert!(!form.contains("fails in the head"), "{form}");
    }
}

/// As the judge leaves a metric that one side never yielded.
fn not_measured(name: &str, value: f64, role: BaseOrHead) -> MetricVerdict {
    let mut found = judged(name, (value, value), (1.0, 1.0, 1.0), Verdict::Inconclusive);
    found.not_measured_in = Some(role);
    match role {
        BaseOrHead::Base => found.base = None,
        BaseOrHead::Head => found.head = None,
    }
    found.comparison = Comparison {
        ratio: None,
        interval: None,
        level: None,
        p_value: None,
        q_value: None,
        minimum_detectable_change: None,
        blocks_needed: None,
        blocks_used: 0,
        method: Method::None,
        reason: found.outcome(),
        ..found.comparison
    };
    found
}

#[test]
fn metrics_of_one_side_alone_say_where_they_were_not_measured() {
    let names = ["throughput_samples_per_second", "step_p99_seconds"];
    for (role, of_cell, words) in [
        (BaseOrHead::Head, failures(0, 5), "not measured in head"),
        (BaseOrHead::Base, failures(5, 0), "not measured in base"),
    ] {
        let mut verdicts = verdicts();
        verdicts.cells.truncate(1);
        verdicts.cells[0].failures = Some(of_cell);
        verdicts.cells[0].metrics = names.map(|name| not_measured(name, 2.0, role)).into();
        for form in [
            text(&verdicts),
            json::render(&verdicts).unwrap(),
            markdown(&verdicts),
            html(&verdicts),
        ] {
            assert!(form.contains(words), "{form}");
        }
        let xml = junit(&verdicts, FailOn::Regressed).unwrap();
        let lines = annotations(&verdicts, FailOn::Regressed);
        // Where the cell is lost, it stands for its metrics.
        let single = role == BaseOrHead::Base;
        assert_eq!(xml.contains(words), single, "{xml}");
        assert_eq!(lines.contains(words), single, "{lines}");
        for form in [
            text(&verdicts),
            markdown(&verdicts),
            html(&verdicts),
            xml,
            lines,
        ] {
            let form = form.replace("0 inconclusive", "");
            for none in ["inconclusive", "blocks show", "both sides"] {
                assert!(!form.contains(none), "{none} in {form}");
            }
        }
    }
}

#[test]
fn annotations_are_no_more_than_github_shows() {
    let mut verdicts = verdicts();
    let slower = verdicts.cells[0].clone();
    for place in 1..=12 {
        let mut cell = slower.clone();
        cell.variant = format!("bs{place}");
        cell.name = format!("resnet50 · bs{place}");
        cell.metrics.truncate(1);
        let ratio = 0.9 - 0.01 * f64::from(place);
        cell.metrics[0].comparison.ratio = Some(ratio);
        verdicts.cells.push(cell);
    }
    let all = annotations(&verdicts, FailOn::Regressed);
    assert!(all.starts_with("::notice title="), "{all}");
    let errors: Vec<&str> = all
        .lines()
        .filter(|line| line.starts_with("::error "))
        .collect();
    assert_eq!(errors.len(), 10);
    insta::assert_snapshot!(all, @r"
    ::notice title=torch-2.11-cu130 against torch-2.10-cu128::16 gated metrics in 14 cells: 13 regressed, 1 improved, 1 inconclusive, 1 unchanged.
    ::error title=resnet50 · bs12%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -22.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs11%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -21.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs10%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -20.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs9%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -19.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs8%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -18.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs7%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -17.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs6%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -16.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs5%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -15.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=resnet50 · bs4%3A throughput regressed::942.7 samples/s to 860.9 samples/s, -14.00 %25 (interval -9.29 … -8.05 %25, threshold 1.0 %25)
    ::error title=4 more in the report::GitHub shows no more of a kind for one step; --summary and --junit have all.
    ::warning title=About this comparison::resnet50 · tf32 bs64 | wide: runs failed: base 0 of 5, head 1 of 5 (out-of-memory); these are left out.
    ::warning title=About this comparison::resnet50 · fp32 bs64 and 1 more cell ran on another GPU of the host in the head than in the base: GPUs of one model differ as well.
    ::warning title=About this comparison::The two sides did not run interleaved: drift of the machine counts as change. Measure both images in one session.
    ::warning title=resnet50 · tf32 bs64 | wide%3A throughput inconclusive::2005 samples/s to 2021 samples/s, +0.79 %25 (interval -9.83 … +12.65 %25, threshold 1.0 %25); detectable change 20.7 %25; more blocks than is worthwhile (over 200) for twice the noise threshold of 1.0 %25
    ");
}

/// As many cells, in each of which throughput fell, one further than the next, and one of which has a
/// longer warm-up.
fn many(cells: u32) -> Verdicts {
    let mut verdicts = verdicts();
    let mut slower = verdicts.cells[0].clone();
    slower.metrics.truncate(1);
    verdicts.cells.clear();
    for place in 1..=cells {
        let mut cell = slower.clone();
        cell.variant = format!("bs{place}");
        cell.name = format!("resnet50 · bs{place}");
        let ratio = 0.95 - 0.0001 * f64::from(place);
        cell.metrics[0].comparison.ratio = Some(ratio);
        verdicts.cells.push(cell);
    }
    let warmup = judged(
        "warmup_seconds",
        (1.0, 14.0),
        (14.0, 12.0, 16.0),
        Verdict::Regressed,
    );
    verdicts.cells[2].metrics.push(warmup);
    verdicts
}

#[test]
fn a_summary_says_the_gate_first_and_each_cause_once() {
    let link = Some("https://example.org/report");
    let summary = |cells| comparison::markdown(&many(cells), FailOn::Regressed, link);
    for cells in [3, 500] {
        let text = summary(cells).replace('\\', "");
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let gate = format!("✗ Gate failed: {cells} of {cells} gated metrics regressed.");
        assert_eq!(lines.next(), Some(&*gate), "{text}");
        let rows: Vec<&str> = lines.filter(|line| line.starts_with("- ")).collect();
        // The size of the images shrank.
        assert_eq!(rows.len(), 3, "{rows:?}");
        let warmup = "- ✗ resnet50 · bs3 · warm-up · × 14.0 [× 12.0, × 16.0] · 1.00 s → 14.0 s";
        assert_eq!(rows[0], warmup);
        let all = format!(" · regressed in {cells} of {cells} cells");
        assert!(
            rows[1].contains(" · throughput · -") && rows[1].ends_with(&all),
            "{rows:?}"
        );
        assert!(rows[2].starts_with("- ✓ image · image size · "), "{rows:?}");
        assert!(
            text.contains("[The report](https://example.org/report)"),
            "{text}"
        );
        assert!(text.chars().count() <= 60_000, "{}", text.chars().count());
        // The change and its interval stand in one table.
        let heads = text
            .lines()
            .filter(|line| line.starts_with("| cell | metric |"));
        let is_whole = |line: &str| line.contains(" change | interval | base, median |");
        assert!(
            heads.clone().count() > 0 && heads.clone().all(is_whole),
            "{text}"
        );
    }
    assert!(!markdown(&many(3)).contains("[The report]"));
}

#[test]
fn a_terminal_shows_forty_lines_and_everything_when_asked() {
    let mut verdicts = many(500);
    for place in 0..20 {
        let cell = format!("resnet50 · bs{place}");
        verdicts
            .warnings
            .push(Warning::OtherGpus { cell, cells: 1 });
    }
    let text = |is_whole| comparison::text(&verdicts, FailOn::Regressed, Style::Plain, is_whole);
    let short = text(false);
    assert!(short.lines().count() <= 40, "{short}");
    assert!(
        short.contains("warm-up") && short.contains("regressed in 500 of 500 cells"),
        "{short}"
    );
    assert!(
        short
            .trim_end()
            .ends_with("Gate failed: 500 of 500 gated metrics regressed."),
        "{short}"
    );
    assert!(text(true).lines().count() > 500);
}

#[test]
fn a_gate_over_nothing_that_was_judged_says_so() {
    let mut verdicts = verdicts();
    for found in verdicts.cells.iter_mut().flat_map(|cell| &mut cell.metrics) {
        found.comparison.verdict = Verdict::Inconclusive;
    }
    let text = markdown(&verdicts);
    assert!(
        text.starts_with("? Gate: nothing judged: all of 4 gated metrics are inconclusive."),
        "{text}"
    );
}

#[test]
fn hostile_names_stay_names() {
    let mut verdicts = verdicts();
    verdicts.cells[0].scenario = "<script>x</script>|\n::error::y\u{0}".into();
    verdicts.head.image = "b\"'&<".into();
    verdicts.image_changes[0].name = "<script>y</script>".into();
    assert!(!html(&verdicts).contains("<script"));
    let wrapped = format!("<x>{}</x>", html(&verdicts).replace("<wbr>", ""));
    roxmltree::Document::parse(&wrapped).unwrap();
    assert!(!markdown(&verdicts).contains("<script"));
    roxmltree::Document::parse(&junit(&verdicts, FailOn::Regressed).unwrap()).unwrap();
    for line in annotations(&verdicts, FailOn::Regressed).lines() {
        assert!(
            line.starts_with("::error title=")
                || line.starts_with("::warning title=")
                || line.starts_with("::notice title="),
            "{line}"
        );
    }
}

#[test]
fn a_comparison_is_a_page_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let page = comparison::write(&verdicts(), FailOn::Regressed, home.path()).unwrap();
    let page = std::fs::read_to_string(page).unwrap();
    for words in [
        "torch-2.10-cu128 → torch-2.11-cu130",
        "✗ Gate failed: 1 of 4 gated metrics regressed.",
        "<b>1</b> ✗ regressed",
        "<svg",
        "id=\"comparison\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("id=\"summary\""));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 3);
    let strict = comparison::write(&verdicts(), FailOn::Inconclusive, home.path()).unwrap();
    let strict = std::fs::read_to_string(strict).unwrap();
    assert!(strict.contains("Gate failed: 2 of 4 gated metrics regressed or inconclusive"));
}

#[test]
fn a_row_names_the_change_that_was_judged_and_that_of_the_medians() {
    let mut verdicts = verdicts();
    // Medians that fell beside runs in pairs that rose.
    let found = &mut verdicts.cells[1].metrics[0];
    (found.base, found.head) = (Some(550.0), Some(545.6));
    found.comparison.ratio = Some(1.0101);
    let page = html(&verdicts);
    assert!(
        page.contains("+1.01 %<br/><span class=\"muted note\">medians -0.80 %</span>"),
        "{page}"
    );
    assert!(
        page.contains(">threshold<") && page.contains(">1.0 %<"),
        "{page}"
    );
    assert!(!page.contains('▲') && !page.contains('▼'), "{page}");
}
