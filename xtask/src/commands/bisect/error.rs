//! How a search ends without an answer.

use std::path::PathBuf;

use reports::format::plural;

use crate::{
    commands::bench::resume::command,
    exit_code::{Code, OwnError},
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum SearchError {
    #[error(
        "{} holds a search already; name another folder with --out, or go on with: {}",
        .0.display(), command("bisect", .0)
    )]
    Exists(PathBuf),
    #[error("the search was cut off; go on with: {}", command("bisect", .0))]
    CutOff(PathBuf),
    #[error(
        "nothing is shown to have regressed from {good} to {bad}; {} says how sure that is. Begin \
         anew with a suite or a --metric that shows the change, or with more --time-budget",
        report.display()
    )]
    NoRegression {
        good: String,
        bad: String,
        report: PathBuf,
    },
    #[error(
        "runs of {good} or {bad} fail, and no figure is shown to have regressed; {} says which, and \
         why. Begin anew with ends that run, or with a scenario that does",
        report.display()
    )]
    EndsFail {
        good: String,
        bad: String,
        report: PathBuf,
    },
    #[error(
        "measured again, the bad end is not shown to be beyond half of the change that it showed \
         first; the sessions in {} have both. Begin anew with more --time-budget",
        .0.display()
    )]
    SmallerChange(PathBuf),
    #[error(
        "measured again, the bad end does not fail in every run as it did first, or the good end fails \
         too; the sessions in {} have both. Begin anew with ends that always fail and never do, or \
         with a suite in which they do",
        .0.display()
    )]
    OtherFailure(PathBuf),
    #[error(
        "the suite {0} is another one than the search was begun with; put it back as it was, or begin \
         anew"
    )]
    SuiteChanged(String),
    #[error(
        "the last good and the first bad one do not differ side by side, which contradicts the \
         search: the machine drifts; repeat the search with nothing else on it"
    )]
    Contradicted,
    #[error(
        "{} between the last good and the first bad one could not be measured; the table says why",
        plural(*.0, "candidate", "candidates")
    )]
    Undecided(usize),
}

impl OwnError for SearchError {
    fn code(&self) -> Code {
        match self {
            Self::Exists(_) | Self::SuiteChanged(_) => Code::BadUsage,
            Self::NoRegression { .. } => Code::GateSaysNo,
            _ => Code::SomeRunsFailed,
        }
    }
}
