//! The search as it stands, in a file that it can be taken up from.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use judge::compare::Interval;
use record::{CellPlan, Reason};
use serde::{Deserialize, Serialize};

pub const VERSION: u32 = 3;
/// The file, in the folder of the search.
pub const STATE: &str = "bisect.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bisection {
    pub version: u32,
    /// What the command line asked for.
    pub asked: Asked,
    /// How often the search as a whole may be wrong.
    pub error: f64,
    /// From the good end to the bad one; at least two.
    pub candidates: Vec<Candidate>,
    /// What is followed; `None` until the ends were measured.
    pub change: Option<Change>,
    pub decisions: Vec<Decision>,
    /// The suite's digest, once it was measured: another suite would answer another question.
    pub suite_sha256: Option<String>,
}

/// What the command line of a search asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The suite, as it was given, with its scenario where one was named; of a program on the command
    /// line, what its suite is called.
    pub suite: String,
    /// The suite of a program on the command line, as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The metric to follow; `None`: the one that regressed most.
    pub metric: Option<String>,
    /// Seconds that a comparison may take.
    pub time_budget_seconds: f64,
    pub most_blocks: u32,
    /// The device's word; `None`: what there is.
    pub device: Option<String>,
    /// The executor, with its argument; `None`: the first that works.
    pub engine: Option<String>,
    /// Whether other sessions may measure on the same GPU at the same time.
    pub share_gpu: bool,
    #[serde(default)]
    pub share_cpu: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    pub name: String,
    pub image: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub suite: String,
    pub scenario: String,
    /// The choice on every axis, as text.
    pub variant: String,
    pub followed: Followed,
}

/// What tells a bad candidate from a good one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Followed {
    Metric {
        name: String,
        /// Bad ÷ good, as the ends showed it.
        ratio: f64,
    },
    Failure {
        /// For which reasons those of the bad end did; a failure for another one is not it.
        reasons: BTreeSet<Reason>,
    },
}

/// On which side of the change a candidate lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// On the side of the good end.
    Good,
    /// On the side of the bad end.
    Bad,
    /// It cannot be told: its runs failed, some of them or otherwise than the bad end's where failing
    /// is what is followed, or scatter too widely for the time that there was.
    Unmeasured,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// What moved between the ends, if anything did.
    Ends,
    /// On which side of half of the change a candidate lies.
    Side,
    /// How large the change is between neighbours.
    Size,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    pub purpose: Purpose,
    /// What was compared against, by its place among the candidates.
    pub base: usize,
    pub head: usize,
    pub judgement: Judgement,
    /// How often it may be wrong; 0 where failures are counted, which is no test.
    pub error: f64,
    /// The session's folder, below that of the search.
    pub session: String,
    /// Head ÷ base.
    pub ratio: Option<f64>,
    /// Its interval, at 1 − `error`.
    pub interval: Option<Interval>,
    pub blocks: u32,
    /// Runs of the head that failed, in words, where failing is what is followed.
    pub failed: Option<String>,
    /// Why it could not be told.
    pub why: Option<String>,
}

/// A search that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    /// What was asked for, or what its file says, cannot be: why, and what is expected.
    #[error("{0}")]
    Refused(String),
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
}

fn refused<T>(message: impl Into<String>) -> Result<T, BisectError> {
    Err(BisectError::Refused(message.into()))
}

impl Change {
    pub fn of(cell: &CellPlan, followed: Followed) -> Self {
        Self {
            suite: cell.suite.clone(),
            scenario: cell.scenario.clone(),
            variant: cell.axes.to_string(),
            followed,
        }
    }

    /// The metric's name, where one is followed.
    pub fn metric(&self) -> Option<&str> {
        match &self.followed {
            Followed::Metric { name, .. } => Some(name),
            Followed::Failure { .. } => None,
        }
    }

    /// Half of the change of the metric, in logarithms: what lies beyond is bad.
    pub fn half(&self) -> Option<f64> {
        match &self.followed {
            Followed::Metric { ratio, .. } => Some(ratio.sqrt()),
            Followed::Failure { .. } => None,
        }
    }

    /// Whether a cell is the one that is followed.
    pub fn is_in(&self, cell: &CellPlan) -> bool {
        (&self.suite, &self.scenario) == (&cell.suite, &cell.scenario)
            && self.variant == cell.axes.to_string()
    }
}

impl Bisection {
    /// A search before its first comparison.
    pub fn new(asked: Asked, error: f64, candidates: Vec<Candidate>) -> Result<Self, BisectError> {
        if candidates.len() < 2 {
            return refused("--good and --bad are the same; a search takes two that differ");
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = candidates.iter().find(|one| !names.insert(&one.name)) {
            return refused(format!(
                "two of the images are called `{}`; each needs a name of its own",
                twice.name
            ));
        }
        Ok(Self {
            version: VERSION,
            asked,
            error,
            candidates,
            change: None,
            decisions: Vec::new(),
            suite_sha256: None,
        })
    }

    /// Takes up the search in this folder.
    pub fn read(folder: &Path) -> Result<Self, BisectError> {
        let path = folder.join(STATE);
        read(&path).or_else(|why| {
            let path = path.display();
            refused(format!(
                "{path}: {why}; expected the folder of a search, as `bisect --out` names it"
            ))
        })
    }

    /// Keeps the search as it stands.
    pub fn write(&self, folder: &Path) -> Result<(), BisectError> {
        let path = folder.join(STATE);
        let failed = |source| BisectError::Write {
            path: path.clone(),
            source,
        };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        text.push('\n');
        regular_file::replace(&path, |file| file.write_all(text.as_bytes())).map_err(failed)
    }

    /// Where the next comparison's session lies, below the folder of the search.
    pub fn next_session(&self, base: usize, head: usize) -> String {
        let word = |place: usize| {
            let name = self.candidates[place].name.chars();
            let name = name.map(|c| {
                if c.is_alphanumeric() || ".-_".contains(c) {
                    c
                } else {
                    '-'
                }
            });
            name.take(40).collect::<String>()
        };
        let number = self.decisions.len() + 1;
        format!("{number:02}-{}-{}", word(base), word(head))
    }
}

fn read(path: &Path) -> Result<Bisection, String> {
    let text = regular_file::read_text(path).map_err(|error| error.to_string())?;
    let words = |error: serde_json::Error| error.to_string();
    let value: serde_json::Value = serde_json::from_str(&text).map_err(words)?;
    if value["version"] != VERSION {
        return Err(format!("version {}, expected {VERSION}", value["version"]));
    }
    let read: Bisection = serde_json::from_value(value).map_err(words)?;
    let mut places = read.decisions.iter().flat_map(|one| [one.base, one.head]);
    if read.candidates.len() < 2 {
        return Err("fewer than two candidates".to_owned());
    }
    if places.any(|place| place >= read.candidates.len()) {
        return Err("a decision about a candidate that it does not name".to_owned());
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_search_is_read_as_it_was_written_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let candidates = |names: &[&str]| {
            let named = |name: &&str| Candidate {
                name: (*name).to_owned(),
                image: (*name).to_owned(),
            };
            names.iter().map(named).collect()
        };
        let search = Bisection::new(Asked::default(), 0.05, candidates(&["a", "b"])).unwrap();
        search.write(folder.path()).unwrap();
        assert_eq!(Bisection::read(folder.path()).unwrap(), search);
        let file = folder.path().join(STATE);
        let text = fs::read_to_string(&file).unwrap();
        for (from, to, word) in [
            ("\"version\": 3", "\"version\": 9", "version 9"),
            ("\"decisions\"", "\"decided\"", "decided"),
            ("{", "", "expected"),
        ] {
            fs::write(&file, text.replacen(from, to, 1)).unwrap();
            let error = Bisection::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        for too_few in [&["a", "a"][..], &["a"]] {
            Bisection::new(Asked::default(), 0.05, candidates(too_few)).unwrap_err();
        }
    }
}
