//! What a suite asks, and what answers it.

use bench_suite::suite::{Catalog, Suite};
use record::YesWhen;

fn read(more: &str) -> Result<Suite, String> {
    let text = format!(
        "version: 1\ndescription: d\n{more}scenarios:\n- name: one\n  model: resnet-tiny\n  \
         axes: {{batch: 4}}\n"
    );
    Suite::from_text("x.yaml", &text).map_err(|error| error.render(false))
}

#[test]
fn a_suite_asks_and_names_what_answers() {
    let asked = "question: Does it fit?\nanswered_by: [process_peak_bytes]\nyes_when: fits\n";
    let suite = read(asked).unwrap();
    let question = suite.question.unwrap();
    assert_eq!(question.question, "Does it fit?");
    assert_eq!(question.answered_by, ["process_peak_bytes"]);
    assert_eq!(question.yes_when, Some(YesWhen::Fits));
    assert_eq!(read("").unwrap().question, None);
}

#[test]
fn a_metric_that_is_none_is_shown_where_it_stands() {
    let error = read("question: Q?\nanswered_by: [wall_seconds, peak_alocated_bytes]\n");
    let error = error.unwrap_err();
    // Every metric follows.
    let (start, rest) = error.split_once("one of: ").unwrap();
    let (_, end) = rest.split_once('\n').unwrap();
    insta::assert_snapshot!(format!("{start}one of: …\n{end}"), @r"
    error: answered_by[1]: no metric with a direction is named `peak_alocated_bytes`
     --> x.yaml:4:29
      |
    4 | answered_by: [wall_seconds, peak_alocated_bytes]
      |                             ^^^^^^^^^^^^^^^^^^^ one of: …
      |
      = help: did you mean `peak_allocated_bytes`?
    ");
    let error = read("answered_by: [wall_seconds]\n").unwrap_err();
    insta::assert_snapshot!(error, @r"
    error: answered_by: it answers no question
     --> x.yaml:3:14
      |
    3 | answered_by: [wall_seconds]
      |              ^
      |
      = help: add `question`, or leave `answered_by` out
    ");
    let error = read("yes_when: fits\n").unwrap_err();
    insta::assert_snapshot!(error, @r"
    error: yes_when: it answers no question
     --> x.yaml:3:11
      |
    3 | yes_when: fits
      |           ^^^^
      |
      = help: add `question`, or leave `yes_when` out
    ");
    let error = read("question: Q?\nyes_when: fit\n").unwrap_err();
    insta::assert_snapshot!(error, @r"
    error: yes_when: invalid value `fit`
     --> x.yaml:4:11
      |
    4 | yes_when: fit
      |           ^^^ expected one of fits, same-bits, succeeds, changes, claims-hold
      |
      = help: did you mean `fits`?
    ");
}

#[test]
fn every_suite_of_the_project_asks_something() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
    let catalog = Catalog::of(folder);
    for name in catalog.names().unwrap() {
        let suite = catalog
            .load(&name)
            .unwrap_or_else(|error| panic!("{}", error.render(false)));
        let asked = suite.question.expect(&suite.name);
        assert!(asked.question.ends_with('?'), "{}", suite.name);
        let first = asked.question.split(' ').next().unwrap_or_default();
        let is_yes_or_no = ["Are", "Can", "Do", "Does", "Is"].contains(&first);
        assert_eq!(asked.yes_when.is_some(), is_yes_or_no, "{}", suite.name);
    }
}
