//! Metrics that suites declare, on their way into a session and its verdicts.

use bench_suite::{
    executors::mock::Mock,
    plan::{Plan, Request},
    session::Session,
    suite::Suite,
};
use protocol::Device;
use record::SessionFolder;
use tokio_util::sync::CancellationToken;
use verdict::{FailOn, Gate, Options, Side, compare};

use crate::common::{Listener, spec};

fn suite(metric: &str) -> String {
    format!(
        "version: 1\ndescription: d\ndefaults: {{blocks: 6, steps: {{warmup: 0, measured: 2}}}}\n\
         scenarios: [{{name: a, model: vit-tiny}}]\nmetrics: [{metric}]\n"
    )
}

const GATED: &str =
    "{name: served_per_second, unit: requests-per-second, better: more, gate: true}";

#[tokio::test]
async fn a_declared_metric_reaches_session_verdict_and_gate() {
    let home = tempfile::tempdir().unwrap();
    let spec = spec(&suite(GATED), &["old", "new"], Device::Cpu);
    let mut session = Session::create(home.path(), "s", spec).unwrap();
    let mock = Mock::new("").unwrap();
    let mut listener = Listener::default();
    let cancel = CancellationToken::new();
    session.run(&mock, &mut listener, &cancel).await.unwrap();

    let folder = SessionFolder::at(home.path());
    let session = folder.read_session().unwrap();
    assert_eq!(session.metrics[0].name, "served_per_second");
    let mut records = folder.read_records().unwrap().records;
    for record in &mut records {
        let served = if record.image == "old" { 100.0 } else { 80.0 };
        let served = served + f64::from(record.block) / 10.0;
        record.values.insert("served_per_second".into(), served);
    }
    let side = |image| Side::pick(&session, &records, Some(image)).unwrap();
    let verdicts = compare(&side("old"), &side("new"), &Options::default()).unwrap();
    let gate = Gate::read(&verdicts, FailOn::Regressed);
    let failing: Vec<&str> = gate
        .failing
        .iter()
        .map(|(_, found)| found.metric.as_str())
        .collect();
    assert_eq!(failing, ["served_per_second"]);
}

#[test]
fn suites_of_one_session_agree_on_a_metric() {
    let plan = |metrics: [&str; 2]| {
        let names = ["a.yaml", "b.yaml"].into_iter();
        let suites = names
            .zip(metrics)
            .map(|(name, metric)| Suite::from_text(name, &suite(metric)).unwrap());
        Plan::new(&Request {
            suites: &suites.collect::<Vec<_>>(),
            images: &["local".into()],
            device: Device::Cpu,
            blocks: None,
            order_seed: None,
        })
    };
    assert_eq!(plan([GATED, GATED]).unwrap().session.metrics.len(), 1);
    let other = GATED.replace("more", "less");
    let error = plan([GATED, &other]).unwrap_err();
    insta::assert_snapshot!(error, @"two suites declare the metric `served_per_second`, and not the same; give it one unit, direction, threshold and gate, or two names");
}
