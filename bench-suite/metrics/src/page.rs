//! `docs/metrics.md`.

use std::fmt::Write as _;

use crate::{Direction, Metric, Role, Source, Window, catalogue};

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

The *noise threshold* is the largest relative change that counts as none; a suite may set its own \
([suites](../scenarios/suites.md#thresholds)). A regression of a *gated* metric fails `compare`; one \
that *explains* is compared beside it; the others are followed by the history and may be claimed, \
or only describe a run.
";

/// The page, as Markdown.
#[must_use]
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
    let _ = write!(page, "| `{}`", metric.name);
    for former in metric.formerly {
        let _ = write!(page, "<br>formerly `{former}`");
    }
    let _ = writeln!(
        page,
        " | *{}.* {} | {} | {} | {better} | {threshold} |",
        metric.label,
        metric.about,
        window(metric.window),
        source(metric.source),
    );
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

fn window(window: Window) -> String {
    match window {
        Window::MeasuredSteps => "measured steps".to_owned(),
        Window::Run => "start of the run to the end of the measured steps".to_owned(),
        Window::WholeRun => "whole run".to_owned(),
        Window::Moment(words) => words.to_owned(),
        Window::Phase(phase) => format!("phase: {phase}"),
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Allocator => "allocator",
        Source::Nvml => "NVML",
        Source::NvmlAndWorkload => "NVML, workload",
        Source::Cgroup => "cgroup",
        Source::Clock => "CUDA events; the clock on a CPU",
        Source::HarnessClock => "the harness's clock",
        Source::Kernel => "kernel",
        Source::Counter => "workload",
    }
}
