//! Which session a word of the command line means.

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
};

/// A session's folder, and one of its images where one is named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) image: Option<String>,
}

/// What a word means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Folder(PathBuf),
    Baseline(String),
    NewestOfBranch(String),
    NewestWithImage(String),
}

/// Finds the session. The history keeps names of sessions; their folders lie below `sessions`.
pub(crate) fn find(text: &str, sessions: &Path, db: &HistoryFile) -> Result<Place> {
    let (word, image) = read(text, Path::new(text).is_dir());
    let open = || Ok::<_, Error>(History::open_existing(file(db)?)?);
    let newest = |filter: SessionFilter| {
        open()?.newest(&filter)?.ok_or_else(|| Error::NoSession {
            text: text.to_owned(),
        })
    };
    let filter = SessionFilter {
        complete_only: true,
        ..SessionFilter::default()
    };
    let session = match word {
        Word::Folder(folder) => return Ok(Place { folder, image }),
        Word::Baseline(name) => open()?.baseline(&name)?,
        Word::NewestOfBranch(branch) => newest(SessionFilter {
            branch: Some(branch),
            ..filter
        })?,
        Word::NewestWithImage(image) => newest(SessionFilter {
            image: Some(image),
            ..filter
        })?,
    };
    let folder = folder_of(&session.session, sessions).ok_or_else(|| Error::NoFolder {
        session: session.session,
        sessions: sessions.to_owned(),
    })?;
    Ok(Place { folder, image })
}

/// `SESSION`, `@BASELINE`, `branch=NAME` or `image=NAME`, each with `:IMAGE` behind it or without.
/// What is a folder as it stands is taken as one.
fn read(text: &str, is_folder: bool) -> (Word, Option<String>) {
    if is_folder {
        return (Word::Folder(text.into()), None);
    }
    if let Some(image) = text.strip_prefix("image=") {
        return (
            Word::NewestWithImage(image.to_owned()),
            Some(image.to_owned()),
        );
    }
    let (place, image) = match text.rsplit_once(':') {
        Some((place, image)) => (place, Some(image.to_owned())),
        None => (text, None),
    };
    let word = if let Some(name) = place.strip_prefix('@') {
        Word::Baseline(name.to_owned())
    } else if let Some(branch) = place.strip_prefix("branch=") {
        Word::NewestOfBranch(branch.to_owned())
    } else {
        Word::Folder(place.into())
    };
    (word, image)
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
    fn words_for_sessions() {
        let check = |text: &str, word: Word, image: Option<&str>| {
            assert_eq!(
                read(text, false),
                (word, image.map(str::to_owned)),
                "{text}"
            );
        };
        check("sessions/a", Word::Folder("sessions/a".into()), None);
        check("a:img", Word::Folder("a".into()), Some("img"));
        check("@release", Word::Baseline("release".into()), None);
        check(
            "@release:img",
            Word::Baseline("release".into()),
            Some("img"),
        );
        check("branch=fix/x", Word::NewestOfBranch("fix/x".into()), None);
        check(
            "image=img",
            Word::NewestWithImage("img".into()),
            Some("img"),
        );
        assert_eq!(read("a:b", true), (Word::Folder("a:b".into()), None));
    }
}
