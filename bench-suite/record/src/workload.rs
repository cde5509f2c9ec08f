//! What a cell runs.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a cell runs.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// A model and a task of Torchgauge's own `scenario` binary.
    Builtin {
        /// The model's name; `none` where the task computes none.
        model: String,
        /// The task's name, such as `training`.
        task: String,
    },
    /// A program of the user's.
    Program {
        /// The command with its arguments.
        command: Vec<String>,
    },
}

impl Default for Workload {
    /// Nothing: the task idle.
    fn default() -> Self {
        Self::builtin("none", "idle")
    }
}

impl Workload {
    /// A built-in workload.
    pub fn builtin(model: &str, task: &str) -> Self {
        Self::Builtin {
            model: model.to_owned(),
            task: task.to_owned(),
        }
    }

    /// The model of a built-in workload.
    pub fn model(&self) -> Option<&str> {
        match self {
            Self::Builtin { model, .. } => Some(model)
                .filter(|model| *model != "none")
                .map(String::as_str),
            Self::Program { .. } => None,
        }
    }

    /// Whether it computes nothing: it shows what a container takes by itself.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Builtin { task, .. } if task == "idle")
    }

    /// The task of a built-in workload.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Builtin { task, .. } => Some(task),
            Self::Program { .. } => None,
        }
    }
}

/// `resnet50 training`, `idle`, or the command.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.model()) {
            (Self::Builtin { task, .. }, Some(model)) => write!(f, "{model} {task}"),
            (Self::Builtin { task, .. }, None) => f.write_str(task),
            (Self::Program { command }, _) => f.write_str(&crate::command_line(command)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_reads_and_writes() {
        for (json, text) in [
            (
                r#"{"kind":"builtin","model":"resnet50","task":"training"}"#,
                "resnet50 training",
            ),
            (r#"{"kind":"builtin","model":"none","task":"idle"}"#, "idle"),
            (
                r#"{"kind":"program","command":["python3","my train.py"]}"#,
                "python3 'my train.py'",
            ),
        ] {
            let workload: Workload = serde_json::from_str(json).unwrap();
            assert_eq!(workload.to_string(), text);
            assert_eq!(serde_json::to_string(&workload).unwrap(), json);
        }
        assert!(serde_json::from_str::<Workload>(r#"{"kind":"builtin"}"#).is_err());
    }
}
