//! Baselines: names for sessions, a file each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    History, HistoryError, SessionInfo,
    disk::{file_name, files, read_all, read_json, remove, write_json},
    error::refused,
    file::Version,
    sessions::info,
};

#[derive(Debug, Serialize, Deserialize)]
struct Baseline {
    version: Version,
    name: String,
    session: String,
}

impl History {
    /// Makes a session the baseline of this name. Returns the session that was it before.
    pub fn set_baseline(&self, name: &str, session: &str) -> Result<Option<String>, HistoryError> {
        check_name("baseline", name)?;
        if self.find(session).is_empty() {
            return no_session(session);
        }
        let before = self.baselines().remove(name);
        let baseline = Baseline {
            version: Version,
            name: name.to_owned(),
            session: session.to_owned(),
        };
        write_json(&self.baselines_folder().join(file_name(name)), &baseline)?;
        Ok(before)
    }

    /// The session that is the baseline of this name.
    pub fn baseline(&self, name: &str) -> Result<SessionInfo, HistoryError> {
        let baselines = self.baselines();
        let Some(session) = baselines.get(name) else {
            return no_baseline(name);
        };
        let found = self.find(session);
        let found = found.first().map(|file| info(file, &baselines));
        found.map_or_else(|| no_session(session), Ok)
    }

    /// The session of every baseline; files that cannot be read are left out.
    #[must_use]
    pub fn baselines(&self) -> BTreeMap<String, String> {
        self.read_baselines(&mut Vec::new())
    }

    /// Removes a baseline's name; the session stays.
    pub fn remove_baseline(&self, name: &str) -> Result<(), HistoryError> {
        if !self.baselines().contains_key(name) {
            return no_baseline(name);
        }
        remove(&self.baselines_folder().join(file_name(name)))
    }

    pub(crate) fn read_baselines(&self, left_out: &mut Vec<String>) -> BTreeMap<String, String> {
        let places = files(&self.baselines_folder(), &[], left_out);
        let all = read_all(&places, |path| read_json::<Baseline>(path), left_out);
        all.into_iter().map(|one| (one.name, one.session)).collect()
    }
}

/// Names come back in tables and on command lines.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), HistoryError> {
    let reason = if name.trim().is_empty() {
        "it is empty"
    } else if name.chars().any(char::is_control) {
        "it has control characters in it"
    } else if name.chars().count() > 200 {
        "it is longer than 200 characters"
    } else {
        return Ok(());
    };
    refused(format!("{what} {name:?} cannot be used: {reason}"))
}

pub(crate) fn no_session<T>(name: &str) -> Result<T, HistoryError> {
    refused(format!(
        "no session {name} in the history; `history list --sessions` names them"
    ))
}

fn no_baseline<T>(name: &str) -> Result<T, HistoryError> {
    refused(format!(
        "no baseline {name}; `history baseline list` names them"
    ))
}
