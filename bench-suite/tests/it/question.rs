//! What a suite asks, and what answers it.

use bench_suite::suite::{Catalog, Suite};

fn read(more: &str) -> Result<Suite, String> {
    let text = format!(
        "version: 1\ndescription: d\n{more}scenarios:\n- name: one\n  model: resnet-tiny\n  \
         axes: {{batch: 4}}\n"
    );
    Suite::from_text("x.yaml", &text).map_err(|error| error.render(false))
}

#[test]
fn a_suite_asks_and_names_what_answers() {
    let suite = read("question: Does it fit?\nanswered_by: [process_peak_bytes]\n").unwrap();
    let question = suite.question.unwrap();
    assert_eq!(question.question, "Does it fit?");
    assert_eq!(question.answered_by, ["process_peak_bytes"]);
    assert_eq!(read("").unwrap().question, None);
}

#[test]
fn a_metric_that_is_none_is_shown_where_it_stands() {
    let error = read("question: Q?\nanswered_by: [wall_seconds, peak_alocated_bytes]\n");
    let error = error.unwrap_err();
    assert!(
        error.contains("did you mean `peak_allocated_bytes`?"),
        "{error}"
    );
    assert!(error.contains("answered_by"), "{error}");
    let error = read("answered_by: [wall_seconds]\n").unwrap_err();
    assert!(error.contains("answer no question"), "{error}");
}

#[test]
fn every_suite_of_the_project_asks_something() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
    let catalog = Catalog::of(folder);
    for suite in catalog.list().unwrap() {
        let suite = suite
            .suite
            .unwrap_or_else(|error| panic!("{}", error.render(false)));
        let question = suite.question.map(|asked| asked.question);
        assert!(
            question.is_some_and(|asked| asked.ends_with('?')),
            "{}",
            suite.name
        );
    }
}
