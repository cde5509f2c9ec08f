//! Sessions by name and by branch.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    History, HistoryError,
    disk::remove,
    error::refused,
    file::SessionFile,
    folder::Contents,
    key::{fits, matches},
    of_records::seconds,
};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionInfo {
    pub session: String,
    /// When it began, in seconds since 1970-01-01 UTC.
    pub started: f64,
    /// When it ended; `None` where it was cut off.
    pub ended: Option<f64>,
    /// Whether every planned run had a record.
    pub complete: bool,
    pub machine: String,
    /// The NVIDIA driver's version, or `none`.
    pub driver: String,
    /// Version of the Torchgauge that measured.
    pub tool_version: String,
    /// What was measured, such as a commit; `None` where each image's ID stands for it.
    pub revision: Option<String>,
    /// The branch, where one was given.
    pub branch: Option<String>,
    pub images: Vec<String>,
    pub runs: usize,
    pub failed: usize,
    pub points: usize,
}

/// Which sessions to take. A part that is `None` takes all; `*` matches any characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Of this branch; sessions without one are left out.
    pub branch: Option<String>,
    pub image: Option<String>,
    /// Those whose every planned run has a record.
    pub complete_only: bool,
}

impl SessionFilter {
    fn takes(&self, session: &SessionInfo) -> bool {
        let image = self.image.as_ref();
        fits(self.branch.as_deref(), session.branch.as_deref())
            && image.is_none_or(|image| session.images.iter().any(|has| matches(image, has)))
            && (session.complete || !self.complete_only)
    }
}

impl Contents {
    /// The sessions that fit, newest first.
    pub fn sessions(&self, filter: &SessionFilter) -> Vec<SessionInfo> {
        let newest_first = self.sessions.iter().rev();
        let all = newest_first.map(info);
        all.filter(|session| filter.takes(session)).collect()
    }
}

fn info(file: &SessionFile) -> SessionInfo {
    let images: BTreeSet<&String> = file.cells.iter().map(|cell| &cell.facts.image).collect();
    let [runs, failed, points] = file.counts();
    SessionInfo {
        session: file.session.clone(),
        started: seconds(file.started),
        ended: file.ended.map(seconds),
        complete: file.complete,
        machine: file.machine.name.clone(),
        driver: file
            .machine
            .driver
            .clone()
            .unwrap_or_else(|| "none".to_owned()),
        tool_version: file.tool.version.clone(),
        revision: file.revision().map(str::to_owned),
        branch: file.labels.branch.clone(),
        images: images.into_iter().cloned().collect(),
        runs,
        failed,
        points,
    }
}

impl History {
    pub fn session(&self, name: &str) -> Result<SessionInfo, HistoryError> {
        let found = self.find(name);
        found
            .first()
            .map_or_else(|| no_session(name), |file| Ok(info(file)))
    }

    /// Takes a session with its runs and points out, and says what it was. Its folder is not touched.
    pub fn remove(&self, session: &str) -> Result<SessionInfo, HistoryError> {
        let found = self.find(session);
        let Some(first) = found.first() else {
            return no_session(session);
        };
        for file in &found {
            remove(&self.results().join(file.place()))?;
        }
        Ok(info(first))
    }
}

fn no_session<T>(name: &str) -> Result<T, HistoryError> {
    refused(format!(
        "no session {name} in the history; `history list --sessions` names them"
    ))
}
