//! What a report says to the question of its suite.

use protocol::{Execution, Variant};
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
            let peaks = &mut record.metrics.as_mut().unwrap().peaks;
            peaks.run_process_peak_bytes = Some(7 << 30);
        }
        source
    };
    let fits = answers(limited("8.0 GiB"));
    assert!(
        fits[0].starts_with(
            "Fits within 8.000 GiB of the GPU with 1.000 GiB to spare, 7.000 GiB at most: "
        ),
        "{fits:?}"
    );
    // Both cells take the same: one sentence.
    assert!(fits[0].contains("; "), "{fits:?}");
    assert_eq!(fits.len(), 1, "{fits:?}");
    let sources = [limited("8.0 GiB")];
    let page = html::render(&View::of(&sources)).unwrap();
    let (_, memory) = page.split_once("<section id=\"memory\"").unwrap();
    let (memory, _) = memory.split_once("</section>").unwrap();
    assert!(
        memory.contains("memory: 8.000 GiB, the upright line."),
        "{memory}"
    );
    let odd = answers(limited("8053063680 B")).join("\n");
    assert!(odd.contains("Fits within 7.500 GiB of the GPU"), "{odd}");
    // What went beyond its limit and did not fail held no limit.
    let beyond = answers(limited("1.0 GiB")).join("\n");
    assert!(!beyond.contains("Fits"), "{beyond}");
    let mut failing = limited("8.0 GiB");
    failing.records.records[0].outcome = record::Outcome::Failed {
        reason: record::Reason::OutOfMemory,
        stage: record::Stage::Exit,
        message: "CUDA out of memory".into(),
    };
    let failing = answers(failing).join("\n");
    assert!(failing.contains("Does not fit within 8.000 GiB of the GPU, 1 of 5 runs failed: "));
}

#[test]
fn a_long_message_stands_whole_with_its_run_alone() {
    let first =
        "CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a capacity of 139.80 GiB.";
    let whole = format!("{first} {}", "Of it much is in use. ".repeat(20).trim_end());
    let mut source = small().source();
    let cell = source.records.records[0].variant.clone();
    let runs = source.records.records.iter_mut();
    for run in runs.filter(|run| run.variant == cell) {
        run.metrics = None;
        run.outcome = record::Outcome::Failed {
            reason: record::Reason::OutOfMemory,
            stage: record::Stage::Exit,
            message: whole.clone(),
        };
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
}

#[test]
fn bits_are_compared_run_by_run_and_across_executions() {
    let deterministic = |other: f64| {
        let mut source = small().source();
        let executions = [Execution::Eager, Execution::CudaGraph];
        let variants = executions.map(|execution| Variant {
            deterministic: true,
            execution,
            ..source.session.cells[0].variant.clone()
        });
        let old: Vec<Variant> = source
            .session
            .cells
            .iter()
            .map(|cell| cell.variant.clone())
            .collect();
        for (cell, variant) in source.session.cells.iter_mut().zip(&variants) {
            cell.variant = variant.clone();
        }
        for record in &mut source.records.records {
            let place = old.iter().position(|old| *old == record.variant).unwrap();
            record.variant = variants[place].clone();
            for step in &mut record.steps {
                step.loss = Some(0.5);
            }
        }
        source.records.records[0].steps[3].loss = Some(other);
        answers(source).join("\n")
    };
    let same = deterministic(0.5);
    assert!(
        same.contains(
            "In each of 2 deterministic cells the losses of all runs are the same to the bit."
        ),
        "{same}"
    );
    assert!(
        same.contains("the losses of eager and cuda-graph are the same to the bit"),
        "{same}"
    );
    let different = deterministic(0.5 + f64::EPSILON);
    assert!(
        different.contains("In 1 of 2 deterministic cells"),
        "{different}"
    );
    assert!(
        different.contains("are different to the bit"),
        "{different}"
    );
}
