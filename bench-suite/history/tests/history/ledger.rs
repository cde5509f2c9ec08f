//! What is kept in mind of regressions, night after night.

use history::{Acceptance, Attributes, Ledger, Night, State};

use crate::nights::{Series, extend, look, moment, series};

/// Looks after each night from `first` to the last that the series have.
fn every_night(
    ledger: &mut Ledger,
    first: usize,
    cells: &[(&str, &dyn Fn(usize) -> f64)],
) -> Vec<(usize, Night)> {
    (first..90)
        .map(|night| {
            let all: Vec<Series> = cells
                .iter()
                .map(|(cell, of)| series(cell, night + 1, of))
                .collect();
            (night, look(ledger, &all, night))
        })
        .collect()
}

fn nights(told: &[(usize, Night)], of: impl Fn(&Night) -> &Vec<String>) -> Vec<usize> {
    let with = told.iter().filter(|(_, night)| !of(night).is_empty());
    with.map(|(night, _)| *night).collect()
}

fn accepted(by: &str) -> Acceptance {
    Acceptance {
        by: by.into(),
        why: "a trade".into(),
        until: None,
        cells: Vec::new(),
        metrics: Vec::new(),
    }
}

#[test]
fn a_step_fails_once_and_stays_in_mind_until_it_is_fixed() {
    let mut ledger = Ledger::default();
    let level = |night| {
        if (60..75).contains(&night) {
            95.0
        } else {
            100.0
        }
    };
    let told = every_night(&mut ledger, 30, &[("a", &level)]);
    assert_eq!(nights(&told, |night| &night.opened), [60]);
    assert_eq!(nights(&told, |night| &night.failing), [60]);
    let fixed = nights(&told, |night| &night.fixed);
    assert!(
        fixed.len() == 1 && (77..=80).contains(&fixed[0]),
        "{fixed:?}"
    );
    let open: Vec<usize> = (61..fixed[0]).collect();
    assert_eq!(nights(&told, |night| &night.open), open);
    let [entry] = ledger.entries() else {
        panic!("one entry: {ledger:?}")
    };
    assert_eq!(entry.last_good.revision, "r59");
    assert_eq!(entry.first_bad.as_ref().expect("a place").revision, "r60");
    let ratio = entry.series[0].ratio().expect("above 0");
    assert!((ratio - 0.95).abs() < 0.005, "{ratio}");
}

/// What is lost night by night fails with each doubling, and is one entry.
#[test]
fn a_slow_loss_fails_a_gate() {
    let mut ledger = Ledger::default();
    let level = |night: usize| 100.0 - 0.1 * (night.clamp(40, 80) - 40) as f64;
    let told = every_night(&mut ledger, 30, &[("a", &level)]);
    let failing = nights(&told, |night| &night.failing);
    assert!(
        (1..=4).contains(&failing.len()) && failing[0] < 60,
        "{failing:?}"
    );
    let [entry] = ledger.entries() else {
        panic!("one entry: {ledger:?}")
    };
    let ratio = entry.series[0].ratio().expect("above 0");
    assert!((0.955..0.98).contains(&ratio), "{ratio}");
    assert_eq!(entry.state(moment(89)), State::Open);
}

/// A glitch of 15 % is over, and three nights later another cause takes 3 %.
#[test]
fn a_fixed_entry_takes_no_change_of_another_size() {
    let mut ledger = Ledger::default();
    let level = |night: usize| match night {
        60 => 85.0,
        ..63 => 100.0,
        _ => 97.0,
    };
    let told = every_night(&mut ledger, 50, &[("a", &level)]);
    let failing = nights(&told, |night| &night.failing);
    assert!(failing.len() == 2 && failing[0] == 60, "{failing:?}");
    assert!(nights(&told, |night| &night.reopened).is_empty());
    assert_eq!(ledger.entries().len(), 2);
}

/// A level that a series has too few points of, or that later ones cover, is none of its change points
/// any more; the ledger has it all the same.
#[test]
fn a_short_level_stays_in_the_ledger_once_it_is_over() {
    for last in [63, 65, 67] {
        let mut ledger = Ledger::default();
        let is_slow = |night| (60..last).contains(&night);
        let level = |night| if is_slow(night) { 95.0 } else { 100.0 };
        let told = every_night(&mut ledger, 30, &[("a", &level)]);
        assert_eq!(nights(&told, |night| &night.failing), [60], "{last}");
        assert_eq!(nights(&told, |night| &night.fixed).len(), 1, "{last}");
        let [entry] = ledger.entries() else {
            panic!("one entry: {ledger:?}")
        };
        assert_eq!(entry.last_good.revision, "r59");
        assert_eq!(entry.state(moment(89)), State::Fixed);
    }
}

#[test]
fn a_gate_that_runs_again_fails_again() {
    let mut ledger = Ledger::default();
    let level = |night| if night < 60 { 100.0 } else { 95.0 };
    look(&mut ledger, &[series("a", 60, level)], 59);
    let all = [series("a", 61, level)];
    let first = look(&mut ledger, &all, 60);
    let second = look(&mut ledger, &all, 60);
    assert_eq!(first.failing, second.failing);
    assert_eq!((first.opened.len(), second.opened.len()), (1, 0));
    // The other of two that looked from the same ledger finds the same ID.
    let mut other = Ledger::default();
    look(&mut other, &[series("a", 60, level)], 59);
    assert_eq!(look(&mut other, &all, 60).opened, first.opened);
}

/// A history that was there before its ledger does not open an entry for each of its changes.
#[test]
fn what_changed_before_a_ledger_began_is_no_news() {
    let mut ledger = Ledger::default();
    let level = |night| if night < 40 { 100.0 } else { 95.0 };
    let night = look(&mut ledger, &[series("a", 70, level)], 69);
    assert_eq!(night, Night::default());
    // The night was missed by the gate, and the next one tells.
    let missed = |night| if night < 71 { level(night) } else { 90.0 };
    let night = look(&mut ledger, &[series("a", 76, missed)], 75);
    assert_eq!(night.failing.len(), 1);
}

#[test]
fn one_cause_is_one_entry() {
    let mut ledger = Ledger::default();
    let at = |place: usize, to: f64| move |night| if night < place { 100.0 } else { to };
    let cells: [(&str, &dyn Fn(usize) -> f64); 4] = [
        ("a", &at(60, 95.0)),
        ("bb", &at(60, 90.0)),
        ("ccc", &at(60, 97.0)),
        ("dddd", &at(70, 95.0)),
    ];
    let told = every_night(&mut ledger, 50, &cells);
    assert_eq!(nights(&told, |night| &night.opened), [60, 70]);
    let mut sizes: Vec<usize> = ledger
        .entries()
        .iter()
        .map(|entry| entry.series.len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 3]);
}

#[test]
fn a_spike_closes_its_own_entry() {
    let mut ledger = Ledger::default();
    let level = |night| if night == 60 { 90.0 } else { 100.0 };
    let told = every_night(&mut ledger, 50, &[("a", &level)]);
    assert_eq!(nights(&told, |night| &night.failing), [60]);
    assert_eq!(nights(&told, |night| &night.fixed), [62]);
}

#[test]
fn accepting_one_cell_touches_no_other() {
    let mut ledger = Ledger::default();
    let level = |night| if night < 60 { 100.0 } else { 95.0 };
    let both = |count| [series("a", count, level), series("bb", count, level)];
    look(&mut ledger, &both(60), 59);
    let id = look(&mut ledger, &both(61), 60).opened.remove(0);
    let of = |cell: &str| Acceptance {
        cells: vec![cell.into()],
        ..accepted("ada")
    };
    let wrong = ledger.accept(&id, of("nosuch")).expect_err("fits nothing");
    insta::assert_snapshot!(wrong, @"Rfb4fdf3f: the acceptance fits none of the entry's series; expected one of a · throughput_samples_per_second, bb · throughput_samples_per_second");
    ledger.accept(&id, of("a")).expect("fits");
    let entry = ledger.entry(&id).expect("known");
    assert_eq!(entry.state(moment(61)), State::Open);
    let open: Vec<String> = entry.open(moment(61)).map(|one| one.key.cell()).collect();
    assert_eq!(open, ["bb"]);
    assert_eq!(look(&mut ledger, &both(62), 61).open, [id.as_str()]);
    ledger.accept(&id, of("b*")).expect("fits");
    assert_eq!(look(&mut ledger, &both(63), 62), Night::default());
    // What falls next is told, whatever was accepted.
    let worse = |night| if night < 70 { level(night) } else { 85.0 };
    let all = [series("a", 71, worse), series("bb", 71, level)];
    assert_eq!(look(&mut ledger, &all, 70).failing.len(), 1);
    ledger.withdraw(&id).expect("known");
    assert_eq!(
        ledger.entry(&id).expect("known").state(moment(71)),
        State::Open
    );
}

#[test]
fn an_acceptance_that_ran_out_fails_once() {
    let mut ledger = Ledger::default();
    let level = |night| if night < 60 { 100.0 } else { 95.0 };
    look(&mut ledger, &[series("a", 60, level)], 59);
    let id = look(&mut ledger, &[series("a", 61, level)], 60)
        .opened
        .remove(0);
    let until = Acceptance {
        // Night 65.
        until: Some("2026-03-07".parse().expect("a date")),
        ..accepted("ada")
    };
    ledger.accept(&id, until).expect("open");
    let told: Vec<(usize, Night)> = (61..70)
        .map(|night| {
            (
                night,
                look(&mut ledger, &[series("a", night + 1, level)], night),
            )
        })
        .collect();
    assert_eq!(nights(&told, |night| &night.failing), [66]);
    assert_eq!(nights(&told, |night| &night.expired), [66]);
    assert_eq!(nights(&told, |night| &night.open), [67, 68, 69]);
}

#[test]
fn an_acceptance_needs_somebody_and_something() {
    let mut ledger = Ledger::default();
    let unknown = ledger.accept("R00000000", accepted("ada"));
    insta::assert_snapshot!(unknown.expect_err("no entry"), @"the ledger has no entry R00000000; it is empty");
    insta::assert_snapshot!(ledger.withdraw("R0").expect_err("no entry"), @"the ledger has no entry R0; it is empty");
    let level = |night| if night == 60 { 90.0 } else { 100.0 };
    look(&mut ledger, &[series("a", 60, level)], 59);
    let id = look(&mut ledger, &[series("a", 61, level)], 60)
        .opened
        .remove(0);
    let nobody = ledger.accept(&id, accepted(" "));
    insta::assert_snapshot!(nobody.expect_err("nobody"), @"R77398a6d: the acceptance's `by` is empty; name who accepts, and why");
    look(&mut ledger, &[series("a", 65, level)], 64);
    let fixed = ledger.accept(&id, accepted("ada"));
    let fixed = fixed.expect_err("it is fixed").to_string();
    insta::assert_snapshot!(fixed.replace(&id, "ID"), @"ID is fixed; there is nothing to accept");
}

#[test]
fn a_silent_runner_is_one_entry_until_it_answers() {
    let mut ledger = Ledger::default();
    let machine = |machine: &str, cells: usize, nights: usize| -> Vec<Series> {
        let of = |cell| {
            let mut one = Series::new(&format!("cell {cell}"), "throughput", machine);
            extend(&mut one, nights, |_| 100.0);
            one
        };
        (0..cells).map(of).collect()
    };
    let all = |dead: usize, alive: usize| {
        let mut all = machine("dead", 30, dead);
        all.extend(machine("alive", 3, alive));
        all
    };
    let ended = [40, 41, 42, 43].map(|night| look(&mut ledger, &all(40, night + 1), night));
    assert_eq!(
        ended.each_ref().map(|night| night.failing.len()),
        [0, 0, 0, 1]
    );
    let id = ended[3].failing[0].clone();
    let entry = ledger.entry(&id).expect("known");
    assert_eq!(
        (entry.machine.as_deref(), entry.series.len()),
        (Some("dead"), 0)
    );
    // A gate that has nothing to judge is not green.
    let next = look(&mut ledger, &all(40, 45), 44);
    assert_eq!((next.opened.len(), &next.failing), (0, &vec![id.clone()]));
    ledger.accept(&id, accepted("ada")).expect("open");
    assert_eq!(look(&mut ledger, &all(40, 46), 45), Night::default());
    let mut back = all(40, 47);
    for one in &mut back[..30] {
        one.add(46, 100.0, Attributes::new());
    }
    assert_eq!(look(&mut ledger, &back, 46).fixed, [id]);
}

/// Where a threshold is raised above it, a change counts as none.
#[test]
fn a_change_within_the_threshold_of_today_is_none() {
    let mut ledger = Ledger::default();
    let level = |night| if night < 60 { 100.0 } else { 95.0 };
    look(&mut ledger, &[series("a", 60, level)], 59);
    assert_eq!(
        look(&mut ledger, &[series("a", 61, level)], 60)
            .failing
            .len(),
        1
    );
    let mut tolerant = series("a", 62, level);
    tolerant.threshold = 0.1;
    assert_eq!(look(&mut ledger, &[tolerant], 61).fixed.len(), 1);
}

#[test]
fn what_turns_out_much_larger_than_it_was_told_fails_again() {
    let level = |night| match night {
        0..60 => 100.0,
        60 => 98.0,
        _ => 90.0,
    };
    let failing = |accept: bool| {
        let mut ledger = Ledger::default();
        look(&mut ledger, &[series("a", 60, level)], 59);
        let told: Vec<(usize, Night)> = (60..70)
            .map(|night| {
                let told = look(&mut ledger, &[series("a", night + 1, level)], night);
                if accept && night == 60 {
                    ledger
                        .accept(&told.opened[0], accepted("ada"))
                        .expect("open");
                }
                (night, told)
            })
            .collect();
        let worsened = nights(&told, |night| &night.worsened);
        (
            nights(&told, |night| &night.failing),
            worsened,
            ledger.entries().len(),
        )
    };
    assert_eq!(failing(false), (vec![60, 61], vec![61], 1));
    let (accepted, worsened, entries) = failing(true);
    assert_eq!((accepted, worsened, entries), (vec![60, 61], Vec::new(), 2));
}
