//! Where an image's sources stand: said beside an image, and never part of what its ID follows
//! from. The same image comes out of every commit that leaves its parts alone.

use std::{collections::BTreeMap, path::Path, process::Command};

use crate::{
    program,
    spec::reserved::{ANNOTATION_REVISION, ANNOTATION_SOURCE},
};

/// The OCI annotations for a checkout: its revision, and where it was cloned from. Empty where git
/// knows nothing of it.
pub(crate) fn annotations(workspace: &Path) -> BTreeMap<String, String> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(workspace).args(words);
        program::output(&mut command, "name the checkout's revision", "")
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let mut found = BTreeMap::new();
    if let Some(revision) = git(&["rev-parse", "HEAD"]) {
        let is_changed = git(&["status", "--porcelain"]).is_none_or(|text| !text.is_empty());
        let end = if is_changed { "-changed" } else { "" };
        found.insert(ANNOTATION_REVISION.to_owned(), format!("{revision}{end}"));
    }
    let source = git(&["config", "--get", "remote.origin.url"]);
    if let Some(url) = source.as_deref().and_then(public_url) {
        found.insert(ANNOTATION_SOURCE.to_owned(), url);
    }
    found
}

/// A URL that others can follow, without the name and the password that may stand in it.
fn public_url(remote: &str) -> Option<String> {
    let (scheme, rest) = remote.split_once("://")?;
    if !["http", "https"].contains(&scheme) {
        return None;
    }
    let (host, path) = rest.split_once('/')?;
    let host = host.rsplit('@').next()?;
    Some(format!("{scheme}://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_can_follow_is_a_source_and_no_password_is_in_it() {
        for (remote, expect) in [
            (
                "https://host.example/a/b.git",
                Some("https://host.example/a/b.git"),
            ),
            (
                "https://me:secret@host.example/a/b",
                Some("https://host.example/a/b"),
            ),
            ("git@host.example:a/b.git", None),
            ("/home/me/b", None),
        ] {
            assert_eq!(public_url(remote).as_deref(), expect, "{remote}");
        }
    }

    #[test]
    fn a_checkout_has_a_revision_and_other_folders_have_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(annotations(folder.path()), BTreeMap::new());
        let git = |words: &[&str]| {
            let status = Command::new("git")
                .current_dir(folder.path())
                .args(["-c", "user.name=x", "-c", "user.email=x@example.com"])
                .args(words)
                .output()
                .unwrap()
                .status;
            assert!(status.success(), "{words:?}");
        };
        git(&["init", "--quiet"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", "x"]);
        let key = ANNOTATION_REVISION;
        assert_eq!(annotations(folder.path())[key].len(), 40);
        std::fs::write(folder.path().join("new"), "").unwrap();
        assert!(annotations(folder.path())[key].ends_with("-changed"));
    }
}
