//! Which executors there are, and choosing one.

use std::{error::Error, fmt, path::Path, str::FromStr, sync::Arc};

use futures_util::future::BoxFuture;
use serde::Serialize;

use super::{Executor, SourceError, container, mock, process};
use crate::host::Host;

/// Every executor, in the order in which `auto` tries them.
pub const EXECUTORS: [Registration; 3] = [
    container::REGISTRATION,
    process::REGISTRATION,
    mock::REGISTRATION,
];

/// What is known about an executor before it is opened.
#[derive(Debug)]
pub struct Registration {
    /// Its word on the command line. What follows a colon there is its argument.
    pub word: &'static str,
    /// Where runs execute, for the command line's help.
    pub help: &'static str,
    /// Whether `auto` tries it.
    pub is_automatic: bool,
    /// Whether the command line's help leaves it out.
    pub is_hidden: bool,
    /// Whether images are loaded into an engine for it.
    pub loads_images: bool,
    /// Connects to whatever carries runs out; with the argument, empty where none was given.
    pub open: fn(Arc<dyn Host>, String) -> BoxFuture<'static, Opening>,
    /// What works of it on this machine, and the fix where something does not.
    pub examine: fn() -> BoxFuture<'static, Vec<Finding>>,
    /// Ends what is left of runs whose folders are in this one, and gives how many there were.
    pub sweep: fn(&Path) -> usize,
}

/// What opening an executor comes to.
pub type Opening = Result<Box<dyn Executor>, ExecutorError>;

/// Why an executor cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// What it was given makes no sense.
    #[error("{0}")]
    Argument(Box<dyn Error + Send + Sync>),
    /// What it was told to use on another machine does not answer.
    #[error("{0}")]
    Elsewhere(Box<dyn Error + Send + Sync>),
    /// The machine does not have what it needs.
    #[error("{0}")]
    Unavailable(Box<dyn Error + Send + Sync>),
    /// An image cannot be made.
    #[error("{0}")]
    Image(SourceError),
}

/// Something that was looked at on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Works.
    Ok,
    /// Not here, and not needed for everything.
    Missing,
}

impl Finding {
    /// Something that works.
    #[must_use]
    pub fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Ok,
            found: found.into(),
            fix: None,
        }
    }

    /// Something that is not here.
    #[must_use]
    pub fn missing(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            what,
            state: State::Missing,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

/// Which executor the user wants.
#[derive(Debug, Clone)]
pub enum Choice {
    /// The first that can be opened.
    Auto,
    /// This one, with its argument.
    Named(&'static Registration, String),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let (word, argument) = text.split_once(':').unwrap_or((text, ""));
        let named = EXECUTORS.iter().find(|executor| executor.word == word);
        // Those that are shown take no argument.
        match named.filter(|executor| executor.is_hidden || word == text) {
            Some(executor) => Ok(Self::Named(executor, argument.to_owned())),
            None => Err(format!("expected {}", words())),
        }
    }
}

/// As it is read.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Named(executor, argument) if argument.is_empty() => f.write_str(executor.word),
            Self::Named(executor, argument) => write!(f, "{}:{argument}", executor.word),
        }
    }
}

/// The words that a user may choose between.
fn words() -> String {
    let shown = EXECUTORS.iter().filter(|executor| !executor.is_hidden);
    let words: Vec<&str> = shown.map(|executor| executor.word).collect();
    format!("auto or one of {}", words.join(", "))
}

/// An executor, and why others that came before it were not taken.
pub struct Opened {
    /// The executor.
    pub executor: Box<dyn Executor>,
    /// Which one it is.
    pub choice: Choice,
    /// Why not others.
    pub notes: Vec<String>,
}

impl Choice {
    /// The executor's word; `None` where any will do.
    #[must_use]
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Named(executor, _) => Some(executor.word),
        }
    }

    /// Whether images are loaded into an engine for the executor that [`Choice::open`] opens.
    pub async fn loads_images(
        &self,
        host: &Arc<dyn Host>,
        is_ci: bool,
    ) -> Result<bool, ExecutorError> {
        match self {
            Self::Named(executor, _) => Ok(executor.loads_images),
            Self::Auto => match self.open(host, is_ci).await?.choice {
                Self::Named(executor, _) => Ok(executor.loads_images),
                Self::Auto => Ok(false),
            },
        }
    }

    /// Opens the executor. In CI (`is_ci`) `auto` takes the first alone: what fell back there would
    /// be measured otherwise than before, and nobody would see.
    pub async fn open(&self, host: &Arc<dyn Host>, is_ci: bool) -> Result<Opened, ExecutorError> {
        let mut notes = Vec::new();
        let automatic = EXECUTORS.iter().filter(|executor| executor.is_automatic);
        let (candidates, argument): (Vec<&'static Registration>, &str) = match self {
            Self::Auto if is_ci => (automatic.take(1).collect(), ""),
            Self::Auto => (automatic.collect(), ""),
            Self::Named(executor, argument) => (vec![executor], argument),
        };
        let mut first_error = None;
        for candidate in candidates {
            match (candidate.open)(Arc::clone(host), argument.to_owned()).await {
                Ok(executor) => {
                    let choice = Self::Named(candidate, argument.to_owned());
                    return Ok(Opened {
                        executor,
                        choice,
                        notes,
                    });
                }
                // What the user chose and cannot work is refused; nothing takes its place.
                Err(error @ (ExecutorError::Argument(_) | ExecutorError::Elsewhere(_))) => {
                    return Err(error);
                }
                Err(error) => {
                    notes.push(format!("no {}: {error}", candidate.word));
                    first_error.get_or_insert(error);
                }
            }
        }
        let error = first_error.unwrap_or_else(|| ExecutorError::Argument("no executor".into()));
        Err(match error {
            ExecutorError::Unavailable(why) if is_ci && matches!(self, Self::Auto) => {
                let next = "in CI (CI=true) nothing falls back to plain processes; \
                            start an engine, or pass --engine process";
                ExecutorError::Unavailable(format!("{why}; {next}").into())
            }
            error => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read() {
        let word = |text: &str| match text.parse() {
            Ok(Choice::Auto) => "auto".to_owned(),
            Ok(Choice::Named(executor, argument)) => format!("{}({argument})", executor.word),
            Err(error) => error,
        };
        assert_eq!(word("auto"), "auto");
        assert_eq!(word("docker"), "docker()");
        assert_eq!(word("mock:*=oom;b1=ok:2"), "mock(*=oom;b1=ok:2)");
        for text in ["podman", "docker:1", ""] {
            assert_eq!(word(text), "expected auto or one of docker, process");
        }
    }
}
