//! Programs, their parameters, runs of several processes, and metrics that a suite declares.

use protocol::{Axes, Device};
use record::{Better, DeclaredMetric, Rank, Record, SessionFolder, Unit, Workload};
use reports::{Source, View, html, json, markdown};

use crate::support::{Fake, one_cell};

/// A source after its session and its runs went through files.
fn kept(source: &Source) -> Source {
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path().join("session"));
    folder.create().unwrap();
    folder.write_session(&source.session).unwrap();
    for record in &source.records.records {
        folder.append(record).unwrap();
    }
    let read = Source::read(&folder).unwrap();
    assert!(
        read.records.bad_lines.is_empty(),
        "{:?}",
        read.records.bad_lines
    );
    assert_eq!(read, *source);
    read
}

/// One program in several variants, run as [`Fake`]'s first cells are.
fn program(command: &[&str], variants: &[Axes]) -> Source {
    let mut fake = Fake::cpu();
    fake.cells.truncate(variants.len());
    for cell in &mut fake.cells {
        cell.scenario = "mine".into();
    }
    let old: Vec<Axes> = fake.cells.iter().map(|cell| cell.variant.axes()).collect();
    let mut source = fake.source();
    let workload = Workload::Program {
        command: command.iter().map(|&word| word.to_owned()).collect(),
    };
    let new = |axes: &Axes| variants[old.iter().position(|old| old == axes).unwrap()].clone();
    for cell in &mut source.session.cells {
        cell.axes = new(&cell.axes);
        cell.workload = workload.clone();
    }
    for record in &mut source.records.records {
        record.axes = new(&record.axes);
        record.workload = workload.clone();
    }
    source
}

fn text_of(page: &str) -> String {
    page.replace("<wbr>", "")
}

#[test]
fn a_program_is_shown_by_its_command_and_its_parameters() {
    let variants = ["0.1", "0.01"].map(|lr| Axes::from_iter([("lr", lr)]));
    let source = kept(&program(&["python3", "my train.py"], &variants));
    let sources = [source];
    let view = View::of(&sources);
    let page = text_of(&html::render(&view).unwrap());
    for expected in ["python3 &#39;my train.py&#39;", "lr=0.1", "lr=0.01"] {
        assert!(page.contains(expected), "{expected}");
    }
    let text = markdown::render(&view);
    for expected in ["lr=0.1", "lr=0.01"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&json::render(&view.report).unwrap()).unwrap();
    let cell = &json["cells"][1];
    assert_eq!(cell["cell"], "mine · lr=0.01");
    assert_eq!(cell["axes"], serde_json::json!({"lr": "0.01"}));
    assert_eq!(
        cell["workload"],
        serde_json::json!({"kind": "program", "command": ["python3", "my train.py"]})
    );
    insta::assert_snapshot!(view.commands[1], @"cargo xtask bench --suite sample --cell 'mine · lr=0.01' --image local --device cpu --engine docker --blocks 3");
}

#[test]
fn a_program_that_replays_cuda_graphs_says_what_its_peak_leaves_out() {
    let variants = ["none", "reduce-overhead"].map(|how| Axes::from_iter([("compile", how)]));
    let mut source = program(&["train.py"], &variants);
    let gib = f64::from(1 << 30);
    for record in &mut source.records.records {
        let is_replayed = record.axes.get("compile").unwrap() != "none";
        let allocated = if is_replayed { 0.25 } else { 3.0 };
        for (name, size) in [
            ("peak_allocated_bytes", allocated),
            ("run_peak_allocated_bytes", 3.0),
            ("peak_reserved_bytes", 3.25),
        ] {
            record.values.insert(name.to_owned(), size * gib);
        }
    }
    let warnings = View::of(&[source]).report.warnings.join("\n");
    insta::assert_snapshot!(warnings, @r"
    Throughput varies by more than 3.0 % from run to run in 1 cell: mine compile=none.
    Peak allocated is less than half of what warm-up took, with as much reserved: memory into which CUDA graphs are replayed is reserved and not counted as allocated. Read peak reserved in 1 cell: mine compile=reduce-overhead.
    Too short for their noise: mine compile=none: measured window 196 ms, CV 1 %: 28 measured steps would do; mine compile=reduce-overhead: measured window 244 ms, CV 1 %: 28 measured steps would do.
    ");
}

#[test]
fn hostile_commands_and_values_do_nothing() {
    let evil = "<img src=x onerror=alert(1)>\"'&|`t` @user #1 \u{202e}";
    let variants = ["a", "b"].map(|end| {
        let value = format!("{evil}{end}");
        Axes::from_iter([("lr", value.clone()), ("allocator", value)])
    });
    let source = kept(&program(&["sh", evil, "\u{1b}[31m\n::error::x"], &variants));
    let sources = [source];
    let view = View::of(&sources);
    let page = text_of(&html::render(&view).unwrap());
    assert!(!page.contains("<img src=x"));
    assert!(page.contains("&#60;img src=x onerror"));
    for form in [page, markdown::render(&view)] {
        for acting in ['\u{202e}', '\u{1b}'] {
            let at = form.find(acting).map(|at| {
                let before = form[..at].chars().rev().take(200);
                before
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect::<String>()
            });
            assert_eq!(at, None, "{acting:?}");
        }
        assert!(!form.contains("\n::error"));
    }
    let text = markdown::render(&view);
    assert!(!text.contains("<img") && !text.contains(" @user"), "{text}");
}

#[test]
fn axes_that_no_cell_is_named_by_are_left_out() {
    let mut source = one_cell().source();
    let record = &mut source.records.records[0];
    record.axes.set("lr", "0.1\u{1b}[31m");
    let home = tempfile::tempdir().unwrap();
    let folder = SessionFolder::at(home.path().join("session"));
    folder.create().unwrap();
    folder.write_session(&source.session).unwrap();
    folder.append(record).unwrap();
    let read = Source::read(&folder).unwrap();
    assert!(read.records.records.is_empty());
    assert_eq!(read.records.bad_lines.len(), 1);
}

/// Two images; the second one makes a third fewer requests a second.
fn declaring(gate: bool) -> Source {
    let mut fake = Fake::gpu().images(&["old", "new"]);
    fake.cells.truncate(1);
    fake.failing.clear();
    let mut source = fake.source();
    source.session.metrics = vec![DeclaredMetric {
        name: if gate { "answers_gated" } else { "answers" }.into(),
        label: Some("answers <b>served</b>".into()),
        unit: Unit::RequestsPerSecond,
        better: Better::More,
        threshold: 0.05,
        gate,
    }];
    let name = source.session.metrics[0].name.clone();
    for (place, record) in source.records.records.iter_mut().enumerate() {
        let rate = if record.image == "old" { 300.0 } else { 200.0 };
        let scatter = 1.0 + 0.0001 * place as f64;
        record.values.insert(name.clone(), rate * scatter);
    }
    kept(&source)
}

#[test]
fn a_metric_that_a_suite_declares_is_compared_and_shown() {
    for gate in [true, false] {
        let sources = [declaring(gate)];
        let name = &sources[0].session.metrics[0].name;
        let view = View::of(&sources);
        let found = &view.report.sessions[0].comparisons[0].cells[0].metrics;
        let found = found.iter().find(|one| one.metric == *name).unwrap();
        assert_eq!(found.outcome(), "regressed");
        assert_eq!(found.gated, gate);
        let ratio = found.comparison.ratio.unwrap();
        assert!((ratio - 2.0 / 3.0).abs() < 0.001, "{ratio}");

        let page = text_of(&html::render(&view).unwrap());
        assert!(page.contains("answers &#60;b&#62;served&#60;/b&#62;"));
        assert!(!page.contains("<b>served"));
        assert!(page.contains("requests/s"));

        let text = json::render(&view.report).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let medians = [0, 1].map(|cell| {
            let median = &json["cells"][cell]["metrics"][name]["median"];
            format!("{:.0}", median.as_f64().unwrap())
        });
        assert_eq!(medians, ["300", "200"]);
        let again: reports::Report = serde_json::from_str(&text).unwrap();
        assert_eq!(again, view.report);
    }
}

/// One cell of so many ranks, each with its step in each of some runs.
fn of_ranks(steps: &[&[f64]]) -> Source {
    let mut fake = Fake::gpu();
    fake.cells.truncate(1);
    fake.failing.clear();
    let mut source = fake.source();
    source.records.records.truncate(steps.len());
    for (record, steps) in source.records.records.iter_mut().zip(steps) {
        let ranks = (0..).zip(*steps).map(|(rank, step)| Rank {
            rank,
            place: record::Place {
                host: "node-1".to_owned(),
                device: Device::Cuda(rank),
            },
            started: None,
            values: [
                ("step_median_seconds".to_owned(), *step),
                // Half of a step is the exchange, in which ranks wait for each other.
                ("exposed_exchange_ratio".to_owned(), 0.5),
            ]
            .into(),
        });
        record.ranks = ranks.collect();
    }
    source
}

#[test]
fn a_gpu_that_is_slower_than_the_others_in_every_run_is_named() {
    let answers = |source: Source| View::of(&[source]).report.headline.answers.join("\n");
    let slow: &[&[f64]] = &[
        &[0.1, 0.104, 0.1, 0.1],
        &[0.101, 0.106, 0.1, 0.1],
        &[0.1, 0.103, 0.1, 0.1],
    ];
    let told = answers(of_ranks(slow));
    let expected = "Slow GPU: cuda:1 takes longer than the other ranks for its own part of a step, in \
                    each of 3 runs of resnet50 fp32 bs64: +3.00 % to +6.00 % of their median.";
    assert_eq!(told, expected);
    // Not in every run, by less than counts as none, in fewer runs, or by design.
    let once: &[&[f64]] = &[&[0.1, 0.104], &[0.101, 0.101], &[0.1, 0.103]];
    let little: &[&[f64]] = &[&[0.1, 0.1004], &[0.1, 0.1004], &[0.1, 0.1004]];
    for steps in [once, little, &slow[..2]] {
        assert_eq!(answers(of_ranks(steps)), "", "{steps:?}");
    }
    let mut split = of_ranks(slow);
    for record in &mut split.records.records {
        let axes = record
            .axes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        record.axes = axes.chain([("parallel", "pipeline")]).collect();
    }
    for cell in &mut split.session.cells {
        let axes = cell
            .axes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        cell.axes = axes.chain([("parallel", "pipeline")]).collect();
    }
    assert_eq!(answers(split), "");
}

#[test]
fn the_ways_between_gpus_are_a_sentence_and_a_matrix() {
    let mut source = of_ranks(&[&[0.1, 0.1], &[0.1, 0.1], &[0.1, 0.1]]);
    let machine = source.session.hosts.values_mut().next().unwrap();
    let gpu = |index: u32| record::Gpu {
        index,
        numa_node: Some(index / 2),
        near_cpus: Some("0-15".to_owned()),
        links: (0..4)
            .filter(|to| *to != index)
            .map(|to| record::Link {
                to,
                nvlinks: if to / 2 == index / 2 { 4 } else { 0 },
                path: Some(record::PciPath::System),
                peer_access: Some(to / 2 == index / 2),
            })
            .collect(),
        ..machine.gpus[0].clone()
    };
    let gpus = (0..4).map(gpu).collect();
    machine.gpus = gpus;
    let sources = [kept(&source)];
    let page = html::render(&View::of(&sources)).unwrap();
    let (first, rest) = page.split_once("<nav").unwrap();
    let told = "Between the GPUs: NV4 (4 NVLinks) 0–1, 2–3; SYS (from one NUMA node to another) 0–2, \
                0–3, 1–2, 1–3.";
    assert!(first.contains(told), "{first}");
    let (_, matrix) = rest
        .split_once("How the GPUs reach each other. NV4: 4 NVLinks; SYS")
        .unwrap();
    let (matrix, _) = matrix.split_once("</table>").unwrap();
    for words in [
        ">GPU 0</th>",
        ">NV4</td>",
        "no peer access",
        ">NUMA node</th>",
        ">0-15</td>",
    ] {
        assert!(matrix.contains(words), "{words} in {matrix}");
    }
    assert_eq!(matrix.matches(">NV4</td>").count(), 4, "{matrix}");
    // Of a session of one GPU nobody asks for it before anything else.
    for record in &mut source.records.records {
        record.ranks.clear();
    }
    let page = html::render(&View::of(&[source])).unwrap();
    let (first, rest) = page.split_once("<nav").unwrap();
    assert!(!first.contains("Between the GPUs") && rest.contains(">NV4</td>"));
}

#[test]
fn a_run_of_two_processes_is_shown_by_what_they_come_to() {
    let mut fake = Fake::gpu();
    fake.cells.truncate(1);
    fake.failing.clear();
    let mut source = fake.source();
    let whole = |record: &Record| record.values["throughput_samples_per_second"];
    for record in &mut source.records.records {
        let half = whole(record) / 2.0;
        record.ranks = [0, 1]
            .map(|rank| Rank {
                rank,
                place: record::Place {
                    host: String::new(),
                    device: Device::Cuda(rank),
                },
                started: record.started.clone(),
                values: [("throughput_samples_per_second".to_owned(), half)].into(),
            })
            .to_vec();
    }
    let sources = [kept(&source)];
    let view = View::of(&sources);
    let mut rates: Vec<f64> = sources[0].records.records.iter().map(whole).collect();
    rates.sort_by(f64::total_cmp);
    let metrics = &serde_json::to_value(&view.report.cells[0]).unwrap()["metrics"];
    let median = &metrics["throughput_samples_per_second"]["median"];
    assert_eq!(median.as_f64(), Some(rates[2]));
    let page = html::render(&view).unwrap();
    let shown = reports::format::significant(rates[2], 4);
    assert!(page.contains(&shown), "{shown}");
}
