//! How a run ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::word_of;

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// Every invariant holds.
    #[default]
    Ok,
    /// It failed as its suite expects.
    Expected(Failure),
    /// It yields no metric that may be used.
    Failed(Failure),
}

/// Why, where and in which words a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Failure {
    /// Why, as a type.
    pub reason: Reason,
    /// Where.
    pub stage: Stage,
    /// Why, in words, with the next step where there is one.
    pub message: String,
}

impl Outcome {
    /// One that yields no metric that may be used.
    pub fn failed(reason: Reason, stage: Stage, message: impl Into<String>) -> Self {
        Self::Failed(Failure {
            reason,
            stage,
            message: message.into(),
        })
    }

    /// Whether the run's metrics may be used.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok)
    }

    /// Whether the run ended as it was to end: well, or as its suite expects.
    pub fn passes(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// How the run failed, expected or not; `None` where it did not.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Ok => None,
            Self::Expected(failure) | Self::Failed(failure) => Some(failure),
        }
    }

    /// Why the run failed, expected or not; `None` where it did not.
    pub fn reason(&self) -> Option<Reason> {
        self.failure().map(|failure| failure.reason)
    }

    /// Why the run failed, in words; empty where it did not.
    pub fn message(&self) -> &str {
        self.failure().map_or("", |failure| &failure.message)
    }

    /// `ok`, `expected out-of-memory`, or the reason.
    pub fn word(&self) -> String {
        match self {
            Self::Ok => "ok".to_owned(),
            Self::Expected(failure) => format!("expected {}", failure.reason.word()),
            Self::Failed(failure) => failure.reason.word(),
        }
    }

    /// The outcome of a run that was to fail so.
    #[must_use]
    pub fn expecting(self, expected: Reason) -> Self {
        match self {
            Self::Failed(failure) if failure.reason == expected => Self::Expected(failure),
            Self::Ok => {
                let message = format!("ended well; its suite expects {}", expected.word());
                Self::failed(Reason::NotAsExpected, Stage::Validate, message)
            }
            other => other,
        }
    }
}

/// Where a run failed: a stretch of the harness, or a phase of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Making the container or the process.
    Create,
    /// Starting it, up to the workload's first event.
    Start,
    /// After the workload's last event.
    Exit,
    /// While checking the metrics.
    Validate,
    /// In the workload, in this phase.
    #[serde(untagged)]
    Workload(protocol::Phase),
}

/// Declares every reason once; `expected` those that a suite can expect: the workload's own or its
/// limits', and no fault of the machine or the harness.
macro_rules! reasons {
    ($($(#[doc = $about:literal])+ $name:ident $(, $expected:ident)?;)*) => {
        /// Why a run failed.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum Reason {
            $($(#[doc = $about])+ $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];

            /// Whether a suite can expect it.
            pub fn can_be_expected(self) -> bool {
                const EXPECTED: &[Reason] = &[$($(reasons!(@ $expected Reason::$name),)?)*];
                EXPECTED.contains(&self)
            }
        }
    };
    (@ expected $name:path) => { $name };
}

reasons! {
    /// The device's memory ran out.
    OutOfMemory, expected;
    /// The host's memory limit ended the container or the process, or left no room for what is
    /// offloaded.
    HostOutOfMemory, expected;
    /// The run took longer than its limit.
    TimeLimit, expected;
    /// It reported nothing for so long that it counts as hanging.
    Hang, expected;
    /// The workload died of a signal.
    Crash, expected;
    /// The workload ended with a non-zero status and no reason.
    ExitStatus, expected;
    /// The loss is NaN or infinite.
    LossNotFinite, expected;
    /// The loss did not fall over a training run that should have learnt.
    LossNotFalling, expected;
    /// A trainable parameter received no gradient.
    GradientMissing, expected;
    /// The step cannot be captured as a CUDA graph.
    NotCapturable, expected;
    /// Serving keeps its latency objective at no rate of arrivals.
    SloNotMet, expected;
    /// There is no such device, it lacks what was asked for, or the image does not fit it or its driver.
    DeviceUnavailable, expected;
    /// An allocator setting did not take.
    SettingIgnored, expected;
    /// The workload cannot read its run file.
    BadRunFile;
    /// A worker of the data loader ended, `/dev/shm` has no room for its batches, or its folder
    /// has a file that it cannot read.
    DataLoader, expected;
    /// Ranks could not exchange something: one of them ended or hangs, or a GPU does not see another.
    Exchange, expected;
    /// libtorch threw something else.
    Libtorch, expected;
    /// The results file is missing, torn or not of the form.
    UnreadableResults;
    /// It wrote more results or more log than its limit.
    Flooded, expected;
    /// A metric contradicts another.
    Invalid;
    /// It ended well, and its suite expects a failure.
    NotAsExpected;
    /// Something else used the GPU or the host, or held the GPU back: the metrics are sound and
    /// worth nothing.
    Contaminated;
    /// The GPU is gone: it fell off the bus, or its memory or its driver's state is broken.
    GpuLost;
    /// The image is gone, cannot be started, or has another libtorch than it declares.
    ImageBroken;
    /// The container engine does not answer, or refused a request.
    Engine;
    /// The disk of the session's folder is full, or the one that the engine keeps its data on.
    DiskFull;
    /// The session was interrupted.
    Interrupted;
}

impl Reason {
    /// The word in records and reports.
    pub fn word(self) -> String {
        word_of(self)
    }
}

impl From<protocol::FailureReason> for Reason {
    fn from(reason: protocol::FailureReason) -> Self {
        use protocol::FailureReason as Told;
        match reason {
            Told::BadRunFile => Self::BadRunFile,
            Told::DeviceUnavailable => Self::DeviceUnavailable,
            Told::SettingIgnored => Self::SettingIgnored,
            Told::OutOfMemory => Self::OutOfMemory,
            Told::HostOutOfMemory => Self::HostOutOfMemory,
            Told::LossNotFinite => Self::LossNotFinite,
            Told::LossNotFalling => Self::LossNotFalling,
            Told::NotCapturable => Self::NotCapturable,
            Told::GradientMissing => Self::GradientMissing,
            Told::SloNotMet => Self::SloNotMet,
            Told::DataLoader => Self::DataLoader,
            Told::Exchange => Self::Exchange,
            Told::Libtorch => Self::Libtorch,
            Told::Results => Self::UnreadableResults,
            Told::Exception | Told::RankExit => Self::ExitStatus,
            Told::RankCrash => Self::Crash,
            Told::RankHang => Self::Hang,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reads_as_words() {
        let warmup = Stage::Workload(protocol::Phase::Warmup);
        let outcome = Outcome::failed(Reason::OutOfMemory, warmup, "tried to allocate 2 GiB");
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"failed","reason":"out-of-memory","stage":"warmup","message":"tried to allocate 2 GiB"}"#
        );
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        for stage in [
            Stage::Create,
            Stage::Exit,
            Stage::Workload(protocol::Phase::Data),
        ] {
            let text = serde_json::to_string(&stage).unwrap();
            assert_eq!(serde_json::from_str::<Stage>(&text).unwrap(), stage);
        }
    }
}
