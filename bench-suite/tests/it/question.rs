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
    assert!(
        error.contains("did you mean `peak_allocated_bytes`?"),
        "{error}"
    );
    assert!(error.contains("answered_by"), "{error}");
    let error = read("answered_by: [wall_seconds]\n").unwrap_err();
    assert!(error.contains("it answers no question"), "{error}");
    let error = read("yes_when: fits\n").unwrap_err();
    assert!(error.contains("leave `yes_when` out"), "{error}");
    let error = read("question: Q?\nyes_when: fit\n").unwrap_err();
    assert!(error.contains("`fits`"), "{error}");
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
