//! The catalogue, and the page that is generated from it.

use std::{collections::BTreeSet, env, fs, path::Path};

use metrics::{Metric, Unit, catalogue};

#[test]
fn the_page_is_that_of_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = metrics::page();
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
    let names: BTreeSet<_> = catalogue::ALL
        .iter()
        .flat_map(|metric| metric.formerly.iter().chain([&metric.name]))
        .collect();
    let count: usize = catalogue::ALL
        .iter()
        .map(|metric| 1 + metric.formerly.len())
        .sum();
    assert_eq!(names.len(), count, "a name stands twice");
    for metric in catalogue::ALL {
        assert!(
            metric.name.ends_with(suffix(metric.unit)),
            "{}",
            metric.name
        );
        assert!((0.0..1.0).contains(&metric.threshold), "{}", metric.name);
        assert!(metric.about.ends_with('.'), "{}", metric.name);
        for name in metric.formerly.iter().chain([&metric.name]) {
            assert_eq!(Metric::named(name), Some(*metric));
        }
    }
    assert_eq!(Metric::named("speed"), None);
}
