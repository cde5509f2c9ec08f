//! What the harness asks of one run.

use std::{fmt, ops::RangeInclusive, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AllocatorBackend, Model, Refusal, Task, Trace, VERSION, Variant,
    text::{numbered, read_by, text_form},
};

/// Where the work runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// One CUDA GPU, by its index as the process sees it.
    Cuda(u32),
}

impl Device {
    /// Whether this is a CUDA GPU.
    pub fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda(_))
    }
}

read_by!(
    Device,
    "unknown device `{}`; expected cpu, cuda or cuda:N",
    |text| match text {
        "cpu" => Some(Self::Cpu),
        "cuda" => Some(Self::Cuda(0)),
        _ => numbered(text, "cuda:", 0..=u32::MAX).map(Self::Cuda),
    }
);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

text_form!(
    Device,
    "Where the work runs: cpu or cuda:N",
    r"^(cpu|cuda(:[0-9]+)?)$"
);

/// How many optimizer steps (training), batches (inference) or requests (generation, serving) to run, and what to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// Least steps before measuring.
    #[schemars(range(max = 1_000_000))]
    pub warmup: u32,
    /// Least seconds before measuring: warm-up goes on until both are reached.
    #[serde(default)]
    #[schemars(range(max = 3_600))]
    pub warmup_seconds: u32,
    /// Measured steps; at least 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub measured: u32,
    /// Steps after the measured ones under a profiler, whose kernels the record lists; none by
    /// default.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = 100))]
    pub profiled: u32,
    /// Whether to attribute memory and time of one warm-up step to the model's modules.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attribution: bool,
    /// When the history of libtorch's allocator goes to a file that `torch.cuda._memory_viz` reads;
    /// never by default. A run that records it is not for speed.
    #[serde(default, skip_serializing_if = "Snapshot::is_never")]
    pub snapshot: Snapshot,
    /// The last so many events of the history are kept, 100,000 by default.
    #[serde(default = "usual_entries", skip_serializing_if = "is_usual")]
    #[schemars(range(min = 1_000, max = 1_000_000))]
    pub snapshot_entries: u32,
    /// Whether to time forward, backward and optimizer within each step.
    #[serde(default = "yes")]
    pub parts: bool,
    /// Whether to time a large matrix product after measuring, for the utilisation.
    #[serde(default = "yes")]
    pub calibrate: bool,
}

/// When the history of libtorch's allocator goes to a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Value", into = "Value")]
#[schemars(with = "Value", extend("enum" = [false, true, "on-out-of-memory"]))]
pub enum Snapshot {
    /// It is not recorded.
    #[default]
    Never,
    /// When the measured steps are over, or memory ran out.
    Always,
    /// When memory ran out.
    OnOutOfMemory,
}

impl Snapshot {
    /// Whether nothing is recorded.
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

impl TryFrom<Value> for Snapshot {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let mut all = [Self::Never, Self::Always, Self::OnOutOfMemory].into_iter();
        let found = all.find(|one| Value::from(*one) == value);
        found.ok_or_else(|| {
            format!("unknown snapshot {value}; expected false, true or on-out-of-memory")
        })
    }
}

impl From<Snapshot> for Value {
    fn from(snapshot: Snapshot) -> Self {
        match snapshot {
            Snapshot::OnOutOfMemory => "on-out-of-memory".into(),
            other => (other == Snapshot::Always).into(),
        }
    }
}

const USUAL_ENTRIES: u32 = 100_000;

fn usual_entries() -> u32 {
    USUAL_ENTRIES
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_usual(entries: &u32) -> bool {
    *entries == USUAL_ENTRIES
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

// Where it is not written, workloads that do not know it read the file.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Steps {
    /// This many steps, with everything else as usual.
    pub fn new(warmup: u32, measured: u32) -> Self {
        Self {
            warmup,
            warmup_seconds: 0,
            measured,
            profiled: 0,
            attribution: false,
            snapshot: Snapshot::Never,
            snapshot_entries: USUAL_ENTRIES,
            parts: true,
            calibrate: true,
        }
    }

    /// Why no step of such a task can be attributed to modules, where one is to be.
    pub fn check_attribution(&self, task: Task, variant: &Variant) -> Result<(), &'static str> {
        let is_async = variant.allocator.backend == AllocatorBackend::CudaMallocAsync;
        if !self.attribution {
            Ok(())
        } else if self.warmup < 3 {
            Err("attribution takes one of the warm-up steps; expected at least 3 of them")
        } else if task != Task::Training {
            Err("only training steps have gradients and optimizer state")
        } else if variant.sequence_lengths.is_some() {
            Err("with sequence_lengths one step is unlike another")
        } else if variant.pin_memory == Some(true) {
            Err("with pin_memory the next batch arrives within the step")
        } else if is_async {
            Err("cudaMallocAsync reports no allocations; take the native backend")
        } else {
            Ok(())
        }
    }

    /// Why the allocator keeps no history there, where it is to.
    pub fn check_snapshot(&self, device: Device, variant: &Variant) -> Result<(), &'static str> {
        let is_async = variant.allocator.backend == AllocatorBackend::CudaMallocAsync;
        if self.snapshot.is_never() {
            Ok(())
        } else if !device.is_cuda() {
            Err("only the allocator of a CUDA GPU keeps a history; use `devices: [cuda]`")
        } else if is_async {
            Err("cudaMallocAsync keeps no history; take the native backend")
        } else {
            Ok(())
        }
    }

    /// Each number by its key, with what it may be.
    pub fn bounds(&self) -> [(&'static str, u32, RangeInclusive<u32>); 5] {
        [
            ("measured", self.measured, 1..=1_000_000),
            ("profiled", self.profiled, 0..=100),
            ("snapshot_entries", self.snapshot_entries, 1_000..=1_000_000),
            ("warmup", self.warmup, 0..=1_000_000),
            ("warmup_seconds", self.warmup_seconds, 0..=3600),
        ]
    }
}

/// What one execution of the `scenario` binary is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunFile {
    /// [`VERSION`].
    pub version: u32,
    /// The run's name, unique in its session.
    pub run: String,
    /// The model.
    pub model: Model,
    /// The task.
    pub task: Task,
    /// The choice on every axis.
    pub variant: Variant,
    /// Where to run.
    pub device: Device,
    /// How many steps.
    pub steps: Steps,
    /// Seed of parameters, data and dropout.
    pub seed: u64,
    /// What the task allocation makes, in place of the axis `allocations`, or the requests that
    /// arrive by `arrivals: trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Processes of the run. Where there are several, the binary starts them, and each works on a GPU
    /// of its own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: u32,
    /// Threads of a process for work on the CPU; `None`: as many as it may use, its share of those of
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Most bytes of the GPU that the process may hold: the allocator gets what the CUDA context and
    /// libraries leave of them. `None`: all there are. On a GPU only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_bytes: Option<u64>,
    /// Most bytes of the GPU that the caching allocator may hold; the context and libraries come on
    /// top. `None`: all there are. On a GPU only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator_memory_bytes: Option<u64>,
    /// Whether unified memory may be more than the GPU has, where `gpu_memory_bytes` is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oversubscribe: bool,
    /// The workload ends itself after this long, in seconds. It is longer than the harness waits,
    /// and so ends runs alone whose harness is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<f64>,
}

/// Most processes of a run.
pub const MOST_RANKS: u32 = 1024;

/// More seconds than any run may take.
const LONGEST_SECONDS: f64 = 31.0 * 24.0 * 3600.0;

/// Why a run file cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// Not JSON, or not of the form.
    #[error("the run file cannot be read: {}", inert(.0))]
    Form(#[from] serde_json::Error),
    /// Written by another version of the harness.
    #[error(
        "the run file is of version {got}, this binary reads version {VERSION}: \
         build the image again so that harness and workload match"
    )]
    Version {
        /// The version that stands in the file.
        got: u64,
    },
    /// A combination that means nothing.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A number that means nothing.
    #[error("the run file asks for {got}; expected {expected}")]
    Number {
        /// What stands there.
        got: String,
        /// What would do.
        expected: String,
    },
}

/// serde's words, which quote the file, without what acts on a terminal.
fn inert(error: &serde_json::Error) -> String {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    error.to_string().chars().map(shown).collect()
}

impl RunFile {
    /// Reads and checks a run file.
    pub fn parse(text: &str) -> Result<Self, RunFileError> {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let Version { version: got } = serde_json::from_str(text)?;
        if got != u64::from(VERSION) {
            return Err(RunFileError::Version { got });
        }
        let file: Self = serde_json::from_str(text)?;
        crate::check(file.model, file.task, &file.variant, file.device)?;
        file.check_numbers()?;
        let steps = &file.steps;
        let checked = steps.check_attribution(file.task, &file.variant);
        let checked = checked.and_then(|()| steps.check_snapshot(file.device, &file.variant));
        let refusal = |axis, reason: &str| Refusal {
            axis,
            reason: reason.to_owned(),
        };
        checked.map_err(|reason| refusal("steps", reason))?;
        let traced = crate::check_traced(file.trace.as_ref(), file.task, &file.variant);
        traced.map_err(|reason| refusal("trace", &reason))?;
        if let Some(seconds) = file.deadline_seconds {
            let time = Duration::from_secs_f64(seconds);
            crate::check_steps(&file.variant, &file.steps, time)?;
        }
        Ok(file)
    }

    /// What one of several processes on a host does, of which each has its share of so many CPUs.
    #[must_use]
    pub fn of_rank(self, local_rank: u32, cpus: u32) -> Self {
        let share = (cpus / self.ranks).max(1);
        Self {
            device: match self.device {
                Device::Cpu => Device::Cpu,
                Device::Cuda(_) => {
                    Device::Cuda(local_rank.min(self.variant.placement.gpus(self.ranks) - 1))
                }
            },
            threads: self.threads.or(Some(share)),
            ..self
        }
    }

    /// The file as one line of text.
    pub fn to_line(&self) -> Result<String, RunFileError> {
        Ok(serde_json::to_string(self)?)
    }

    /// Refuses numbers that the form allows and that mean nothing.
    fn check_numbers(&self) -> Result<(), RunFileError> {
        for (key, got, range) in self.steps.bounds() {
            if !range.contains(&got) {
                return Err(RunFileError::Number {
                    got: format!("{key} {got}"),
                    expected: format!("{} to {}", range.start(), range.end()),
                });
            }
        }
        let limits = [self.gpu_memory_bytes, self.allocator_memory_bytes];
        let deadline = self.deadline_seconds.unwrap_or(1.0);
        let wrong = [
            (
                self.threads == Some(0),
                "0 threads".into(),
                "at least 1, or none to use all",
            ),
            (
                !(1..=MOST_RANKS).contains(&self.ranks),
                format!("{} ranks", self.ranks),
                "1 to 1024",
            ),
            (
                limits.contains(&Some(0)),
                "0 bytes of the GPU".into(),
                "at least 1, or none for all",
            ),
            (
                !(deadline > 0.0 && deadline <= LONGEST_SECONDS),
                format!("a deadline after {deadline} seconds"),
                "more than 0 and at most a month",
            ),
            (
                limits.iter().any(Option::is_some) && !self.device.is_cuda(),
                "a limit on the GPU's memory on cpu".into(),
                "a device cuda:N, or no such limit (on cpu the container's limit applies)",
            ),
        ];
        match wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            None => Ok(()),
            Some((_, got, expected)) => Err(RunFileError::Number {
                got,
                expected: expected.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> RunFile {
        RunFile {
            version: VERSION,
            run: "r-0001".into(),
            model: Model::VitTiny,
            task: Task::Training,
            variant: Variant::default(),
            device: Device::Cpu,
            steps: Steps::new(1, 2),
            seed: 7,
            trace: None,
            ranks: 1,
            threads: None,
            gpu_memory_bytes: None,
            allocator_memory_bytes: None,
            oversubscribe: false,
            deadline_seconds: None,
        }
    }

    #[test]
    fn a_run_file_survives_the_round() {
        let text = serde_json::to_string(&example()).unwrap();
        assert_eq!(RunFile::parse(&text).unwrap(), example());
        assert!(!text.contains("profiled"), "older workloads refuse the key");
        assert!(!text.contains("ranks"), "and this one");
        let mut profiled = example();
        profiled.steps.profiled = 3;
        let text = serde_json::to_string(&profiled).unwrap();
        assert_eq!(RunFile::parse(&text).unwrap(), profiled);
    }

    #[test]
    fn a_rank_has_its_own_gpu_and_its_share_of_the_cpus() {
        let of = |device, threads, ranks, rank| {
            let file = RunFile {
                device,
                ranks,
                threads,
                ..example()
            };
            let file = file.of_rank(rank, 9);
            (file.device.to_string(), file.threads.unwrap_or_default())
        };
        assert_eq!(of(Device::Cuda(0), None, 2, 1), ("cuda:1".to_owned(), 4));
        assert_eq!(of(Device::Cpu, None, 16, 15), ("cpu".to_owned(), 1));
        assert_eq!(of(Device::Cpu, Some(3), 4, 0), ("cpu".to_owned(), 3));
        let mut packed = example();
        packed.device = Device::Cuda(0);
        packed.ranks = 2;
        packed.variant.placement = crate::Placement::Packed;
        assert_eq!(packed.of_rank(1, 2).device, Device::Cuda(0));
    }

    #[test]
    fn a_step_is_attributed_where_it_can_be() {
        fn check(change: impl Fn(&mut RunFile), expect: Option<&str>) {
            let mut file = example();
            file.steps = Steps::new(3, 2);
            file.steps.attribution = true;
            change(&mut file);
            let read = RunFile::parse(&serde_json::to_string(&file).unwrap());
            let error = read.err();
            let is_of_kind = matches!(error, None | Some(RunFileError::Refused(_)));
            assert!(is_of_kind, "{error:?}");
            let error = error.map(|error| error.to_string());
            assert_eq!(error.as_deref(), expect);
        }
        check(|_| {}, None);
        check(
            |file| file.steps.warmup = 2,
            Some("steps: attribution takes one of the warm-up steps; expected at least 3 of them"),
        );
        check(
            |file| file.task = Task::Inference,
            Some("steps: only training steps have gradients and optimizer state"),
        );
        let bert = |file: &mut RunFile| {
            file.model = Model::BertTiny;
            file.variant.sequence_lengths = Some("16-64".parse().unwrap());
        };
        check(
            bert,
            Some("steps: with sequence_lengths one step is unlike another"),
        );
        let pinned = |file: &mut RunFile| {
            file.device = Device::Cuda(0);
            file.variant =
                serde_json::from_str(r#"{"loader_workers":2,"pin_memory":true}"#).unwrap();
        };
        check(
            pinned,
            Some("steps: with pin_memory the next batch arrives within the step"),
        );
    }

    #[test]
    fn another_version_is_named() {
        let file = RunFile {
            version: VERSION + 1,
            ..example()
        };
        let error = RunFile::parse(&serde_json::to_string(&file).unwrap()).unwrap_err();
        assert!(matches!(error, RunFileError::Version { got: 5 }), "{error}");
    }

    #[test]
    fn what_a_run_file_says_acts_on_no_terminal() {
        let text = serde_json::to_string(&example()).unwrap();
        let error = RunFile::parse(&text.replace("vit-tiny", "\\u001b[2J")).unwrap_err();
        assert!(matches!(error, RunFileError::Form(_)), "{error:?}");
        let error = error.to_string();
        // Every model follows.
        let (error, _) = error.split_once(", expected one of").unwrap();
        assert_eq!(error, "the run file cannot be read: unknown variant ` [2J`");
    }

    #[test]
    fn a_meaningless_combination_is_refused() {
        let variant = Variant {
            precision: crate::Precision::Tf32,
            ..Variant::default()
        };
        let text = serde_json::to_string(&RunFile {
            variant,
            ..example()
        })
        .unwrap();
        assert!(matches!(
            RunFile::parse(&text),
            Err(RunFileError::Refused(_))
        ));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        fn check(change: impl Fn(&mut RunFile), expect: &str) {
            let mut file = example();
            change(&mut file);
            let error = RunFile::parse(&serde_json::to_string(&file).unwrap()).unwrap_err();
            assert!(matches!(error, RunFileError::Number { .. }), "{error:?}");
            assert_eq!(error.to_string(), format!("the run file asks for {expect}"));
        }
        check(
            |file| file.steps.measured = 0,
            "measured 0; expected 1 to 1000000",
        );
        check(
            |file| file.steps.profiled = 101,
            "profiled 101; expected 0 to 100",
        );
        check(
            |file| file.steps.warmup = 1_000_001,
            "warmup 1000001; expected 0 to 1000000",
        );
        check(
            |file| file.steps.warmup_seconds = 3601,
            "warmup_seconds 3601; expected 0 to 3600",
        );
        check(
            |file| file.threads = Some(0),
            "0 threads; expected at least 1, or none to use all",
        );
        check(|file| file.ranks = 0, "0 ranks; expected 1 to 1024");
        for seconds in [-1.0, 0.0, 1e12] {
            check(
                |file| file.deadline_seconds = Some(seconds),
                &format!(
                    "a deadline after {seconds} seconds; expected more than 0 and at most a month"
                ),
            );
        }
        check(
            |file| file.gpu_memory_bytes = Some(1 << 30),
            "a limit on the GPU's memory on cpu; expected a device cuda:N, or no such limit (on \
             cpu the container's limit applies)",
        );
    }

    #[test]
    fn devices_read_and_write() {
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Device::Cuda(3)));
        assert!("cuda:".parse::<Device>().is_err());
        assert!("cuda:+1".parse::<Device>().is_err());
        assert!("gpu".parse::<Device>().is_err());
    }
}
