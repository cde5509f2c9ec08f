//! Claims and noise thresholds as suites carry them.

use bench_suite::suite::Suite;
use record::{Expectation, Range};

fn suite(more: &str) -> String {
    format!(
        "version: 1\ndescription: d\n\
         defaults:\n  thresholds: {{throughput_samples_per_second: 0.02, peak_reserved_bytes: 0.1}}\n\
         scenarios:\n\
         - name: one\n  model: resnet-tiny\n  axes: {{precision: [fp32, amp-bf16], batch: [4, 8]}}\n\
         - name: two\n  model: vit-tiny\n  task: inference\n  \
           thresholds: {{throughput_samples_per_second: 0}}\n{more}"
    )
}

fn claim(lines: &str) -> String {
    let lines = lines.replace('\n', "\n  ");
    suite(&format!(
        "claims:\n- statement: AMP saves memory\n  source: an article\n  {lines}\n"
    ))
}

const SOUND: &str = "metric: peak_allocated_bytes\nbaseline: {precision: fp32}\n\
    treated: {precision: amp-bf16, batch: 8}\nexpect: {saving: {min: 0.3, max: 0.5}}";

#[test]
fn a_suite_carries_claims_and_thresholds() {
    let suite = Suite::from_text("x.yaml", &claim(SOUND))
        .unwrap_or_else(|error| panic!("{}", error.render(false)));
    let [claim] = &suite.claims[..] else {
        panic!("{:?}", suite.claims)
    };
    assert_eq!(claim.statement, "AMP saves memory");
    assert_eq!(claim.treated.to_string(), "batch=8 precision=amp-bf16");
    let range = Range {
        min: Some(0.3),
        max: Some(0.5),
    };
    assert_eq!(claim.expect, Expectation::Saving(range));
    let thresholds = |place: usize| -> Vec<(String, f64)> {
        suite.scenarios[place]
            .thresholds
            .clone()
            .into_iter()
            .collect()
    };
    let (speed, reserved) = ("throughput_samples_per_second", "peak_reserved_bytes");
    assert_eq!(
        thresholds(0),
        [(reserved.into(), 0.1), (speed.into(), 0.02)]
    );
    assert_eq!(thresholds(1), [(reserved.into(), 0.1), (speed.into(), 0.0)]);
}

#[test]
fn what_is_wrong_with_a_claim_is_shown_where_it_stands() {
    let change = |from: &str, to: &str| claim(&SOUND.replace(from, to));
    for (name, text) in [
        (
            "claim on no metric",
            change("peak_allocated_bytes", "peak_alocated_bytes"),
        ),
        (
            "claim on no axis",
            change("{precision: fp32}", "{precison: fp32}"),
        ),
        (
            "claim on no value",
            change("precision: fp32", "precision: fp8"),
        ),
        ("claim in percent", change("0.5", "50")),
        (
            "claim without a range",
            change("{min: 0.3, max: 0.5}", "{}"),
        ),
        ("claim of another effect", change("saving", "saves")),
        ("claim without a partner", change("batch: 8", "batch: 16")),
        (
            "claim on no scenario",
            change("metric:", "scenarios: [on]\nmetric:"),
        ),
        (
            "claim on one image",
            change("{precision: fp32}", "{precision: fp32, image: a}"),
        ),
        (
            "claim on an unknown scenario",
            change("{precision: fp32}", "{scenario: on, precision: fp32}"),
        ),
        (
            "claim of a value with a baseline",
            change("saving", "value"),
        ),
        (
            "claim by nobody",
            claim(SOUND).replace("an article", "\"\""),
        ),
        (
            "threshold of no metric",
            suite("").replace("peak_reserved", "peak_preserved"),
        ),
        (
            "threshold of what is not compared",
            suite("").replace("peak_reserved", "parameter"),
        ),
        ("threshold in percent", suite("").replace("0.1", "10")),
    ] {
        let error = Suite::from_text("broken.yaml", &text).expect_err(name);
        insta::assert_snapshot!(name.replace(' ', "-"), error.render(false));
    }
}

#[test]
fn the_documented_thresholds_are_those_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/suites.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("## Thresholds").unwrap();
    let documented: Vec<&str> = section
        .split("## Claims")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let expected: Vec<String> = metrics::Metric::compared()
        .map(|metric| {
            let gated = if metric.is_gated() { "yes" } else { "no" };
            let metrics::Metric {
                name,
                label,
                threshold,
                ..
            } = metric;
            format!("| `{name}` | {label} | {threshold} | {gated} |")
        })
        .collect();
    assert_eq!(documented, expected);
}
