//! What a report says to the question of its suite.

use protocol::Axes;
use record::{CellChoice, Claim, Expectation, Range, YesWhen};
use reports::{Source, View, html};

use crate::support::Fake;

fn answers(source: Source) -> Vec<String> {
    let sources = [source];
    View::of(&sources).report.headline.answers
}

fn small() -> Fake {
    let mut fake = Fake::gpu();
    fake.cells.truncate(2);
    fake.failing.clear();
    fake
}

#[test]
fn a_limit_of_the_gpu_is_told_and_drawn() {
    // As sessions write it.
    let limited = |limit: &str| {
        let mut source = small().source();
        for record in &mut source.records.records {
            record.method.set("limits.gpu_memory", limit);
            let peak = 7.0 * 1_073_741_824.0;
            (record.values).insert("run_process_peak_bytes".into(), peak);
        }
        source
    };
    let fits = answers(limited("8.0 GiB"));
    // Both cells take the same: one sentence.
    assert_eq!(fits.len(), 1, "{fits:?}");
    insta::assert_snapshot!(fits[0], @"7.000 of 8.000 GiB of the GPU, 1.000 GiB to spare (resnet50 fp32; resnet50 tf32).");
    let sources = [limited("8.0 GiB")];
    let page = html::render(&View::of(&sources)).unwrap();
    let (_, memory) = page.split_once("<section id=\"memory\"").unwrap();
    let (memory, _) = memory.split_once("</section>").unwrap();
    assert!(
        memory.contains("memory: 8.000 GiB, the red stroke."),
        "{memory}"
    );
    let odd = answers(limited("8053063680 B")).join("\n");
    insta::assert_snapshot!(odd, @"7.000 of 7.500 GiB of the GPU, 512.0 MiB to spare (resnet50 fp32; resnet50 tf32).");
    // What went beyond its limit and did not fail held no limit.
    let beyond = answers(limited("1.0 GiB")).join("\n");
    insta::assert_snapshot!(beyond, @"");
    let mut failing = limited("8.0 GiB");
    failing.records.records[0].outcome = record::Outcome::failed(
        record::Reason::OutOfMemory,
        record::Stage::Exit,
        "CUDA out of memory",
    );
    let failing = answers(failing).join("\n");
    insta::assert_snapshot!(failing, @r"
    1 of 5 runs failed within 8.000 GiB of the GPU (resnet50 fp32).
    7.000 of 8.000 GiB of the GPU, 1.000 GiB to spare (resnet50 tf32).
    ");
}

/// What lies outside the allocator does not count against its limit.
#[test]
fn limits_are_drawn_against_what_they_limit() {
    let gib = |gib: f64| gib * 1_073_741_824.0;
    let mut source = small().source();
    for record in &mut source.records.records {
        record.method.set("limits.gpu_memory", "8.0 GiB");
        record.method.set("limits.allocator_memory", "8.0 GiB");
        record.values.insert("outside_bytes".into(), gib(1.0));
        record.values.insert("process_peak_bytes".into(), gib(7.0));
        record.values.insert("peak_reserved_bytes".into(), gib(6.0));
    }
    let sources = [source];
    let page = html::render(&View::of(&sources)).unwrap();
    let (_, memory) = page.split_once("id=\"memory-1-title\"").unwrap();
    let (drawing, rest) = memory.split_once("</svg>").unwrap();
    let (rest, _) = rest.split_once("</figure>").unwrap();
    assert!(
        rest.contains("it does not count what is outside the allocator"),
        "{rest}"
    );
    let strokes = drawing.split("class=\"s-danger\"").skip(1);
    let strokes = strokes.map(|stroke| -> f64 {
        let (_, points) = stroke.split_once("points=\"").unwrap();
        points.split_once(',').unwrap().0.parse().unwrap()
    });
    let strokes: Vec<f64> = strokes.collect();
    // Bars begin at 6 pixels, of ten units each; 8 and 9 GiB from there.
    let ratio = (strokes[1] - 60.0) / (strokes[0] - 60.0);
    assert!((ratio - 9.0 / 8.0).abs() < 0.005, "{strokes:?}");
}

#[test]
fn a_long_message_stands_whole_with_its_run_alone() {
    let first =
        "CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a capacity of 139.80 GiB.";
    let whole = format!("{first} {}", "Of it much is in use. ".repeat(20).trim_end());
    let mut source = small().source();
    let cell = source.records.records[0].axes.clone();
    let runs = source.records.records.iter_mut();
    for run in runs.filter(|run| run.axes == cell) {
        run.values.clear();
        run.outcome = record::Outcome::failed(
            record::Reason::OutOfMemory,
            record::Stage::Exit,
            whole.clone(),
        );
    }
    let sources = [source];
    let view = View::of(&sources);
    let told = view.report.headline.answers.iter();
    let told: Vec<_> = told
        .filter(|one| one.contains("Tried to allocate"))
        .collect();
    assert!(!told.is_empty(), "{:?}", view.report.headline.answers);
    assert!(
        told.iter()
            .all(|one| one.ends_with(" …") && !one.contains(&whole))
    );
    let page = html::render(&view).unwrap();
    let failed = page.find("<section id=\"failures\"").unwrap();
    let text = |html: &str| html.replace("<wbr>", "");
    assert!(!text(&page[..failed]).contains(&whole));
    assert!(text(&page[failed..]).contains(&whole));
    // Folded under its count, as all that is of single cells.
    let (_, section) = page[failed..].split_once('\n').unwrap();
    assert!(section.starts_with("<details class=\"more\"><summary><h2 id=\"failures-heading\">"));
}

#[test]
fn bits_are_compared_run_by_run_and_across_executions() {
    let deterministic = |other: f64| {
        let mut source = small().source();
        let old: Vec<Axes> = (source.session.cells.iter())
            .map(|cell| cell.axes.clone())
            .collect();
        let new = ["eager", "cuda-graph"].map(|execution| {
            let mut axes = old[0].clone();
            axes.set("deterministic", true);
            axes.set("execution", execution);
            axes
        });
        for (cell, axes) in source.session.cells.iter_mut().zip(&new) {
            cell.axes = axes.clone();
        }
        for record in &mut source.records.records {
            let place = old.iter().position(|old| *old == record.axes).unwrap();
            record.axes = new[place].clone();
            record.series.get_mut("loss").unwrap().fill(Some(0.5));
        }
        source.records.records[0].series.get_mut("loss").unwrap()[3] = Some(other);
        answers(source).join("\n")
    };
    let same = deterministic(0.5);
    insta::assert_snapshot!(same, @r"
    In each of 2 deterministic cells the losses of all runs are the same to the bit.
    resnet50: the losses of eager and cuda-graph are the same to the bit.
    ");
    let different = deterministic(0.5 + f64::EPSILON);
    insta::assert_snapshot!(different, @r"
    In 1 of 2 deterministic cells the losses of all runs are the same to the bit; not in resnet50 execution=eager.
    resnet50: the losses of eager and cuda-graph are not the same to the bit.
    ");
}

/// The first sentence that answers, of a session that this changes.
fn first(when: YesWhen, change: &dyn Fn(&mut Source)) -> String {
    let mut fake = Fake::gpu().images(&["torch-2.10", "torch-2.11"]);
    fake.failing.clear();
    let mut source = fake.source();
    for cell in &mut source.session.cells {
        cell.axes.set("deterministic", true);
    }
    for record in &mut source.records.records {
        record.axes.set("deterministic", true);
        record.method.set("limits.gpu_memory", "8.0 GiB");
        (record.values).insert("run_process_peak_bytes".into(), 7.0 * 1_073_741_824.0);
        record.series.insert("loss".into(), vec![Some(0.5)]);
    }
    change(&mut source);
    let asked = source.session.questions.values_mut();
    asked.for_each(|asked| asked.yes_when = Some(when));
    answers(source).swap_remove(0)
}

/// The second image takes half the time.
fn faster(source: &mut Source) {
    for record in &mut source.records.records {
        let gain = if record.image == "torch-2.11" {
            2.0
        } else {
            1.0
        };
        (record.values).insert("throughput_samples_per_second".into(), 100.0 * gain);
    }
}

#[test]
fn whether_something_is_so_is_said_with_the_first_word() {
    let check = |when, change: &dyn Fn(&mut Source), expect: &str| {
        let answer = first(when, change);
        assert!(answer.starts_with(expect), "{answer}");
    };
    let as_is = |_: &mut Source| {};
    let fail = |source: &mut Source| {
        source.records.records[0].outcome = record::Outcome::failed(
            record::Reason::OutOfMemory,
            record::Stage::Exit,
            "CUDA out of memory",
        );
    };
    check(
        YesWhen::Fits,
        &as_is,
        "Yes: 7.000 of 8.000 GiB of the GPU, 1.000 GiB to spare (",
    );
    check(
        YesWhen::Fits,
        &fail,
        "No: 1 of 5 runs failed within 8.000 GiB of the GPU (",
    );
    check(YesWhen::Succeeds, &as_is, "Yes: ");
    check(YesWhen::Succeeds, &fail, "No: 1 of ");
    // Nobody knows yet while a cell has no run.
    let begun = |source: &mut Source| source.records.records.truncate(3);
    check(YesWhen::Succeeds, &begun, "7.000 of 8.000 GiB");
    check(YesWhen::SameBits, &as_is, "Yes: in each of ");
    let flip = |source: &mut Source| {
        source.records.records[0]
            .series
            .insert("loss".into(), vec![Some(0.25)]);
    };
    check(YesWhen::SameBits, &flip, "No: in ");
    check(
        YesWhen::Changes,
        &faster,
        "Yes: throughput improved in 12 of 12 comparisons (+100",
    );
    let same = |source: &mut Source, noise: f64| {
        for (place, record) in (0..).zip(&mut source.records.records) {
            let value = 100.0 + noise * f64::from(place * place % 7);
            record
                .values
                .retain(|name, _| name == "throughput_samples_per_second");
            record.values.values_mut().for_each(|own| *own = value);
        }
    };
    check(
        YesWhen::Changes,
        &|source| same(source, 0.0),
        "No: throughput unchanged in ",
    );
    check(
        YesWhen::Changes,
        &|source| same(source, 30.0),
        "Not decided: throughput ",
    );
    // Of two questions neither is meant.
    let two = |source: &mut Source| {
        let own = source.session.questions.values().next().cloned().unwrap();
        source.session.questions.insert("other".into(), own);
    };
    let answer = first(YesWhen::Fits, &two);
    assert!(answer.starts_with("7.000 of "), "{answer}");
}

#[test]
fn claims_answer_where_that_is_asked() {
    let claimed = |source: &mut Source, least: f64| {
        faster(source);
        let image = |name: &str| CellChoice {
            image: Some(name.into()),
            ..CellChoice::default()
        };
        source.session.claims = vec![Claim {
            statement: "2.11 is faster".into(),
            source: "its notes".into(),
            metric: "throughput_samples_per_second".into(),
            scenarios: Vec::new(),
            models: Vec::new(),
            task: None,
            baseline: Some(image("torch-2.10")),
            treated: image("torch-2.11"),
            expect: Expectation::Ratio(Range {
                min: Some(least),
                max: None,
            }),
        }];
    };
    let answer = first(YesWhen::ClaimsHold, &|source| claimed(source, 1.5));
    assert_eq!(answer, "Yes: 1 of 1 claim holds.");
    let answer = first(YesWhen::ClaimsHold, &|source| claimed(source, 3.0));
    assert_eq!(
        answer,
        "No: “2.11 is faster” is refuted; 0 of 1 claim hold."
    );
}
