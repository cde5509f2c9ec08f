//! Choosing an executor, and opening it.

use std::{fmt, iter, str::FromStr};

use super::{
    EXECUTORS,
    executor::{Executor, ExecutorError, Registration},
    process, slurm,
};

#[derive(Debug, Clone)]
pub enum Choice {
    /// The first that can be opened.
    Auto,
    /// The first that isolates runs: nobody is there who would see that a node falls back.
    Isolated,
    Named(&'static Registration, String),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let alias = |executor: &'static Registration| {
            let mut aliases = executor.aliases.iter();
            let (_, argument, _) = aliases.find(|(word, ..)| *word == text)?;
            Some(Self::Named(executor, (*argument).to_owned()))
        };
        if let Some(named) = EXECUTORS.iter().find_map(alias) {
            return Ok(named);
        }
        let (word, argument) = match text.split_once(':') {
            Some((word, argument)) => (word, Some(argument)),
            None => (text, None),
        };
        let Some(executor) = EXECUTORS.iter().find(|executor| executor.word == word) else {
            return Err(format!("expected {}", words()));
        };
        if argument.is_some() && executor.argument.is_none() {
            return Err(format!("`{word}` takes no argument; expected {}", words()));
        }
        Ok(Self::Named(
            executor,
            argument.unwrap_or_default().to_owned(),
        ))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto | Self::Isolated => f.write_str("auto"),
            Self::Named(executor, argument) if argument.is_empty() => f.write_str(executor.word),
            Self::Named(executor, argument) => {
                let mut aliases = executor.aliases.iter();
                match aliases.find(|(_, of, _)| of == argument) {
                    Some((word, ..)) => f.write_str(word),
                    None => write!(f, "{}:{argument}", executor.word),
                }
            }
        }
    }
}

/// The words that a user may choose between.
fn words() -> String {
    let shown = EXECUTORS.iter().filter(|executor| !executor.is_hidden);
    let words = shown.flat_map(|executor| {
        let argument = executor.argument.filter(|_| executor.aliases.is_empty());
        let word = match argument {
            Some(argument) => format!("{}[:{argument}]", executor.word),
            None => executor.word.to_owned(),
        };
        let aliases = executor.aliases.iter();
        iter::once(word).chain(aliases.map(|(word, ..)| (*word).to_owned()))
    });
    let words: Vec<String> = words.collect();
    format!("auto or one of {}", words.join(", "))
}

/// An executor, and why others that came before it were not taken.
pub struct Opened {
    pub executor: Box<dyn Executor>,
    pub choice: Choice,
    pub notes: Vec<String>,
}

impl Choice {
    /// The executor's word; `None` where any will do.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            Self::Auto | Self::Isolated => None,
            Self::Named(executor, _) => Some(executor.word),
        }
    }

    /// Opens the executor. In CI (`is_ci`) `auto` takes the first alone: what fell back there would
    /// be measured otherwise than before, and nobody would see.
    pub async fn open(&self, is_ci: bool) -> Result<Opened, ExecutorError> {
        let mut notes = Vec::new();
        let automatic = EXECUTORS.iter().filter(|executor| executor.is_automatic);
        let (candidates, argument): (Vec<&'static Registration>, &str) = match self {
            Self::Auto if is_ci => (automatic.take(1).collect(), ""),
            Self::Auto => (automatic.collect(), ""),
            Self::Isolated => {
                let isolates = |one: &&Registration| one.word != process::REGISTRATION.word;
                (automatic.filter(isolates).collect(), "")
            }
            Self::Named(executor, argument) => (vec![executor], argument),
        };
        let mut first_error = None;
        for candidate in candidates {
            match (candidate.open)(argument.to_owned()).await {
                Ok(executor) => {
                    return Ok(Opened {
                        executor,
                        choice: Self::Named(candidate, argument.to_owned()),
                        notes,
                    });
                }
                // What the user chose and cannot work is refused; nothing takes its place.
                Err(error @ ExecutorError::Argument(_)) => return Err(error),
                Err(error) => {
                    notes.push(format!("no {}: {error}", candidate.word));
                    first_error.get_or_insert(error);
                }
            }
        }
        if matches!(self, Self::Isolated) {
            notes.push(match slurm::found().await {
                Some((steps, why)) => format!(
                    "{} is here, for {why}: `engine: {}` in the profile of Slurm",
                    steps.name(),
                    steps.word()
                ),
                None => "no pyxis: no `srun` here that has --container-image; no oci: no oci.conf \
                         beside Slurm's settings, or no `apptainer`"
                    .to_owned(),
            });
            let message = format!(
                "nothing here isolates runs:\n  {}\ninstall or load one of them, or name what runs \
                 blocks in the profile, or by --engine nodes:ENGINE: `engine: chroot` runs them in images \
                 that are archives, `engine: process` without any",
                notes.join("\n  ")
            );
            return Err(ExecutorError::Unavailable(message.into()));
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
            Ok(Choice::Auto | Choice::Isolated) => "auto".to_owned(),
            Ok(Choice::Named(executor, argument)) => format!("{}({argument})", executor.word),
            Err(error) => error,
        };
        assert_eq!(word("auto"), "auto");
        assert_eq!(word("container"), "container()");
        assert_eq!(word("podman"), "container(podman)");
        assert_eq!(word("mock:*=oom;b1=ok:2"), "mock(*=oom;b1=ok:2)");
        let all = "expected auto or one of container, docker, podman, apptainer, process, chroot, \
                   slurm[:PROFILE], kubernetes[:PROFILE], nodes[:ENGINE]";
        assert_eq!(word("nerdctl"), all);
        assert_eq!(word(""), all);
        let refused = format!("`process` takes no argument; {all}");
        assert_eq!(word("process:1"), refused);
        for text in [
            "auto",
            "container",
            "docker",
            "podman",
            "apptainer",
            "process",
            "mock:a=ok",
        ] {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
    }
}
