//! The catalogue, and the page that is generated from it.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::Path};

use metrics::{Across, Direction, Kind, Metric, Role, Rows, Unit, catalogue};
use record::{Better, DeclaredMetric};

const HEAD: &str = "\
# Metrics

Every metric that Torchgauge records, generated from the catalogue in `bench-suite/metrics`: change \
a row there and run `UPDATE_DOCS=1 cargo test -p metrics`.

A metric has one window of time. Peaks of the measured steps are comparable: allocated ≤ \
reserved ≤ process ≤ GPU. Peaks from the start of the run to the end of the measured steps have names \
that begin with `run_`; calibration, which times a large matrix product after the measured steps, is \
in neither.

What cannot be known is left out, never 0. Metrics of runs that failed are left out of everything \
but the records.

A suite may declare metrics of its own workload beside these \
([suites](../scenarios/suites.md#metrics)).

The *noise threshold* is the largest relative change that counts as none; a suite may set its own \
([suites](../scenarios/suites.md#thresholds)). A regression of a *gated* metric fails `compare`; one \
that *explains* is compared beside it; the others are followed by the history and may be claimed, \
or only describe a run.

The first sentences of a comparison rank the changes of *headline* metrics, marked ★, by how far each \
lies beyond its threshold.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let roles = [
        (Role::Gated, "Gated"),
        (Role::Explains, "Compared, to explain"),
        (Role::Followed, "Followed"),
        (Role::Describes, "Descriptive"),
    ];
    for (role, title) in roles {
        let _ = write!(
            page,
            "\n## {title}\n\n\
             | metric | what it is | window | source | better | noise threshold |\n\
             |---|---|---|---|---|---|\n"
        );
        let rows = catalogue::ALL.iter().filter(|metric| metric.role == role);
        rows.for_each(|metric| row(&mut page, metric));
    }
    page
}

fn row(page: &mut String, metric: &Metric) {
    let (better, threshold) = match (metric.role, metric.direction) {
        (Role::Describes, _) => ("–", "–".to_owned()),
        (_, Direction::HigherIsBetter) => ("more", percent(metric.threshold)),
        (_, Direction::LowerIsBetter) => ("less", percent(metric.threshold)),
    };
    let star = if metric.headline { " ★" } else { "" };
    let _ = write!(page, "| `{}`{star}", metric.name);
    let _ = writeln!(
        page,
        " | *{}.* {} | {} | {} | {better} | {threshold} |",
        metric.label, metric.about, metric.window, metric.source,
    );
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

#[test]
fn the_page_is_that_of_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = page();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/metrics.md is outdated; run UPDATE_DOCS=1 cargo test -p metrics"
    );
}

fn suffix(unit: Unit) -> &'static str {
    match unit {
        Unit::SamplesPerSecond => "_samples_per_second",
        Unit::StepsPerSecond => "_steps_per_second",
        Unit::TokensPerSecond => "_tokens_per_second",
        Unit::RequestsPerSecond => "_requests_per_second",
        Unit::BytesPerSecond => "_bytes_per_second",
        Unit::OperationsPerSecond => "_per_second",
        Unit::Seconds => "_seconds",
        Unit::Bytes => "_bytes",
        Unit::Count => "_count",
        Unit::Joules => "_joules",
        Unit::Watts => "_watts",
        Unit::Ratio => "_ratio",
        Unit::Plain => "",
    }
}

#[test]
fn names_are_unique_and_carry_their_unit() {
    let names: BTreeSet<_> = catalogue::ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), catalogue::ALL.len(), "a name stands twice");
    for metric in catalogue::ALL {
        assert!(
            metric.name.ends_with(suffix(metric.unit)),
            "{}",
            metric.name
        );
        assert!((0.0..1.0).contains(&metric.threshold), "{}", metric.name);
        assert!(metric.about.ends_with('.'), "{}", metric.name);
        assert_eq!(Metric::named(metric.name), Some(*metric));
    }
    assert_eq!(Metric::named("speed"), None);
}

#[test]
fn what_fails_a_gate_stands_in_the_first_sentences() {
    for metric in catalogue::ALL {
        assert!(metric.headline || !metric.is_gated(), "{}", metric.name);
    }
    let page = page();
    assert!(page.contains("| `warmup_seconds` ★ |"), "{page}");
    assert!(!page.contains("| `step_median_seconds` ★"), "{page}");
}

fn declared(name: &str, unit: Unit, better: Better, gate: bool) -> DeclaredMetric {
    DeclaredMetric {
        name: name.into(),
        label: None,
        unit,
        better,
        threshold: 0.03,
        gate,
    }
}

#[test]
fn rows_are_the_built_in_ones_and_those_that_are_declared() {
    let served = DeclaredMetric {
        label: Some("requests served".into()),
        ..declared(
            "served_per_second",
            Unit::RequestsPerSecond,
            Better::More,
            true,
        )
    };
    let cache = declared("cache_bytes", Unit::Bytes, Better::Less, false);
    // A built-in row stays what it is, whatever is declared.
    let taken = declared("peak_allocated_bytes", Unit::Plain, Better::More, false);
    let rows = Rows::with([&served, &cache, &taken]);
    assert_eq!(rows.all().count(), catalogue::ALL.len() + 2);
    assert_eq!(
        rows.named("peak_allocated_bytes").unwrap().unit,
        Unit::Bytes
    );

    let row = rows.named("served_per_second").unwrap();
    assert_eq!((row.label, row.unit), ("requests served", served.unit));
    assert_eq!(row.direction, Direction::HigherIsBetter);
    assert_eq!((row.kind, row.across), (Kind::TimeLike, Across::Sum));
    assert!(row.is_gated() && row.headline && (row.threshold - 0.03).abs() < 1e-12);
    let row = rows.named("cache_bytes").unwrap();
    assert_eq!((row.label, row.role), ("cache_bytes", Role::Explains));
    assert_eq!(row.direction, Direction::LowerIsBetter);
    assert_eq!((row.kind, row.across), (Kind::MemoryLike, Across::Largest));

    // Another session's rows are its own, and a row is made once.
    assert!(Rows::with([]).named("served_per_second").is_none());
    let again = Rows::with([&served]);
    assert!(std::ptr::eq(
        again.named("served_per_second").unwrap(),
        rows.named("served_per_second").unwrap()
    ));
    assert!(again.compared().any(|row| row.name == "served_per_second"));
}

#[test]
fn processes_come_to_what_the_row_says() {
    let of = |across: Across| across.of([1.0, 4.0].into_iter());
    assert_eq!(of(Across::Sum), Some(5.0));
    assert_eq!(of(Across::Largest), Some(4.0));
    assert_eq!(of(Across::Mean), Some(2.5));
    assert_eq!(Across::Mean.of(std::iter::empty()), None);
}
