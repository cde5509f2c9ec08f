//! Which session an argument of the command line names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use history::{SeriesFilter, SessionFilter, SessionInfo};
use record::SessionFolder;

use crate::{
    cli::history::{self as command, HistoryFolder},
    error::{Error, Result},
    printer::Printer,
};

/// A session's folder, and one of its images where one is named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) folder: PathBuf,
    pub(crate) image: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ref {
    Folder(PathBuf),
    Recorded(String),
    NewestOfBranch(String),
    NewestWithImage(String),
}

/// Finds the session. The history keeps names of sessions; their folders lie below `sessions`.
pub(crate) fn find(
    text: &str,
    sessions: &Path,
    history: &HistoryFolder,
    printer: &Printer,
) -> Result<Found> {
    find_fitting(text, sessions, history, Ok, |_| true, printer)
}

/// Says what of a session's records was left out.
pub(crate) fn note_left_out(session: &str, left_out: &[String], printer: &Printer) {
    for what in left_out {
        printer.note(&format!("warning: {session}: {what}"));
    }
}

/// Whether the history is asked for the newest of several sessions.
pub(crate) fn asks_for_newest(text: &str) -> bool {
    use Ref::{NewestOfBranch, NewestWithImage};
    matches!(Ref::of(text), NewestOfBranch(_) | NewestWithImage(_))
}

/// Whether the session is looked up in the history.
pub(crate) fn asks_history(text: &str) -> bool {
    !matches!(Ref::of(text), Ref::Folder(_))
}

/// Finds and reads the session; where the newest of several is asked for, the newest that `fits`,
/// or else the newest of all, so that whoever reads it says what is wrong with it.
pub(crate) fn find_fitting<T>(
    text: &str,
    sessions: &Path,
    history: &HistoryFolder,
    read_found: impl Fn(Found) -> Result<T>,
    fits: impl Fn(&T) -> bool,
    printer: &Printer,
) -> Result<T> {
    let (named, image) = read(text, |folder| existing(folder, sessions).is_some());
    if let Ref::Folder(folder) = &named {
        let folder = existing(folder, sessions).unwrap_or_else(|| folder.clone());
        return read_found(Found { folder, image });
    }
    let mut newest = None;
    for session in recorded(&named, history, printer)? {
        let Some(folder) = folder_of(&session.session, sessions) else {
            return Err(Error::Input(format!(
                "the history names the session {}, and its folder is not below {}; name its parent \
                 folder with --sessions DIR",
                session.session,
                sessions.display()
            )));
        };
        let image = image.clone();
        let candidate = read_found(Found { folder, image })?;
        if fits(&candidate) {
            return Ok(candidate);
        }
        newest.get_or_insert(candidate);
    }
    newest.ok_or_else(|| {
        Error::Input(format!(
            "the history has no complete session that matches `{text}`; `{} history list --sessions` \
             names what it has",
            protocol::program()
        ))
    })
}

impl Ref {
    /// What a text names that has no image behind it.
    fn of(text: &str) -> Self {
        if let Some(image) = text.strip_prefix("image=") {
            Self::NewestWithImage(image.to_owned())
        } else if let Some(name) = text.strip_prefix('@') {
            Self::Recorded(name.to_owned())
        } else if let Some(branch) = text.strip_prefix("branch=") {
            Self::NewestOfBranch(branch.to_owned())
        } else {
            Self::Folder(text.into())
        }
    }
}

/// `SESSION`, `@NAME`, `branch=NAME` or `image=NAME`, each but the last with `:IMAGE` behind it
/// or without. Folders and images may have colons in their names, names of sessions and branches none: the
/// longest text before one that is a session's folder is the session.
fn read(text: &str, is_session: impl Fn(&Path) -> bool) -> (Ref, Option<String>) {
    let whole = Ref::of(text);
    let split_at = match &whole {
        Ref::NewestWithImage(image) => {
            let image = image.clone();
            return (whole, Some(image));
        }
        Ref::Recorded(_) | Ref::NewestOfBranch(_) => text.find(':'),
        Ref::Folder(folder) if is_session(folder) => None,
        Ref::Folder(_) => {
            let mut colons = text.rmatch_indices(':').map(|(at, _)| at);
            colons
                .find(|&at| is_session(Path::new(&text[..at])))
                .or_else(|| text.rfind(':'))
        }
    };
    match split_at {
        Some(at) => (Ref::of(&text[..at]), Some(text[at + 1..].to_owned())),
        None => (whole, None),
    }
}

/// The sessions that the history has of what is named, the newest first.
fn recorded(named: &Ref, history: &HistoryFolder, printer: &Printer) -> Result<Vec<SessionInfo>> {
    let history = history.existing()?;
    let mut filter = SessionFilter {
        complete_only: true,
        ..SessionFilter::default()
    };
    match named {
        Ref::Folder(_) => return Ok(Vec::new()),
        Ref::Recorded(name) => return Ok(vec![history.session(name)?]),
        Ref::NewestOfBranch(branch) => filter.branch = Some(branch.clone()),
        Ref::NewestWithImage(image) => filter.image = Some(image.clone()),
    }
    Ok(command::read(&history, &SeriesFilter::default(), printer).sessions(&filter))
}

/// A session's folder that is there: as it is written, or below `sessions`, where the name of the
/// session or of its folder is enough.
fn existing(folder: &Path, sessions: &Path) -> Option<PathBuf> {
    if folder.is_dir() {
        return Some(folder.to_owned());
    }
    let below = || Some(sessions.join(folder)).filter(|below| below.is_dir());
    folder_of(folder.to_str()?, sessions).or_else(below)
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
    let folders = fs::read_dir(sessions).ok()?.flatten();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
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
    fn the_name_of_a_folder_below_the_sessions_is_enough() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("fixed2")).unwrap();
        let found = |name: &str| existing(Path::new(name), home.path());
        assert_eq!(found("fixed2"), Some(home.path().join("fixed2")));
        assert_eq!(found("fixed3"), None);
    }

    #[test]
    fn arguments_for_sessions() {
        let check = |text: &str, named: Ref, image: Option<&str>| {
            let is_session = |folder: &Path| ["a", "a:b"].map(Path::new).contains(&folder);
            assert_eq!(
                read(text, is_session),
                (named, image.map(str::to_owned)),
                "{text}"
            );
        };
        check("sessions/a", Ref::Folder("sessions/a".into()), None);
        check("a:img", Ref::Folder("a".into()), Some("img"));
        check("gone:img", Ref::Folder("gone".into()), Some("img"));
        check("@release", Ref::Recorded("release".into()), None);
        check("@release:img", Ref::Recorded("release".into()), Some("img"));
        check("branch=fix/x", Ref::NewestOfBranch("fix/x".into()), None);
        check("image=r:1", Ref::NewestWithImage("r:1".into()), Some("r:1"));
        check("a:b", Ref::Folder("a:b".into()), None);
        check("a:b:img", Ref::Folder("a:b".into()), Some("img"));
        let reference = "registry.example:5000/team/images@sha256:00ff";
        let text = format!("a:{reference}");
        check(&text, Ref::Folder("a".into()), Some(reference));
        let text = format!("@release:{reference}");
        check(&text, Ref::Recorded("release".into()), Some(reference));
    }
}
