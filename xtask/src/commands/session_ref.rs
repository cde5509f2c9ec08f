//! Which session an argument of the command line names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use history::{History, SessionFilter};
use record::SessionFolder;

use crate::{
    cli::HistoryFile,
    commands::history::file,
    error::{Error, Result},
    printer::Printer,
};

/// A session's folder, and one of its images where one is named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) folder: PathBuf,
    pub(crate) image: Option<String>,
}

/// What an argument names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ref {
    Folder(PathBuf),
    Baseline(String),
    NewestOfBranch(String),
    NewestWithImage(String),
}

/// Finds the session. The history keeps names of sessions; their folders lie below `sessions`.
pub(crate) fn find(text: &str, sessions: &Path, db: &HistoryFile) -> Result<Found> {
    find_fitting(text, sessions, db, Ok, |_| true)
}

/// Says what of a session's records was left out.
pub(crate) fn note_left_out(session: &str, left_out: &[String], printer: &Printer) {
    for what in left_out {
        printer.note(&format!("warning: {session}: {what}"));
    }
}

/// Whether the history is asked for the newest of several sessions.
pub(crate) fn asks_for_newest(text: &str) -> bool {
    let (named, _) = read(text, Path::new(text).is_dir());
    matches!(named, Ref::NewestOfBranch(_) | Ref::NewestWithImage(_))
}

/// Whether the session is looked up in the history.
pub(crate) fn asks_history(text: &str) -> bool {
    let (named, _) = read(text, Path::new(text).is_dir());
    !matches!(named, Ref::Folder(_))
}

/// Finds and reads the session; where the newest of several is asked for, the newest that `fits`,
/// or else the newest of all, so that whoever reads it says what is wrong with it.
pub(crate) fn find_fitting<T>(
    text: &str,
    sessions: &Path,
    db: &HistoryFile,
    read_found: impl Fn(Found) -> Result<T>,
    fits: impl Fn(&T) -> bool,
) -> Result<T> {
    let (named, image) = read(text, Path::new(text).is_dir());
    let open = || Ok::<_, Error>(History::open_existing(file(db)?)?);
    let filter = SessionFilter {
        complete_only: true,
        ..SessionFilter::default()
    };
    let found = match named {
        Ref::Folder(folder) => return read_found(Found { folder, image }),
        Ref::Baseline(name) => vec![open()?.baseline(&name)?],
        Ref::NewestOfBranch(branch) => open()?.sessions(&SessionFilter {
            branch: Some(branch),
            ..filter
        })?,
        Ref::NewestWithImage(image) => open()?.sessions(&SessionFilter {
            image: Some(image),
            ..filter
        })?,
    };
    let mut newest = None;
    for session in found {
        let folder = folder_of(&session.session, sessions).ok_or_else(|| Error::NoFolder {
            session: session.session,
            sessions: sessions.to_owned(),
        })?;
        let image = image.clone();
        let candidate = read_found(Found { folder, image })?;
        if fits(&candidate) {
            return Ok(candidate);
        }
        newest.get_or_insert(candidate);
    }
    newest.ok_or_else(|| Error::NoSession {
        text: text.to_owned(),
    })
}

/// `SESSION`, `@BASELINE`, `branch=NAME` or `image=NAME`, each with `:IMAGE` behind it or without.
/// What is a folder as it stands is taken as one.
fn read(text: &str, is_folder: bool) -> (Ref, Option<String>) {
    if is_folder {
        return (Ref::Folder(text.into()), None);
    }
    if let Some(image) = text.strip_prefix("image=") {
        return (
            Ref::NewestWithImage(image.to_owned()),
            Some(image.to_owned()),
        );
    }
    let (place, image) = match text.rsplit_once(':') {
        Some((place, image)) => (place, Some(image.to_owned())),
        None => (text, None),
    };
    let named = if let Some(name) = place.strip_prefix('@') {
        Ref::Baseline(name.to_owned())
    } else if let Some(branch) = place.strip_prefix("branch=") {
        Ref::NewestOfBranch(branch.to_owned())
    } else {
        Ref::Folder(place.into())
    };
    (named, image)
}

/// The folder below `sessions` whose session has this name: mostly of the same name, but `--out`
/// may have named it otherwise.
fn folder_of(session: &str, sessions: &Path) -> Option<PathBuf> {
    let holds = |folder: &PathBuf| {
        SessionFolder::at(folder)
            .read_session()
            .is_ok_and(|found| found.session == session)
    };
    let named = sessions.join(session);
    if holds(&named) {
        return Some(named);
    }
    let mut folders: Vec<PathBuf> = fs::read_dir(sessions)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders.into_iter().find(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_branch_or_an_image_leaves_a_choice() {
        for (text, choice) in [
            ("branch=main:img", true),
            ("image=img", true),
            ("@release", false),
            ("sessions/a:img", false),
        ] {
            assert_eq!(asks_for_newest(text), choice, "{text}");
        }
    }

    #[test]
    fn arguments_for_sessions() {
        let check = |text: &str, named: Ref, image: Option<&str>| {
            assert_eq!(
                read(text, false),
                (named, image.map(str::to_owned)),
                "{text}"
            );
        };
        check("sessions/a", Ref::Folder("sessions/a".into()), None);
        check("a:img", Ref::Folder("a".into()), Some("img"));
        check("@release", Ref::Baseline("release".into()), None);
        check("@release:img", Ref::Baseline("release".into()), Some("img"));
        check("branch=fix/x", Ref::NewestOfBranch("fix/x".into()), None);
        check("image=img", Ref::NewestWithImage("img".into()), Some("img"));
        assert_eq!(read("a:b", true), (Ref::Folder("a:b".into()), None));
    }
}
