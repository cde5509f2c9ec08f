//! Damaged files: noticed, never read as something else, and saved as far as can be.

use std::{collections::HashSet, fs, path::Path};

use history::{Aggregate, History, HistoryError, Labels, PointFilter, recover};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::support::{
    POINTS, add, everything, failed, folder, plain, record, session, throughput, values,
    with_margin,
};

const SESSIONS: i64 = 30;

/// A history of some hundred pages.
fn filled(home: &Path) -> Vec<record::SessionFolder> {
    let history = History::open(home.join("h.sqlite")).unwrap();
    let mut folders = Vec::new();
    for day in 0..SESSIONS {
        let session = with_margin(session(&format!("s-{day:02}"), day), 0.03);
        let mut runs: Vec<_> = (0..8)
            .map(|run| record(&session, run, 100.0 + (run as f64) / 7.0))
            .collect();
        // A message that does not fit a page.
        let long = record::Outcome::Failed {
            reason: record::Reason::Libtorch,
            stage: record::Stage::Exit,
            message: "it broke, and said so at length. ".repeat(400),
        };
        runs.push(record::Record {
            outcome: long,
            ..failed(record(&session, 8, 1.0))
        });
        let folder = folder(home, &session, &runs);
        add(&history, &folder);
        folders.push(folder);
    }
    history.set_baseline("release", "s-03").unwrap();
    folders
}

/// Recovery brings back every row that it says, the folders the rest.
fn check_recovery(
    home: &Path,
    folders: &[record::SessionFolder],
    expect: &crate::support::Everything,
) -> history::Recovered {
    let fresh = home.join("fresh.sqlite");
    let recovered = recover(&home.join("h.sqlite"), &fresh).unwrap();
    let history = History::open_existing(&fresh).unwrap();
    let health = history.check().unwrap();
    assert!(health.is_sound(), "{health:?}");
    let points: u64 = everything(&history)
        .unwrap()
        .1
        .iter()
        .map(|(info, _)| info.points)
        .sum();
    assert_eq!(points, recovered.saved.points);
    for folder in folders {
        history.add(folder, &Labels::default()).unwrap();
    }
    assert!(history.check().unwrap().is_sound());
    let mut now = everything(&history).unwrap();
    for session in &mut now.0 {
        session.baselines.clear();
    }
    let mut expect = expect.clone();
    for session in &mut expect.0 {
        session.baselines.clear();
    }
    for point in now.1.iter_mut().flat_map(|(_, points)| points) {
        if point.revision == "lost in a damaged file" {
            let day: i64 = point.session.as_deref().unwrap()[2..].parse().unwrap();
            point.revision = format!("commit-{day}");
        }
    }
    assert_eq!(now, expect);
    drop(history);
    fs::remove_file(&fresh).unwrap();
    recovered
}

#[test]
fn a_sound_file_recovers_whole() {
    let home = tempfile::tempdir().unwrap();
    let folders = filled(home.path());
    let expect = everything(&History::open(home.path().join("h.sqlite")).unwrap()).unwrap();
    let recovered = check_recovery(home.path(), &folders, &expect);
    assert!(recovered.incomplete_sessions.is_empty() && recovered.orphans == 0);
    assert_eq!(recovered.silent, 0);
    let saved = recovered.saved;
    assert_eq!(
        (saved.sessions, saved.runs, saved.points),
        (30, 270, 240 * POINTS as u64)
    );
    // Margins and cards with them, before a folder is added again.
    let alone = home.path().join("alone.sqlite");
    recover(&home.path().join("h.sqlite"), &alone).unwrap();
    assert_eq!(everything(&History::open(&alone).unwrap()).unwrap(), expect);
}

#[test]
fn what_still_lies_in_the_log_is_recovered_too() {
    let home = tempfile::tempdir().unwrap();
    let folders = filled(home.path());
    // While a handle is open the last writes lie in the log; a copy is what a crash leaves.
    let history = History::open(home.path().join("h.sqlite")).unwrap();
    let last = plain(home.path(), "last", 90, 5.0);
    add(&history, &last);
    let copy = tempfile::tempdir().unwrap();
    for file in ["h.sqlite", "h.sqlite-wal"] {
        fs::copy(home.path().join(file), copy.path().join(file)).unwrap();
    }
    let log = copy.path().join("h.sqlite-wal");
    assert!(fs::metadata(&log).unwrap().len() > 4096);
    // A frame that was cut off counts for nothing.
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(&vec![0x0d; 5000]);
    fs::write(&log, bytes).unwrap();
    let expect = everything(&history).unwrap();
    let all: Vec<_> = folders.into_iter().chain([last]).collect();
    let recovered = check_recovery(copy.path(), &all, &expect);
    assert_eq!(recovered.saved.sessions, 31);
    assert!(recovered.incomplete_sessions.is_empty());
}

#[test]
fn half_a_file_is_told_and_its_half_saved() {
    let home = tempfile::tempdir().unwrap();
    let folders = filled(home.path());
    let path = home.path().join("h.sqlite");
    let expect = everything(&History::open(&path).unwrap()).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2 + 100]).unwrap();
    let error = History::open(&path).unwrap_err();
    let HistoryError::Damaged { salvage, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        salvage.points > 0 && salvage.points < 240 * POINTS as u64,
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("`history recover --to NEW.sqlite`"),
        "{error}"
    );
    let recovered = check_recovery(home.path(), &folders, &expect);
    assert!(!recovered.incomplete_sessions.is_empty());
    // What was promised is what was saved, though more rows could be read.
    assert_eq!(*salvage, recovered.saved);
    assert!(recovered.orphans > 0, "{recovered:?}");
}

#[test]
fn a_lost_first_page_costs_no_points() {
    let home = tempfile::tempdir().unwrap();
    let folders = filled(home.path());
    let path = home.path().join("h.sqlite");
    let expect = everything(&History::open(&path).unwrap()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[..4096].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let error = History::open(&path).unwrap_err();
    assert!(matches!(error, HistoryError::Damaged { .. }), "{error}");
    let recovered = check_recovery(home.path(), &folders, &expect);
    assert_eq!(recovered.saved.points, 240 * POINTS as u64);
}

#[test]
fn a_value_that_was_changed_is_never_read() {
    let home = tempfile::tempdir().unwrap();
    let folders = filled(home.path());
    let path = home.path().join("h.sqlite");
    let expect = everything(&History::open(&path).unwrap()).unwrap();
    let changed = Connection::open(&path)
        .unwrap()
        .execute("UPDATE points SET value = value * 1.1 WHERE session_id = 3 AND value < 1000 AND value > 1", [])
        .unwrap();
    assert!(changed > 0);
    let history = History::open(&path).unwrap();
    let error = history
        .points(&throughput(), &PointFilter::default(), Aggregate::Run)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a row of the table points was changed"),
        "{error}"
    );
    let health = history.check().unwrap();
    assert!(!health.is_sound() && health.salvage.is_some(), "{health:?}");
    drop(history);
    let recovered = check_recovery(home.path(), &folders, &expect);
    let [lost] = &recovered.incomplete_sessions[..] else {
        panic!("{recovered:?}")
    };
    assert_eq!(
        (&*lost.name, lost.lost_runs, lost.lost_points),
        ("s-02", 0, changed as u64)
    );
}

#[test]
fn rows_that_vanish_are_noticed() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = home.path().join("h.sqlite");
    Connection::open(&path)
        .unwrap()
        .execute("DELETE FROM points WHERE session_id = 3", [])
        .unwrap();
    let history = History::open(&path).unwrap();
    let error = history
        .points(&throughput(), &PointFilter::default(), Aggregate::Run)
        .unwrap_err();
    assert!(
        error.to_string().contains("a series of 240 points has 232"),
        "{error}"
    );
    let health = history.check().unwrap();
    assert!(
        health
            .problems
            .iter()
            .any(|p| p.starts_with("points of session s-02")),
        "{health:?}"
    );
}

#[test]
fn cards_and_margins_that_vanish_are_noticed() {
    let home = tempfile::tempdir().unwrap();
    let folders = filled(home.path());
    let path = home.path().join("h.sqlite");
    let expect = everything(&History::open(&path).unwrap()).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute("DELETE FROM cells_in_sessions WHERE session_id = 3", [])
        .unwrap();
    let history = History::open(&path).unwrap();
    let error = history
        .points(&throughput(), &PointFilter::default(), Aggregate::Session)
        .unwrap_err();
    assert!(matches!(error, HistoryError::Damaged { .. }), "{error}");
    let health = history.check().unwrap();
    assert_eq!(
        health.problems,
        ["1 cells of sessions have lost their cards and margins"]
    );
    drop(history);
    let recovered = check_recovery(home.path(), &folders, &expect);
    assert_eq!((recovered.silent, recovered.orphans), (1, 0));
}

#[test]
fn a_damaged_file_takes_no_writes() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = home.path().join("h.sqlite");
    let mut bytes = fs::read(&path).unwrap();
    // The head of the last page: every page of a full file holds rows.
    let last = bytes.len() - 4096;
    bytes[last..last + 200].fill(0xaa);
    fs::write(&path, &bytes).unwrap();
    let history = History::open(&path).unwrap();
    let error = history.set_baseline("x", "s-01").unwrap_err();
    assert!(matches!(error, HistoryError::Damaged { .. }), "{error}");
}

#[test]
fn recovery_overwrites_nothing_and_refuses_what_holds_nothing() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let path = home.path().join("h.sqlite");
    assert!(matches!(
        recover(&path, &path),
        Err(HistoryError::Exists { .. })
    ));
    let fresh = home.path().join("fresh.sqlite");
    let gone = recover(&home.path().join("gone"), &fresh).unwrap_err();
    assert!(matches!(gone, HistoryError::Read { .. }), "{gone}");
    let noise = home.path().join("noise");
    fs::write(&noise, vec![0x0d; 20_000]).unwrap();
    let error = recover(&noise, &fresh).unwrap_err();
    assert!(
        matches!(error, HistoryError::NothingToSave { .. }),
        "{error}"
    );
    assert!(!fresh.exists());
}

/// One history for all cases; each case damages a copy.
fn original() -> &'static (Vec<u8>, crate::support::Everything) {
    use std::sync::OnceLock;
    static ORIGINAL: OnceLock<(Vec<u8>, crate::support::Everything)> = OnceLock::new();
    ORIGINAL.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        filled(home.path());
        let path = home.path().join("h.sqlite");
        let expect = everything(&History::open(&path).unwrap()).unwrap();
        (fs::read(&path).unwrap(), expect)
    })
}

/// Series, session, run and value of every point.
fn identities(
    all: &crate::support::Everything,
) -> HashSet<(String, Option<&str>, Option<&str>, u64)> {
    all.1
        .iter()
        .flat_map(|(info, points)| {
            points
                .iter()
                .map(move |point| (info.key.to_string(), point))
        })
        .map(|(key, point)| {
            (
                key,
                point.session.as_deref(),
                point.run.as_deref(),
                point.value.to_bits(),
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever happens to the file: an error, or the truth.
    #[test]
    fn damage_is_an_error_or_harmless(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        header in any::<bool>(),
    ) {
        let (bytes, expect) = original();
        let mut bytes = bytes.clone();
        for (place, bits) in flips {
            let length = if header { 4096 } else { bytes.len() };
            bytes[place.index(length)] ^= bits;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("h.sqlite");
        fs::write(&path, &bytes).unwrap();
        if let Ok(history) = History::open(&path)
            && let Ok(now) = everything(&history)
            // An empty file is a new history.
            && !bytes.is_empty()
        {
            prop_assert_eq!(&now, expect);
        }
        let fresh = home.path().join("fresh.sqlite");
        match recover(&path, &fresh) {
            Ok(recovered) => {
                let history = History::open(&fresh).unwrap();
                prop_assert!(history.check().unwrap().is_sound());
                let now = everything(&history).unwrap();
                let (all, saved) = (identities(expect), identities(&now));
                prop_assert!(saved.is_subset(&all), "{:?}", saved.difference(&all).next());
                prop_assert_eq!(saved.len() as u64, recovered.saved.points);
            }
            Err(HistoryError::NothingToSave { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn values_are_whole_after_all_this() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path());
    let history = History::open(home.path().join("h.sqlite")).unwrap();
    assert_eq!(
        values(&history, Aggregate::Session).len(),
        usize::try_from(SESSIONS).unwrap()
    );
}
