//! Histories made again, whatever happened to the file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use history::{History, HistoryError, ImportedSeries, Labels, SessionFilter};
use judge::{
    compare::{Direction, Kind},
    trend,
};

use crate::support::{Everything, add, everything, failed, folder, plain, record, session};

/// A history of everything that there can be, and what it says.
fn filled(home: &Path) -> (PathBuf, Everything) {
    let path = home.join("h.sqlite");
    let history = History::open(&path).unwrap();
    let labels = Labels {
        branch: Some("main".into()),
        revision: Some("v1".into()),
        ..Labels::default()
    };
    history.add(&plain(home, "a", 0, 100.0), &labels).unwrap();
    let b = session("b", 1);
    let runs = [record(&b, 0, 101.0), failed(record(&b, 1, 1.0))];
    add(&history, &folder(home, &b, &runs));
    let series = ImportedSeries {
        name: "far / off".into(),
        unit: "s".into(),
        direction: Direction::LowerIsBetter,
        kind: Kind::TimeLike,
        threshold: None,
    };
    let point = |timestamp, revision: &str| trend::Point {
        timestamp,
        revision: revision.into(),
        value: 0.1,
    };
    let points = [point(1e300, " =\"x\",\n"), point(0.5, ""), point(0.5, "")];
    history.import(&series, &points, false).unwrap();
    history.set_baseline("release", "a").unwrap();
    let all = everything(&history).unwrap();
    (path, all)
}

/// Rebuilt, it says what it said before, and a second time as well.
#[track_caller]
fn check(path: &Path, folders: &[PathBuf], expect: &Everything) -> history::Rebuilt {
    let rebuilt = History::rebuild(path, folders, false).unwrap();
    let history = History::open(path).unwrap();
    history.check().unwrap();
    assert_eq!(everything(&history).unwrap(), *expect);
    let again = History::rebuild(path, &[], false).unwrap();
    assert_eq!((again.points, again.damaged), (rebuilt.points, None));
    assert_eq!(everything(&history).unwrap(), *expect);
    rebuilt
}

#[test]
fn a_sound_history_is_made_again_in_place() {
    let home = tempfile::tempdir().unwrap();
    let (path, expect) = filled(home.path());
    let rebuilt = check(&path, &[], &expect);
    assert_eq!((rebuilt.sessions, rebuilt.imports), (2, 1));
    assert_eq!(rebuilt.damaged, None);
}

#[test]
fn a_damaged_history_is_noticed_and_made_again() {
    let damages: [fn(&Path); 4] = [
        // The head of a page: every page of a full file holds rows.
        |path| {
            let mut bytes = fs::read(path).unwrap();
            let last = bytes.len() - 4096;
            bytes[last..last + 200].fill(0xaa);
            fs::write(path, bytes).unwrap();
        },
        |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[..100].fill(0xff);
            fs::write(path, bytes).unwrap();
        },
        |path| fs::write(path, "").unwrap(),
        |path| fs::remove_file(path).unwrap(),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let home = tempfile::tempdir().unwrap();
        let (path, expect) = filled(home.path());
        damage(&path);
        let noticed = History::open_existing(&path)
            .and_then(|history| history.set_baseline("x", "b"))
            .unwrap_err();
        assert!(
            matches!(noticed, HistoryError::Damaged { .. }),
            "{number}: {noticed}"
        );
        let rebuilt = check(&path, &[], &expect);
        assert_eq!(rebuilt.damaged.is_some(), number < 2, "{number}");
    }
}

#[test]
fn folders_that_were_moved_are_looked_for() {
    let home = tempfile::tempdir().unwrap();
    let (path, expect) = filled(home.path());
    let moved = home.path().join("archive");
    fs::create_dir(&moved).unwrap();
    fs::rename(home.path().join("a"), moved.join("2026-a")).unwrap();
    let error = History::rebuild(&path, &[], false).unwrap_err();
    assert!(
        matches!(&error, HistoryError::MissingFolders(sessions) if sessions[..] == ["a"]),
        "{error}"
    );
    assert_eq!(everything(&History::open(&path).unwrap()).unwrap(), expect);
    check(&path, std::slice::from_ref(&moved), &expect);

    fs::remove_dir_all(&moved).unwrap();
    let rebuilt = History::rebuild(&path, &[], true).unwrap();
    assert_eq!(rebuilt.dropped, ["a"]);
    let history = History::open(&path).unwrap();
    let left = history.sessions(&SessionFilter::default()).unwrap();
    assert_eq!(left.len(), 1);
    assert!(history.baselines().unwrap().is_empty());
}

#[test]
fn folders_alone_make_a_history() {
    let home = tempfile::tempdir().unwrap();
    let (path, expect) = filled(home.path());
    fs::remove_file(&path).unwrap();
    fs::remove_dir_all(home.path().join("h.sqlite.sources")).unwrap();
    let error = History::rebuild(&path, &[], false).unwrap_err();
    assert!(matches!(error, HistoryError::Missing { .. }), "{error}");
    History::rebuild(&path, &[home.path().to_owned()], false).unwrap();
    let (mut sessions, _) = everything(&History::open(&path).unwrap()).unwrap();
    // The labels are in the folders, the baselines are not.
    sessions[1].baselines = vec!["release".into()];
    assert_eq!(sessions, expect.0);
    let other = home.path().join("other.sqlite");
    let empty = tempfile::tempdir().unwrap();
    let error = History::rebuild(&other, &[empty.path().to_owned()], false).unwrap_err();
    assert!(matches!(error, HistoryError::Folder(_)), "{error}");
}
