//! Files that are no history, an older one, a newer one, or one that must not be changed.

use std::{env, fs, path::Path, process::Command};

use history::{Aggregate, History, HistoryError};
use rusqlite::Connection;

use crate::support::{add, plain, values};

#[test]
fn a_newer_version_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("h.sqlite");
    drop(History::open(&path).unwrap());
    Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let before = fs::read(&path).unwrap();
    let error = History::open(&path).unwrap_err();
    assert!(
        matches!(error, HistoryError::Version { got: 99, .. }),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_history_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("notes.txt");
    for text in [
        "x",
        "a letter to a friend, longer than any header of any database, and so on, and so on, and on",
    ] {
        fs::write(&path, text).unwrap();
        let error = History::open(&path).unwrap_err();
        assert!(matches!(error, HistoryError::NotAHistory { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let path = home.path().join("bookmarks.sqlite");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE bookmarks (url TEXT)")
        .unwrap();
    let before = fs::read(&path).unwrap();
    let error = History::open(&path).unwrap_err();
    assert!(matches!(error, HistoryError::NotAHistory { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);

    let error = History::open(home.path()).unwrap_err();
    assert!(matches!(error, HistoryError::Open { .. }), "{error}");
    let error = History::open(home.path().join("notes.txt").join("h.sqlite")).unwrap_err();
    assert!(matches!(error, HistoryError::Open { .. }), "{error}");
    let error = History::open_existing(home.path().join("gone.sqlite")).unwrap_err();
    assert!(matches!(error, HistoryError::Missing { .. }), "{error}");
    assert!(!home.path().join("gone.sqlite").exists());
}

#[test]
#[ignore = "the child of a_read_only_folder_can_be_read"]
fn child_reads_what_it_may_not_write() {
    let home = env::var_os("CHILD").expect("started by another test");
    let home = Path::new(&home);
    let path = home.join("h #1?.sqlite");
    let error = History::open(&path).unwrap_err();
    assert!(matches!(error, HistoryError::ReadOnly { .. }), "{error}");
    let history = History::open_existing(&path).unwrap();
    assert_eq!(values(&history, Aggregate::Session), [100.0]);
    history.check().unwrap();
    let error = history.set_baseline("x", "a").unwrap_err();
    assert!(matches!(error, HistoryError::ReadOnly { .. }), "{error}");
    let error = History::open(home.join("new.sqlite")).unwrap_err();
    assert!(matches!(error, HistoryError::ReadOnly { .. }), "{error}");

    let old = home.join("old.sqlite");
    let error = History::open_existing(&old).unwrap_err();
    assert!(
        matches!(error, HistoryError::Older { got: 3, .. }),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_can_be_read() {
    use std::os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    };

    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("mount");
    fs::create_dir(&folder).unwrap();
    let history = History::open(folder.join("h #1?.sqlite")).unwrap();
    add(&history, &plain(home.path(), "a", 0, 100.0));
    drop(history);
    fs::copy("tests/c557406/h.sqlite", folder.join("old.sqlite")).unwrap();

    // Nobody else's permissions count for root: then the child is nobody, and must be able to
    // reach its program.
    let exe = home.path().join("child");
    fs::copy(env::current_exe().unwrap(), &exe).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(home.path(), 0o755).unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        mode(&entry.unwrap().path(), 0o444).unwrap();
    }
    mode(&folder, 0o555).unwrap();
    let mut command = Command::new(&exe);
    command.args([
        "--exact",
        "--ignored",
        "opening::child_reads_what_it_may_not_write",
    ]);
    command.env("CHILD", &folder);
    if fs::metadata(home.path()).unwrap().uid() == 0 {
        command.uid(65_534);
    }
    let output = command.output().unwrap();
    mode(&folder, 0o755).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "the child of the_default_place_follows_the_environment"]
fn child_tells_the_default_place() {
    let expect = env::var_os("EXPECT").expect("started by another test");
    assert_eq!(history::default_path().unwrap(), Path::new(&expect));
}

#[test]
fn the_default_place_follows_the_environment() {
    for (data, expect) in [
        (Some("/data"), "/data/torchgauge/history.sqlite"),
        (None, "/home/u/.local/share/torchgauge/history.sqlite"),
        // The XDG specification: a relative path is to be ignored.
        (
            Some("data"),
            "/home/u/.local/share/torchgauge/history.sqlite",
        ),
    ] {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            "--ignored",
            "opening::child_tells_the_default_place",
        ]);
        command
            .env("HOME", "/home/u")
            .env_remove("XDG_DATA_HOME")
            .env("EXPECT", expect);
        if let Some(data) = data {
            command.env("XDG_DATA_HOME", data);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
    }
}
