//! Every way in which a command can end badly.

use std::{error::Error as StdError, io, path::PathBuf};

use bench_suite::{executors::ExecutorError, suite::SuiteError};
use reports::format::plural;

use crate::commands::bench;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "no checkout of Torchgauge at {here} or above it; `test` and `dist` need one, whose root has \
         `scenarios/` and `images/`"
    )]
    NoWorkspace { here: PathBuf },
    #[error("cannot start {what}: {source}")]
    Start { what: String, source: io::Error },
    #[error("cannot write {path}: {source}; check the folder and its permissions")]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "the history knows no complete session that fits `{text}`; \
         `cargo xtask history list --sessions` names what it has"
    )]
    NoSession { text: String },
    #[error(
        "the history names the session {session}, and its folder is not below {sessions}; say \
         where it lies with --sessions DIR"
    )]
    NoFolder { session: String, sessions: PathBuf },
    #[error(
        "both sides are {side}; give another session or image as HEAD, or two values of an axis \
         with --by AXIS=BASE,HEAD"
    )]
    SameSides { side: String },
    #[error("{name}: {source}")]
    Series {
        name: String,
        source: Box<dyn StdError + Send + Sync>,
    },
    #[error("the result cannot be written as JSON: {source}")]
    Json { source: serde_json::Error },
    #[error(transparent)]
    Suite(SuiteError),
    #[error(transparent)]
    Folder(#[from] record::FolderError),
    #[error(transparent)]
    Side(#[from] verdict::SideError),
    #[error(transparent)]
    Compare(#[from] verdict::CompareError),
    #[error(transparent)]
    Claim(#[from] verdict::ClaimsError),
    #[error(
        "the session {session} carries no claims; judge those of a suite with --of NAME, such as \
         --of claims"
    )]
    NoClaims { session: String },
    #[error(transparent)]
    Judge(#[from] verdict::SessionError),
    #[error(transparent)]
    Junit(#[from] reports::comparison::JunitError),
    #[error(transparent)]
    Report(#[from] reports::ReportError),
    #[error(transparent)]
    Site(#[from] reports::site::SiteError),
    #[error(
        "the site is whole at {fresh} and cannot take the place of {out}: {source}; move it by hand"
    )]
    SiteNotMoved {
        fresh: PathBuf,
        out: PathBuf,
        source: io::Error,
    },
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    History(#[from] history::HistoryError),
    #[error(transparent)]
    HistoryDamaged(history::HistoryError),
    #[error(transparent)]
    Ledger(#[from] history::LedgerError),
    #[error(
        "--notify: `{command}` {what}; the ledger is left as it was, so that the next run tells the \
         same again"
    )]
    Notify { command: String, what: String },
    #[error("this user has no data folder to keep the history in; name a file with --db FILE")]
    NoHistoryPath,
    #[error(transparent)]
    Images(#[from] images::Error),
    #[error(transparent)]
    Engine(#[from] engine::Error),
    #[error(transparent)]
    Device(Box<dyn StdError + Send + Sync>),
    #[error("suite {suite} has no scenario `{scenario}`; it has: {known}")]
    NoScenario {
        suite: String,
        scenario: String,
        known: String,
    },
    #[error(
        "on the CPU only a container's limit can be the limit, and runs would execute as \
         plain processes; start Docker or Podman (`cargo xtask doctor` says how)"
    )]
    NoWall,
    #[error(
        "--memory {} is too little: an engine refuses a container with less than {}; give what a \
         container or a GPU has, such as 8GiB",
        iec(*budget), iec(bench_suite::fit::LEAST_BYTES)
    )]
    SmallBudget { budget: u64 },
    #[error(
        "nothing fits {}: not one sample in a batch, in any combination; the table says how the \
         attempts ended. Give more --memory, or a scenario with a smaller model",
        iec(*budget)
    )]
    NothingFits { budget: u64 },
    #[error(
        "`{0}` has nothing with a batch to be fitted; name a scenario that trains or serves \
         (`cargo xtask scenarios list` shows them)"
    )]
    NothingToFit(String),
    #[error(transparent)]
    Bisect(#[from] bench_suite::bisect::BisectError),
    #[error(
        "{folder} holds a search already; name another folder with --out, or go on with: {}",
        bench::resume::command("bisect", folder)
    )]
    SearchExists { folder: PathBuf },
    #[error(
        "the search was cut off; go on with: {}",
        bench::resume::command("bisect", folder)
    )]
    SearchCutOff { folder: PathBuf },
    #[error("an end of the search cannot be measured: {why}")]
    NoEnd { why: String },
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
         first; the sessions in {folder} have both. Begin anew with more --time-budget"
    )]
    SmallerChange { folder: PathBuf },
    #[error(
        "measured again, the bad end does not fail in every run as it did first, or the good end fails \
         too; the sessions in {folder} have both. Begin anew with ends that always fail and never do, \
         or with a suite in which they do"
    )]
    OtherFailure { folder: PathBuf },
    #[error(
        "the suite {suite} is another one than the search was begun with; put it back as it was, or \
         begin anew"
    )]
    SuiteChanged { suite: String },
    #[error(
        "the last good and the first bad one do not differ when they are measured beside each \
         other, which contradicts the search; something else changes on this machine"
    )]
    SearchContradicted,
    #[error(
        "{} between the last good and the first bad one could not be measured; the table says why",
        plural(*left_out, "candidate", "candidates")
    )]
    SearchUndecided { left_out: usize },
    #[error("{bad} does not come after {good}; give a --good revision out of which --bad was made")]
    NotAncestor { good: String, bad: String },
    #[error("the --build command ended with {status}; {} has what it said", log.display())]
    BuildFailed { status: String, log: PathBuf },
    #[error(
        "the --build command printed nothing; expected the image's spec or its reference on the \
         last line"
    )]
    BuildSaysNothing,
    #[error(
        "the spec {image} takes libtorch from {}, which is in the revision's work tree and gone when \
         runs start; name a path outside of it, or build into an engine with `--engine docker`",
        path.display()
    )]
    InWorkTree { image: String, path: PathBuf },
    #[error("git {words}: {said}")]
    Git { words: String, said: String },
    #[error(transparent)]
    Scratch(#[from] bench_suite::scratch_run::ScratchError),
    #[error(transparent)]
    Listen(#[from] bench_suite::live::ListenError),
    #[error(transparent)]
    GpuLock(#[from] bench_suite::host::GpuLockError),
    #[error(transparent)]
    Executor(ExecutorError),
    #[error(transparent)]
    Plan(#[from] bench_suite::plan::PlanError),
    #[error(transparent)]
    Session(#[from] bench_suite::session::SessionError),
    #[error(
        "the image {image} holds libtorch without CUDA and cannot run on {device}; take one with \
         CUDA (`cargo xtask images list`), or --device cpu"
    )]
    NoCudaInImage {
        image: String,
        device: protocol::Device,
    },
    #[error(
        "the image {image} holds all of its GPU code, so there is nothing to check; name one where \
         its spec has `gpu_architectures`"
    )]
    NotSlim { image: String },
    #[error(
        "the image {image} kept GPU code for {kept} alone, and {gpu} has compute capability \
         {capability}; build it with this GPU in `gpu_architectures`, or without that key"
    )]
    NoGpuCode {
        image: String,
        gpu: String,
        capability: String,
        kept: String,
    },
    #[error(
        "{image} is a complete image and runs in a container; expected an engine (`--engine \
         docker`), or an image in `images/`"
    )]
    NeedsEngine { image: String },
    #[error("{failed} of {} failed; the report says why",
        plural(*planned, "run", "runs"))]
    RunsFailed { failed: usize, planned: usize },
    #[error(
        "{} still to do; go on with: {}",
        plural(*remaining, "run is", "runs are"), bench::resume::command("bench", folder)
    )]
    Unfinished { remaining: usize, folder: PathBuf },
    #[error(
        "{option} {now} contradicts the session, which was begun with {then}; leave {option} out, \
         or begin a new session"
    )]
    ResumeDiffers {
        option: &'static str,
        then: String,
        now: String,
    },
    #[error(
        "{} of the records cannot be read; --repair writes the records anew without",
        plural(*lines, "line", "lines")
    )]
    SessionDamaged { lines: usize },
    #[error("claims: {refuted} refuted, {undecided} inconclusive")]
    Claims { refuted: usize, undecided: usize },
    #[error("the gate failed: {}", plural(*failing, "metric", "metrics"))]
    Gate { failing: usize },
    #[error("the gate failed: {}\n  {}", plural(.0.len(), "failure", "failures"), .0.join("\n  "))]
    TrendGate(Vec<String>),
    #[error("the output cannot be written: {source}")]
    Output { source: io::Error },
    #[error("{message}")]
    NothingToFollow { message: String },
    #[error("{message}")]
    ExportFormat { message: String },
    #[error(
        "the image {image} is not reproducible: a second build differs first in {place}: {what}"
    )]
    NotReproducible {
        image: String,
        place: String,
        what: String,
    },
    #[error("locking again would change something; to take it: cargo xtask images lock {images}")]
    NewerResolution { images: String },
    #[error("{} not be removed; end the containers that use them, and run again",
        plural(*kept, "image could", "images could"))]
    NotPruned { kept: usize },
    #[error(
        "no image is called `{name}`, in `images/` or in the engine; `cargo xtask images list` \
         shows those that are; a spec elsewhere is named by its file"
    )]
    NothingToPrune { name: String },
    #[error(
        "the tests run on Docker and on Podman, and at {address} {found}; install Podman \
         (apt-get install podman) and start it (`podman system service --time=0 {address} &`), \
         name another address with TORCHGAUGE_TEST_PODMAN, or leave it out with --without-podman"
    )]
    NoPodman { address: String, found: String },
    #[error(
        "the program did not compile: cargo ended with {status}; fix what it says above, and run again"
    )]
    NotCompiled { status: String },
    #[error("{} is no `torchgauge` that starts here; leave --program out to have it compiled", program.display())]
    NotThisProgram { program: PathBuf },
    #[error(
        "the archive would take {size}, and may take {most}; leave something out of the program, or \
         of what stands beside it"
    )]
    LargeDist {
        size: bytesize::ByteSize,
        most: bytesize::ByteSize,
    },
    #[error("{step} failed; to see it alone, run: {command}")]
    TestsFailed { step: &'static str, command: String },
}

/// What an image could not be made for is this program's own error.
impl From<ExecutorError> for Error {
    fn from(error: ExecutorError) -> Self {
        match error {
            ExecutorError::Image(source) => match source.downcast() {
                Ok(own) => *own,
                Err(other) => Self::Executor(ExecutorError::Image(other)),
            },
            other => Self::Executor(other),
        }
    }
}

/// Bytes in words, in powers of 1024.
fn iec(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

impl Error {
    /// The same error with what only an engine can add to it: the digest of a base image.
    pub(crate) async fn with_what_engines_know(self) -> Self {
        match self {
            Self::Images(error) => Self::Images(images::with_known_digest(error).await),
            other => other,
        }
    }

    /// The error as it is shown, over several lines where it points into a file.
    pub(crate) fn render(&self, color: bool) -> String {
        match self {
            Self::Suite(error) => error.render(color),
            Self::Images(images::Error::Yaml(error)) => error.render(color),
            Self::Images(images::Error::Unpinned { error, known, .. }) => {
                let known = known.as_ref().map(|known| format!("\n{known}"));
                format!(
                    "{}{}",
                    error.render(color).trim_end(),
                    known.unwrap_or_default()
                )
            }
            other => format!("error: {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_the_folder_to_go_on_in() {
        const FOLDER: &str = "it's one folder; $HOME";
        let folder = PathBuf::from(FOLDER);
        for error in [
            Error::SearchExists {
                folder: folder.clone(),
            },
            Error::SearchCutOff {
                folder: folder.clone(),
            },
            Error::Unfinished {
                remaining: 1,
                folder,
            },
        ] {
            let said = error.to_string();
            let (_, command) = said.split_once("go on with: ").expect("a command");
            let script = format!("printf '%s\\n' {command}");
            let output = Command::new("sh").args(["-c", &script]).output();
            let output = output.expect("a shell");
            let words = String::from_utf8_lossy(&output.stdout);
            let words: Vec<&str> = words.lines().skip(2).collect();
            assert_eq!(words[1..], ["--resume", FOLDER], "{said}");
        }
    }
}
