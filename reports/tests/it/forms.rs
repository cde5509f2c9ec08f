//! Markdown, JSON and text through their public face.

use metrics::{Metric, catalogue};
use record::{GpuMonitor, SessionFolder};
use reports::{
    Report, Source, View, html, json, markdown,
    text::{self, Style},
};

use crate::support::{self, Fake};

fn small() -> Fake {
    let mut fake = Fake::gpu();
    fake.cells = vec![
        fake.cells[0].clone(),
        fake.cells[2].clone(),
        fake.cells[9].clone(),
    ];
    fake.failing = vec![(
        4,
        record::Reason::OutOfMemory,
        record::Stage::Workload(protocol::Phase::Warmup),
        "CUDA out of memory.\nTried to allocate 1.53 GiB.".into(),
    )];
    fake.blocks = 3;
    fake
}

fn with_view<T>(fakes: &[Fake], read: impl FnOnce(&View) -> T) -> T {
    let sources: Vec<Source> = fakes.iter().map(Fake::source).collect();
    read(&View::of(&sources))
}

#[test]
fn markdown_for_a_pull_request() {
    insta::assert_snapshot!(with_view(&[small()], markdown::render));
}

#[test]
fn markdown_of_two_images() {
    let fake = small().images(&["torch-2.10-cu128", "torch-2.11-cu130"]);
    insta::assert_snapshot!(with_view(&[fake], markdown::render));
}

#[test]
fn an_idle_scenario_is_told_by_what_it_takes() {
    let mut source = small().source();
    source.session.cells.clear();
    for record in &mut source.records.records {
        record.workload = record::Workload::default();
        (record.scenario, record.axes) = ("idle".into(), protocol::Axes::usual().clone());
        record.outcome = record::Outcome::Ok;
        let mib = 1_048_576.0;
        record.values = [
            ("measured_seconds", 20.0),
            ("cpu_seconds", 0.1),
            ("run_host_peak_resident_bytes", 700.0 * mib),
            ("context_bytes", 500.0 * mib),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        record.series.clear();
    }
    let sources = [source];
    let view = View::of(&sources);
    let text = markdown::render(&view);
    assert!(
        text.contains("| 700.0 MiB | 500.0 MiB | 0.50 % |"),
        "{text}"
    );
    assert!(!text.contains("samples/s"), "{text}");
    let cell = &view.report.cells[0];
    assert_eq!(cell.metrics.get(&catalogue::STEP_MEDIAN), None);
    assert_eq!(cell.metrics.get(&catalogue::THROUGHPUT), None);
    reports::html::render(&view).expect("the page is drawn");
}

#[test]
fn text_for_a_terminal_and_for_a_log() {
    let table = |style| with_view(&[small()], |view| text::table(view, style));
    insta::assert_snapshot!("text_plain", table(Style::Plain));
    assert!(!table(Style::Plain).contains('\u{1b}'));
    assert!(table(Style::Terminal(240)).contains('─'));
    for width in [80, 100] {
        let shown = table(Style::Terminal(width));
        // Colours take no room; messages of failed runs stay in one line.
        let mut parts = shown.split('\u{1b}');
        let mut text = parts.next().unwrap_or_default().to_owned();
        text.extend(parts.filter_map(|part| Some(part.split_once('m')?.1)));
        let rows = text.lines().take_while(|line| !line.starts_with("failed"));
        let wide = rows.filter(|line| line.chars().count() > width);
        assert_eq!(wide.count(), 0, "{text}");
    }
}

#[test]
fn json_for_programs() {
    let text = with_view(&[small()], |view| json::render(&view.report)).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(json::render(&report).unwrap(), text);
    let first = serde_json::to_value(&report.cells[1]).unwrap();
    insta::assert_json_snapshot!(first);
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/report.schema.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let schema = json::schema().unwrap();
    if committed != schema && std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(path, &schema).unwrap();
    } else {
        assert_eq!(
            committed, schema,
            "run with UPDATE_SCHEMAS=1 and look at what changed"
        );
    }
}

#[test]
fn every_compared_quantity_is_a_metric_of_a_cell() {
    let cell = with_view(&[Fake::gpu()], |view| {
        serde_json::to_value(&view.report.cells[0]).unwrap()
    });
    // No training of images yields what programs alone have, or models of text, servers, allocations,
    // data loaders, offloading or several ranks, and so few steps no growth.
    let of_others = [
        "allocated_growth_bytes",
        "program_seconds",
        "throughput_steps_per_second",
        "time_to_first_step_seconds",
        "throughput_tokens_per_second",
        "prefill_tokens_per_second",
        "decode_tokens_per_second",
        "time_to_first_token_seconds",
        "kv_cache_token_bytes",
        "latency_p50_seconds",
        "latency_p90_seconds",
        "latency_p99_seconds",
        "latency_p999_seconds",
        "highest_rate_requests_per_second",
        "goodput_requests_per_second",
        "achieved_requests_per_second",
        "survived_allocations_count",
        "thousand_allocations_seconds",
        "scaling_efficiency_ratio",
        "first_token_p50_seconds",
        "first_token_p99_seconds",
        "token_p50_seconds",
        "token_p99_seconds",
        "answer_tokens_per_second",
        "bus_bandwidth_bytes_per_second",
        "iteration_p50_seconds",
        "iteration_p99_seconds",
        "exposed_exchange_ratio",
        "pipeline_idle_ratio",
        "data_wait_ratio",
        "loader_samples_per_second",
        "host_to_device_bytes_per_second",
        "pinned_host_bytes",
    ];
    for metric in Metric::compared().filter(|metric| !of_others.contains(&metric.name)) {
        assert!(
            cell["metrics"][metric.name]["median"].is_number(),
            "{}",
            metric.name
        );
    }
}

#[test]
fn failed_runs_are_left_out_of_the_metrics() {
    with_view(&[small()], |view| {
        let cell = &view.report.cells[1];
        assert_eq!(
            (cell.planned, cell.runs, cell.ok, cell.failed),
            (3, 3, 2, 1)
        );
        assert_eq!(cell.metrics.get(&catalogue::THROUGHPUT).unwrap().n, 2);
        assert_eq!(view.report.failures.len(), 1);
    });
}

#[test]
fn hostile_names_mean_themselves() {
    with_view(&[support::hostile()], |view| {
        let text = markdown::render(view);
        assert!(
            !text.contains("<script") && !text.contains("<img"),
            "{text}"
        );
        assert!(!text.contains(" @user") && !text.contains('\u{1b}'));
        // A line break or a bar in a name must not end a row.
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let lines: Vec<&str> = text.lines().collect();
        let tables = lines.split(|line| !line.starts_with('|'));
        for table in tables.filter(|table| !table.is_empty()) {
            for line in table {
                assert_eq!(columns(line), columns(table[0]), "{line}");
            }
        }
        let terminal = text::table(view, Style::Plain);
        assert!(!terminal.contains('\u{1b}') && !terminal.contains('\u{202e}'));
    });
}

#[test]
fn a_session_without_runs_has_a_report_too() {
    with_view(&[support::empty()], |view| {
        assert!(markdown::render(view).contains("No cell was planned"));
        assert_eq!(text::table(view, Style::Plain), "No cells.\n");
    });
    with_view(&[support::no_success()], |view| {
        assert!(markdown::render(view).contains("All 6 runs failed"));
        insta::assert_snapshot!(text::table(view, Style::Plain), @r"
         scenario  variant                 runs ok
         resnet50  fp32                        0/2
                   tf32                        0/2
                   amp-fp16 channels-last      0/2

        failed: r-0000 · torch-2.11-cu130 · resnet50 · fp32 bs64: device-unavailable at start: no CUDA device; `doctor` lists what is missing (log: logs/r-0000.log)
        failed: r-0001 · torch-2.11-cu130 · resnet50 · tf32 bs64: device-unavailable at start: no CUDA device; `doctor` lists what is missing (log: logs/r-0001.log)
        failed: r-0002 · torch-2.11-cu130 · resnet50 · amp-fp16 bs64 channels-last: device-unavailable at start: no CUDA device; `doctor` lists what is missing (log: logs/r-0002.log)
        failed: r-0003 · torch-2.11-cu130 · resnet50 · fp32 bs64: device-unavailable at start: no CUDA device; `doctor` lists what is missing (log: logs/r-0003.log)
        failed: r-0004 · torch-2.11-cu130 · resnet50 · tf32 bs64: device-unavailable at start: no CUDA device; `doctor` lists what is missing (log: logs/r-0004.log)
        failed: r-0005 · torch-2.11-cu130 · resnet50 · amp-fp16 bs64 channels-last: device-unavailable at start: no CUDA device; `doctor` lists what is missing (log: logs/r-0005.log)
        ");
    });
}

#[test]
fn warnings_name_what_makes_metrics_doubtful() {
    let mut source = small().source();
    source.session.complete = false;
    source.records.torn_after = Some(17);
    let record = &mut source.records.records[0];
    record.monitor.gpus = vec![GpuMonitor {
        throttle_reasons: vec!["gpu-idle".into(), "sw-power-cap".into()],
        other_processes: vec![4711],
        ..GpuMonitor::default()
    }];
    let used = record::Series::of(&[record::Sample(0.0, 9.5)]).unwrap();
    let series = &mut record.monitor.series;
    series.insert(record::Sampled::OtherCores, used);
    record.isolation = record::Isolation::without("process", &["memory limit"]);
    record.warnings = vec!["the engine refused memlock −1".into()];
    record.notes = vec!["the program was ended by SIGTERM".into()];
    record.started.as_mut().unwrap().libtorch_version = "2.10.0".into();
    let sources = [source];
    let view = View::of(&sources);
    let notes = &view.report.notes;
    assert_eq!(notes[..], ["the program was ended by SIGTERM (1 run)"]);
    let page = html::render(&view).unwrap();
    let (_, list) = page.split_once("<summary>1 note</summary>").unwrap();
    let expect = "<ul class=\"list\"><li>the program was ended by SIGTERM (1 run)";
    assert!(list.trim_start().starts_with(expect), "{list}");
    insta::assert_snapshot!(view.report.warnings.join("\n"));
}

#[test]
fn sessions_of_different_machines_are_told_apart() {
    let mut second = small().seeded(4).named("later").source();
    let machine = second.session.machine().clone();
    second.session.hosts = [("gpu-ci-2".into(), machine)].into();
    let sources = [small().source(), second];
    let view = View::of(&sources);
    let labels: Vec<_> = view
        .contenders
        .iter()
        .map(|contender| contender.label.as_str())
        .collect();
    assert_eq!(labels, ["2026-11-12T10-20-30-abcd", "later"]);
    assert_eq!(view.contender_head(), "session");
    assert_eq!(view.groups[0].rows[0].cells, [0, 3]);
    let warnings = view.report.warnings.join("\n");
    insta::assert_snapshot!(warnings, @r"
    The sessions ran on different machines, GPUs or drivers: differences between them are not differences between images.
    2 cells have fewer than 3 successful runs, too few to estimate the spread: resnet50 amp-fp16 channels-last in 2026-11-12T10-20-30-abcd; resnet50 amp-fp16 channels-last in later.
    ");
}

#[test]
fn reports_are_written_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path().join("session"));
    folder.create().unwrap();
    let out = home.path().join("out");
    assert!(reports::write(&[], &out).is_err());
    assert!(reports::write(std::slice::from_ref(&folder), &out).is_err());
    assert!(!out.exists());
    let source = small().source();
    folder.write_session(&source.session).unwrap();
    for record in &source.records.records {
        folder.append(record).unwrap();
    }
    let written = reports::write(&[folder], &out).unwrap();
    for path in &written {
        assert!(path.metadata().unwrap().len() > 1000);
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3);
}
