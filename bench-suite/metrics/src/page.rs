//! `docs/metrics.md`.

use std::fmt::Write as _;

use crate::{Direction, Metric, Role, catalogue};

const HEAD: &str = "\
# Metrics

Every metric that Torchgauge records, generated from the catalogue in `bench-suite/metrics`: change \
a row there and run `UPDATE_DOCS=1 cargo test -p metrics`.

A metric has one window of time. Peaks of the measured steps stand beside each other: allocated ≤ \
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

pub fn page() -> String {
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
