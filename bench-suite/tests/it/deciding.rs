//! Sessions that add blocks until they are decided, with the mock executor.

use std::{path::Path, time::Duration};

use bench_suite::{
    executors::mock::Mock,
    plan::Plan,
    session::{Session, Totals, until_decided},
};
use judge::compare::Verdict;
use protocol::Device;
use record::{Deciding, LookEnd, SessionFolder, SidesCompared};
use tokio_util::sync::CancellationToken;
use verdict::{Options, compare_session};

use crate::common::{Listener, spec};

const SUITE: &str = "version: 1\ndescription: d\ndefaults: {blocks: 2, steps: {warmup: 1, measured: 4}}\n\
    scenarios:\n- {name: small, model: vit-tiny, axes: {precision: [fp32, amp-bf16]}}\n";
const HOUR: Duration = Duration::from_hours(1);

fn images() -> SidesCompared {
    SidesCompared::Images { base: "old".into() }
}

fn fixed() -> Plan {
    spec(SUITE, &["old", "new"], Device::Cpu)
}

fn asked(sides: SidesCompared, budget: Duration, most: u32) -> Plan {
    let mut plan = fixed();
    plan.session.deciding = Some(until_decided(sides, budget, most));
    plan
}

async fn run(session: &mut Session, script: &str) -> (Listener, Totals) {
    let mut listener = Listener::default();
    let mock = Mock::new(script).unwrap();
    let totals = session
        .run(&mock, &mut listener, &CancellationToken::new())
        .await
        .unwrap();
    (listener, totals)
}

/// What `session.json` says in the end.
fn deciding(home: &Path) -> Deciding {
    let session = SessionFolder::at(home).read_session().unwrap();
    assert!(session.complete, "{session:?}");
    session.deciding.expect("a session that decides")
}

#[tokio::test]
async fn what_is_plain_is_decided_at_the_first_look() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::create(home.path(), "s", asked(images(), HOUR, 40)).unwrap();
    let (listener, totals) = run(&mut session, "new=ok:1.2").await;
    assert_eq!((totals.planned, totals.ok, totals.remaining), (12, 12, 0));
    let last = listener.told[listener.told.len() - 2].as_str();
    assert!(
        last.starts_with("looked at 3 of") && last.ends_with("undecided [], end Some(Decided)"),
        "{last}"
    );
    let found = deciding(home.path());
    assert_eq!(found.end, Some(LookEnd::Decided));
    // Throughput and peak memory of two cells; nothing else is gated on a CPU.
    assert_eq!((found.looks.len(), found.looks[0].decided), (1, 4));

    // Whoever compares later takes the looks again and finds the same.
    let folder = SessionFolder::at(home.path());
    let session = folder.read_session().unwrap();
    let records = folder.read_records().unwrap().records;
    let verdicts = compare_session(&session, &records, &Options::default()).unwrap();
    assert_eq!((verdicts[0].looks, session.blocks), (1, 3));
    let gated = verdicts[0].all().filter(|(_, found)| found.gated);
    let (better, same): (Vec<_>, Vec<_>) =
        gated.partition(|(_, found)| found.comparison.verdict == Verdict::Improved);
    assert_eq!((better.len(), same.len()), (2, 2));
}

#[tokio::test]
async fn what_stays_open_ends_with_the_most_blocks() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::create(home.path(), "s", asked(images(), HOUR, 5)).unwrap();
    let (listener, totals) = run(&mut session, "").await;
    assert_eq!((totals.planned, totals.ok), (20, 20));
    let found = deciding(home.path());
    assert_eq!(found.end, Some(LookEnd::Blocks));
    let looks: Vec<_> = found
        .looks
        .iter()
        .map(|look| (look.blocks, look.fraction))
        .collect();
    assert_eq!(looks, [(3, 0.6), (4, 0.8), (5, 1.0)]);
    let open = &found.looks[2].undecided;
    assert_eq!(
        open.as_slice(),
        [
            "small · amp-bf16 bs1 · throughput_samples_per_second",
            "small · fp32 bs1 · throughput_samples_per_second"
        ]
    );
    let told = listener
        .told
        .iter()
        .filter(|line| line.starts_with("looked"));
    assert_eq!(told.count(), 3);
}

#[tokio::test]
async fn a_cell_that_is_decided_rests() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::create(home.path(), "s", asked(images(), HOUR, 5)).unwrap();
    let (_, totals) = run(&mut session, "new amp-bf16=ok:1.2").await;
    // Three blocks of two cells on two images, and two of the one that is open.
    assert_eq!((totals.planned, totals.ok, totals.remaining), (16, 16, 0));
    let folder = SessionFolder::at(home.path());
    let session = folder.read_session().unwrap();
    let records = folder.read_records().unwrap().records;
    let late = records.iter().filter(|record| record.block > 2);
    assert_eq!(late.clone().count(), 4);
    for record in late {
        assert_eq!(
            record.axes.get("precision").map(String::as_str),
            Some("fp32")
        );
    }
    let first = &session.deciding.as_ref().unwrap().looks[0];
    assert_eq!((first.resting.len(), session.planned()), (2, 16));
    // What was decided at the first look is so for whoever compares later.
    let verdicts = compare_session(&session, &records, &Options::default()).unwrap();
    let gated = verdicts[0].all().filter(|(_, found)| found.gated);
    let improved = gated.filter(|(_, found)| found.comparison.verdict == Verdict::Improved);
    let blocks: Vec<_> = improved
        .map(|(_, found)| found.comparison.blocks_used)
        .collect();
    assert_eq!(blocks, [3]);
}

#[tokio::test]
async fn the_time_budget_ends_a_session_as_well() {
    let home = tempfile::tempdir().unwrap();
    let budget = Duration::from_millis(1);
    let mut session = Session::create(home.path(), "s", asked(images(), budget, 40)).unwrap();
    let (_, totals) = run(&mut session, "0001=sleep:5").await;
    // A block that was begun is finished; it is the only one.
    assert_eq!((totals.planned, totals.ok), (4, 4));
    let found = deciding(home.path());
    assert_eq!((found.end, found.looks.len()), (Some(LookEnd::Time), 1));
    assert!(found.spent_seconds >= 0.005);
}

#[tokio::test]
async fn an_interrupted_session_goes_on_deciding() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::create(home.path(), "s", asked(images(), HOUR, 5)).unwrap();
    // In the middle of the fourth block, after the first look.
    let (_, totals) = run(&mut session, "0014=cancel").await;
    assert!(totals.remaining > 0);
    drop(session);
    let between = SessionFolder::at(home.path()).read_session().unwrap();
    assert!(!between.complete);
    let first = between.deciding.unwrap().looks;
    assert_eq!(first.len(), 1);

    // Nothing needs to be said again: the session keeps what it was asked.
    let mut session = Session::resume(home.path(), fixed()).unwrap();
    let (listener, totals) = run(&mut session, "").await;
    assert_eq!((totals.planned, totals.ok), (20, 20));
    assert_eq!(listener.records.len(), 6);
    drop(session);
    let found = deciding(home.path());
    assert_eq!(found.looks[0], first[0]);
    let blocks: Vec<_> = found.looks.iter().map(|look| look.blocks).collect();
    assert_eq!(blocks, [3, 4, 5]);

    let again = asked(images(), HOUR, 50);
    let error = Session::resume(home.path(), again).unwrap_err();
    let error = error.to_string();
    insta::assert_snapshot!(error.replace(home.path().to_str().unwrap(), "/home"), @"the session in /home has taken its last look, and its error budget is spent; begin a new session, with a longer --time-budget");
}

#[tokio::test]
async fn a_look_that_a_crash_swallowed_is_taken_on_resuming() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::create(home.path(), "s", asked(images(), HOUR, 40)).unwrap();
    run(&mut session, "new=ok:1.2").await;
    drop(session);
    // As if the machine had gone down after the last run and before the look.
    let folder = SessionFolder::at(home.path());
    let mut about = folder.read_session().unwrap();
    let deciding_now = about.deciding.as_mut().unwrap();
    deciding_now.looks.clear();
    deciding_now.end = None;
    about.complete = false;
    folder.write_session(&about).unwrap();
    let mut session = Session::resume(home.path(), fixed()).unwrap();
    let (listener, _) = run(&mut session, "").await;
    assert_eq!(listener.records.len(), 0);
    assert_eq!(deciding(home.path()).end, Some(LookEnd::Decided));
}

#[tokio::test]
async fn a_session_of_fixed_length_can_go_on_until_decided() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::create(home.path(), "s", fixed()).unwrap();
    run(&mut session, "new=ok:1.2").await;
    drop(session);
    let mut session = Session::resume(home.path(), asked(images(), HOUR, 40)).unwrap();
    let (_, totals) = run(&mut session, "new=ok:1.2").await;
    assert_eq!(totals.planned, 12);
    let found = deciding(home.path());
    assert_eq!((found.looks.len(), found.looks[0].blocks), (1, 3));
    assert!(found.spent_seconds >= 0.25 * 8.0, "{}", found.spent_seconds);
}

#[tokio::test]
async fn where_a_side_yields_nothing_no_block_is_added() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::create(home.path(), "s", asked(images(), HOUR, 40)).unwrap();
    let (_, totals) = run(&mut session, "new=oom").await;
    assert_eq!((totals.ok, totals.failed), (6, 6));
    assert_eq!(deciding(home.path()).end, Some(LookEnd::Decided));
}

#[tokio::test]
async fn two_values_of_an_axis_are_decided_between() {
    let sides = |head: &str| SidesCompared::Axis {
        axis: "precision".into(),
        base: "fp32".into(),
        head: head.into(),
    };
    let home = tempfile::tempdir().unwrap();
    let mut session =
        Session::create(home.path(), "s", asked(sides("amp-bf16"), HOUR, 40)).unwrap();
    run(&mut session, "amp-bf16=ok:1.3").await;
    assert_eq!(deciding(home.path()).end, Some(LookEnd::Decided));

    let other = tempfile::tempdir().unwrap();
    let refused = |spec: Plan| {
        let folder = other.path().join("session");
        let error = Session::create(&folder, "s", spec).unwrap_err();
        assert!(!folder.exists(), "nothing is begun");
        error.to_string()
    };
    insta::assert_snapshot!(refused(asked(sides("tf32"), HOUR, 40)), @"no cell of the plan has precision=tf32; there are: amp-bf16, fp32");
    let error = refused(asked(
        SidesCompared::Images {
            base: "newer".into(),
        },
        HOUR,
        40,
    ));
    insta::assert_snapshot!(error, @"the session has no image `newer` to compare against; it has: new, old");
    let mut alone = spec(SUITE, &["old"], Device::Cpu);
    alone.session.deciding = Some(until_decided(images(), HOUR, 40));
    insta::assert_snapshot!(refused(alone), @"there is nothing to decide between: the session has one image; give a second one with --image, or two values of an axis with --by AXIS=BASE,HEAD");
}
