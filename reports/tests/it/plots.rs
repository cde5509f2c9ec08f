//! What single pictures show, read back from the page.

use reports::{Source, View, html, markdown};
use roxmltree::Document;

use crate::support::{self, Fake};

/// The inside of a page's section; `None` where it has none of this name.
fn section(sources: &[Source], id: &str) -> Option<String> {
    let page = html::render(&View::of(sources)).unwrap();
    let start = page.find(&format!("<section id=\"{id}\""))?;
    let length = page[start..].find("</section>").unwrap();
    Some(page[start..start + length].to_owned())
}

fn three_versions() -> Source {
    let names = [
        "torch-2.11.0-cu130",
        "torch-2.6.0-cu124",
        "torch-2.9.1-cu128",
    ];
    let mut source = Fake::gpu().images(&names).source();
    for image in &mut source.session.images {
        let version = image.name.split('-').nth(1).unwrap();
        image.libtorch_version = version.to_owned();
    }
    source
}

#[test]
fn modules_are_an_icicle_with_an_indented_table() {
    assert!(section(&[Fake::gpu().source()], "modules").is_none());
    let found = section(&[support::swept()], "modules").unwrap();
    for text in [
        "<title>encoder.layer: 192.0 MiB</title>",
        "the largest step",
        "\u{a0}\u{a0}\u{a0}\u{a0}\u{a0}\u{a0}0<",
        "forward rises by",
    ] {
        assert!(found.contains(text), "{text} in {found}");
    }
    assert!(!found.contains("norm"), "too small to be shown");
}

#[test]
fn attributed_cells_are_indented_tables_in_a_terminal() {
    let style = reports::text::Style::Terminal(200);
    let of = |source| reports::attribution(&View::of(&[source]), style);
    assert_eq!(of(Fake::gpu().source()), "");
    let found = of(support::swept());
    let row = |start: &str| {
        let row = found
            .lines()
            .find(|line| line.trim_start().starts_with(start));
        row.unwrap_or_else(|| panic!("{start} in {found}"))
    };
    assert_eq!(
        found.matches("forward keeps").count(),
        4,
        "a table a cell: {found}"
    );
    assert!(found.starts_with("sweep "), "{found}");
    let depth = |start| row(start).find(start).unwrap();
    assert_eq!(depth("encoder.layer"), depth("step") + 2);
    assert_eq!(depth("0 "), depth("step") + 4);
    assert!(row("encoder.layer").contains("144.0 MiB"), "{found}");
}

#[test]
fn each_version_is_held_against_the_one_before_it() {
    let sources = [three_versions()];
    let view = View::of(&sources);
    // The images ran in another order, and each later one takes a little less.
    let headline = &view.report.headline;
    let has = |told: &[String], start: &str, end: &str| {
        let mut told = told.iter();
        told.any(|one| one.starts_with(start) && one.ends_with(end))
    };
    let all = "ed in 12 of 12 cells";
    let (worst, best) = (&headline.worst, &headline.best);
    assert!(
        has(worst, "peak allocated, 2.9.1 → 2.11.0, of ", all),
        "{worst:?}"
    );
    assert!(
        has(worst, "throughput, 2.9.1 → 2.11.0, of ", all),
        "{worst:?}"
    );
    assert!(
        has(best, "peak allocated, 2.6.0 → 2.9.1, of ", all),
        "{best:?}"
    );
    // The gate is about what the changes are about.
    let gate = headline.gate.as_ref().unwrap();
    let next = "gated metrics regressed from one version to the next";
    assert!(!gate.passed && gate.why.ends_with(next), "{}", gate.why);
    let page = html::render(&view).unwrap();
    let (first, _) = page.split_once("<nav").unwrap();
    let (_, table) = first.split_once("<table class=\"cells\"").unwrap();
    let rows = ["2.6.0", "2.9.1", "2.11.0", "2.6.0 → 2.11.0"];
    let rows = rows.map(|row| table.find(&format!("class=\"name\">{row}<")).unwrap());
    assert!(rows.is_sorted(), "{rows:?}");
    let (_, rows) = table.split_once("class=\"name\">2.9.1<").unwrap();
    let (second, _) = rows.split_once("</tr>").unwrap();
    // A change has its size; what cannot be decided has its interval, and what is unchanged nothing.
    for wanted in [
        "class=\"good\">✓ 5.470 GiB</span><br/><span class=\"muted note\">-1.17 %<",
        "class=\"unknown\">? 961.6 samples/s</span><br/><span class=\"muted note\">+0.13 … +1.46 %<",
        "class=\"same\">= 6.072 GiB</span></td>",
    ] {
        assert!(second.contains(wanted), "{wanted} in {second}");
    }
    // As Markdown, too, in one table.
    let text = markdown::render(&view);
    assert!(
        text.contains("| cell | version | throughput | peak allocated |"),
        "{text}"
    );
}

#[test]
fn versions_take_three_images_of_one_track() {
    let has_matrix = |fake: Fake| {
        let page = html::render(&View::of(&[fake.source()])).unwrap();
        page.contains("Each version against the one above it")
    };
    let of = |images: &[&str]| has_matrix(Fake::gpu().images(images));
    assert!(!of(&["torch-2.10-cu128", "torch-2.11-cu130"]));
    assert!(!of(&["torch-2.11-cu130", "torch-2.11-cpu", "jax-0.9"]));
    assert!(has_matrix(support::five_images()));
}

#[test]
fn variants_that_nearly_agree_are_told_apart_by_their_ratio() {
    let mut fake = Fake::gpu();
    fake.cells.truncate(8);
    fake.failing.clear();
    let section = section(&[fake.source()], "throughput").unwrap();
    // tf32 bs64 with another allocator, 1 % slower: a hundredth of the width of a bar.
    assert_eq!(section.matches("threshold 0.50 %").count(), 7, "{section}");
    assert!(section.contains("✓ faster"));
}

#[test]
fn lines_of_one_panel_differ_in_grey() {
    let sources = [Fake::gpu().source()];
    let section = section(&sources, "cells").unwrap();
    let start = section.find("<svg").unwrap();
    let length = section[start..].find("</svg>").unwrap() + "</svg>".len();
    let drawing = Document::parse(&section[start..start + length]).unwrap();
    let dashes = |line: roxmltree::Node| {
        let mut around = line.ancestors();
        around.find_map(|node| node.attribute("stroke-dasharray").map(str::to_owned))
    };
    let mut shared = 0;
    for panel in drawing
        .descendants()
        .filter(|one| one.has_attribute("data-panel"))
    {
        let series = panel
            .descendants()
            .filter(|one| one.has_attribute("data-series"));
        let lines =
            series.filter_map(|one| one.descendants().find(|one| one.has_attribute("points")));
        let all: Vec<Option<String>> = lines.map(dashes).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{panel:?}: {all:?}");
        shared += usize::from(all.len() > 1);
    }
    assert!(shared > 0, "no panel has several lines");
}

#[test]
fn the_peaks_on_a_timeline_are_those_of_their_windows() {
    let gib = |gib: f64| gib * 1_073_741_824.0;
    let mut source = Fake::gpu().source();
    let record = &mut source.records.records[0];
    let peaks = [
        ("process_peak_bytes", 50.0),
        ("run_process_peak_bytes", 60.0),
    ];
    for (name, peak) in peaks {
        record.values.insert(name.into(), gib(peak));
    }
    // Calibration took more, which counts for neither.
    let process = record::Sampled::GpuProcessBytes;
    let series = record.monitor.gpus[0].series.get_mut(&process).unwrap();
    series.maximum = gib(90.0);
    let section = section(&[source], "cells").unwrap();
    for words in [
        ">measured 50.00 GiB, whole run 60.00 GiB</text>",
        ">process: at most 60.00 GiB without calibration. ",
    ] {
        assert!(section.contains(words), "{words} in {section}");
    }
    assert!(!section.contains("90.00 GiB"), "{section}");
}

#[test]
fn what_is_held_stands_against_what_tensors_take_where_either_changes() {
    let gib = 1_073_741_824.0;
    let mut source = Fake::gpu().source();
    assert!(section(&[Fake::gpu().source()], "held").is_none());
    let records = &mut source.records.records;
    let mut give = |record: usize, name: &str, values: [Option<f64>; 3]| {
        let values = values.map(|value| value.map(|value| value * gib));
        records[record].series.insert(name.into(), values.into());
    };
    // A cell that grows, and one that does not.
    give(0, "step_allocated_bytes", [Some(1.0), Some(2.0), Some(1.0)]);
    give(0, "step_reserved_bytes", [Some(2.0), Some(3.0), Some(5.0)]);
    give(1, "step_allocated_bytes", [Some(7.0); 3]);
    let by_step = section(&[source.clone()], "held").unwrap();
    for words in [
        "reserved 2.000 GiB at first and 5.000 GiB at last, tensors at most 2.000 GiB",
        ">4.000 GiB<",
        "data-series=\"reserved by the allocator\"",
        ">step</text>",
    ] {
        assert!(by_step.contains(words), "{words} in {by_step}");
    }
    assert!(!by_step.contains("7.000 GiB"), "{by_step}");
    assert!(!by_step.contains("data-series=\"requests that wait\""));

    // Served, the first batch last; the second request was rejected.
    let records = &mut source.records.records;
    let series = &mut records[0].series;
    for (name, values) in [
        ("done_seconds", [Some(0.5), None, Some(0.25)]),
        ("waiting_requests", [Some(3.0), None, Some(6.0)]),
    ] {
        series.insert(name.into(), values.into());
    }
    series.insert(
        "step_reserved_bytes".into(),
        [Some(2.0 * gib), None, Some(5.0 * gib)].into(),
    );
    let by_time = section(&[source], "held").unwrap();
    for words in [
        "reserved 5.000 GiB at first and 2.000 GiB at last",
        "data-series=\"requests that wait\"",
        ">6<",
    ] {
        assert!(by_time.contains(words), "{words} in {by_time}");
    }
}

#[test]
fn a_limit_of_the_allocator_stands_above_what_is_outside_of_it() {
    let mut source = Fake::gpu().source();
    for record in &mut source.records.records {
        for limit in ["limits.gpu_memory", "limits.allocator_memory"] {
            record.method.set(limit, "8.0 GiB");
        }
        let gib = 1_073_741_824.0;
        for (name, value) in [
            ("run_process_peak_bytes", 7.0 * gib),
            ("outside_bytes", gib),
        ] {
            record.values.insert(name.into(), value);
        }
    }
    let section = section(&[source], "cells").unwrap();
    let height = |title: &str| -> f64 {
        let (_, line) = section
            .split_once(&format!("<title>{title}</title>"))
            .unwrap();
        let (_, points) = line.split_once("points=\"").unwrap();
        let (first, _) = points.split_once(' ').unwrap();
        first.split_once(',').unwrap().1.parse().unwrap()
    };
    let (whole, allocator) = (
        height("Limit of the GPU's memory: 8.000 GiB"),
        height("Limit of the allocator: 8.000 GiB, and what is outside the allocator"),
    );
    assert!(allocator < whole, "{allocator} {whole}");
}

/// Sessions in which the rate of requests, the batch, and the processes are varied.
#[test]
fn a_swept_quantity_has_its_limit_and_its_ideal() {
    let cell = |scenario: &str, json: &str| support::FakeCell {
        task: protocol::Task::Serving,
        ..support::cell(scenario, protocol::Model::BertBase, json, 100.0, 100.0)
    };
    let mut fake = Fake::gpu();
    fake.failing.clear();
    fake.cells = [100, 200, 400]
        .map(|rate| {
            let json = format!(r#"{{"batch":16,"arrival_rate":{rate},"slo_ms":50}}"#);
            cell("serve", &json)
        })
        .into();
    let mut serving = fake.source();
    for record in &mut serving.records.records {
        let p99 = match record.axes["arrival_rate"].as_str() {
            "100" => 0.004,
            "200" => 0.005,
            _ => 0.9,
        };
        let name = "latency_p99_seconds".to_owned();
        record.values.insert(name, p99);
    }
    let has = |source: Source, wanted: &[&str]| {
        let section = section(&[source], "sweep").unwrap();
        for words in wanted {
            assert!(section.contains(words), "{words} in {section}");
        }
        assert_eq!(section.matches("<figure").count(), 1, "{section}");
    };
    let objective = "―</span> objective, 50 ms";
    let axis = ">p99 latency, logarithmic (s)</text>";
    has(
        serving,
        &["against arrivals a second", objective, axis, "900 ms"],
    );
    fake.cells = [1, 8, 64]
        .map(|batch| cell("fit", &format!(r#"{{"batch":{batch}}}"#)))
        .into();
    let mut batches = fake.source();
    for record in &mut batches.records.records {
        record.method.set("limits.gpu_memory", "8.0 GiB");
        let batch: f64 = record.axes["batch"].parse().unwrap();
        let peak = (1.0 + batch / 10.0) * 1_073_741_824.0;
        record.values.insert("run_process_peak_bytes".into(), peak);
    }
    has(
        batches,
        &[
            "limit, 8.000 GiB",
            ">Batch, logarithmic</text>",
            "7.400 GiB",
        ],
    );
    fake.cells = ["one", "two", "four"]
        .map(|name| cell(name, r#"{"batch":16}"#))
        .into();
    let mut scaling = fake.source();
    for record in &mut scaling.records.records {
        let (ranks, throughput) = match record.scenario.as_str() {
            "one" => (1, 100.0),
            "two" => (2, 194.0),
            _ => (4, 380.0),
        };
        let rank = |rank| record::Rank {
            rank,
            place: record::Place {
                host: String::new(),
                device: protocol::Device::Cuda(rank),
            },
            started: None,
            values: protocol::Values::default(),
        };
        record.ranks = (0..ranks).map(rank).collect();
        let name = "throughput_samples_per_second".to_owned();
        record.values.insert(name, throughput);
    }
    has(scaling, &["╌</span> linear", "97.0 %", "95.0 %"]);
    assert_eq!(section(&[Fake::gpu().source()], "sweep"), None);
}

#[test]
fn bandwidth_against_the_size_of_a_message_is_a_curve_for_each_image() {
    let mut fake = Fake::gpu().images(&["torch-2.10", "torch-2.11"]);
    fake.failing.clear();
    fake.cells = [8, 1_048_576, 1_073_741_824]
        .map(|bytes| support::FakeCell {
            task: protocol::Task::Collectives,
            ..support::cell(
                "all-reduce",
                protocol::Model::None,
                &format!(r#"{{"message":{bytes},"collective":"all-reduce"}}"#),
                100.0,
                100.0,
            )
        })
        .into();
    let mut source = fake.source();
    for record in &mut source.records.records {
        let bytes: f64 = record.axes["message"].parse().unwrap();
        let slower = if record.image == "torch-2.10" {
            0.9
        } else {
            1.0
        };
        let name = "bus_bandwidth_bytes_per_second".to_owned();
        record
            .values
            .insert(name, slower * 300e9 * bytes / (bytes + 1e7));
    }
    // A curve that is asked for first is the first picture.
    source.session.questions.insert(
        "sample".into(),
        record::SuiteQuestion {
            question: "What do the ways between GPUs carry?".into(),
            answered_by: vec!["bus_bandwidth_bytes_per_second".into()],
            yes_when: None,
        },
    );
    assert_eq!(section(std::slice::from_ref(&source), "sweep"), None);
    let section = section(&[source], "verdict").unwrap();
    for words in [
        "Bus bandwidth against message",
        ">Message, logarithmic</text>",
        ">1 MiB</text>",
        ">Bus bandwidth, logarithmic",
        "1.000 GiB",
        "267.5 GB/s",
    ] {
        assert!(section.contains(words), "{words} in {section}");
    }
    assert_eq!(
        section.matches("<polyline class=\"s-series-").count(),
        2,
        "{section}"
    );
}
