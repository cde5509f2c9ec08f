//! Why a run fails.

use std::io;

use protocol::{FailureReason, RunFileError};

use crate::serving::Objective;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run file cannot be opened.
    #[error("cannot read the run file `{path}`: {source}")]
    RunFileMissing { path: String, source: io::Error },
    /// The run file cannot be carried out.
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    #[error("{device} is not available: {reason}")]
    DeviceUnavailable {
        device: protocol::Device,
        /// What is there instead, and what to do.
        reason: String,
    },
    /// libtorch's allocator runs with other settings than the variant's.
    #[error(
        "the allocator setting did not take: the variant asks for `{asked}`, libtorch uses \
         `{effective}`; set {} before the process starts",
        protocol::Allocator::VARIABLES.join(" and ")
    )]
    SettingIgnored {
        asked: String,
        /// What libtorch says that it uses.
        effective: String,
    },
    /// The environment lacks what `deterministic` needs.
    #[error(
        "deterministic needs {variable}={value} in the environment before the process starts, \
         found {there}"
    )]
    EnvironmentMissing {
        variable: &'static str,
        /// What it must say.
        value: &'static str,
        /// What it says.
        there: String,
    },
    /// The folder of compiled kernels cannot be used.
    #[error(
        "kernel_cache session needs a writable folder in {}, found `{folder}`: {source}",
        protocol::KERNEL_CACHE_VARIABLE
    )]
    KernelCache { folder: String, source: io::Error },
    /// The environment says nothing that a rank could be.
    #[error(
        "{variable}={there}: expected {expected}; several ranks are started with torchrun's RANK, \
         LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    )]
    BadRank {
        variable: &'static str,
        /// What it says.
        there: String,
        expected: &'static str,
    },
    /// A collective wrote something else than it is to.
    #[error("{collective} wrote {got} where it is to write {expected}")]
    WrongMessage {
        collective: String,
        got: f64,
        expected: f64,
    },
    /// Host memory ran out outside libtorch.
    #[error("cannot allocate {bytes} bytes of host memory for synthetic data")]
    HostMemory { bytes: usize },
    /// No host memory is left to pin for what is offloaded.
    #[error(
        "{message}; the GPU has {} in tensors; raise `limits.memory`, offload less, or take a \
         smaller batch",
        .allocated_bytes.map_or_else(|| "an unknown number of bytes".to_owned(), |bytes| format!("{bytes} bytes"))
    )]
    OffloadMemory {
        /// What was asked for, and what is pinned.
        message: String,
        allocated_bytes: Option<u64>,
    },
    /// The loss is NaN or infinite.
    #[error("the loss of step {step} (from 0, warm-up included) is {loss}")]
    LossNotFinite {
        /// The first step with such a loss.
        step: usize,
        loss: f64,
    },
    #[error(
        "the loss did not fall: it is {late} on average over the last {steps} steps and was \
         {early} over the first {steps}, although the data are the same again and again"
    )]
    LossNotFalling {
        /// Mean of the first steps.
        early: f64,
        /// Mean of the last steps.
        late: f64,
        /// How many steps each mean is over.
        steps: usize,
    },
    #[error("the step cannot be captured as a CUDA graph, use execution eager: {0}")]
    NotCapturable(libtorch::Error),
    /// No rate of arrivals keeps the latency objective.
    #[error(
        "no rate of arrivals keeps the latency objective of {}: more than 1 % of the requests took \
         longer at {:.3} a second, where hardly one meets another; raise slo_ms{}",
        named(*.objective),
        .start / 64.0,
        if .objective.token.is_some() { " or slo_token_ms" } else { ", or lower longest_wait_ms" }
    )]
    ObjectiveNotMet {
        objective: Objective,
        /// The rate that the search began with.
        start: f64,
    },
    /// A trained parameter got no gradient.
    #[error("backward gave no gradient to the parameter `{name}`")]
    GradientMissing { name: String },
    /// The process holds more of the GPU than it may.
    #[error(
        "out of memory: the process holds {held_bytes} bytes of the GPU, of which it may hold {limit_bytes}"
    )]
    GpuMemory {
        limit_bytes: u64,
        /// What it holds: the context, libraries, and the allocator's.
        held_bytes: u64,
    },
    #[error("the data loader's worker {worker} of {workers} {cause}")]
    Loader {
        /// Which worker, from 1.
        worker: usize,
        workers: usize,
        /// What came of it, and what to do.
        cause: String,
    },
    /// A worker of the data loader has no room for a batch.
    #[error(
        "found no room for a batch of {bytes} bytes in {folder}{size}: {source}; raise `limits.shm`, or take fewer loader_workers, a smaller prefetch_factor or a smaller batch"
    )]
    SharedMemory {
        bytes: usize,
        folder: &'static str,
        /// How large that is, in words, where the kernel tells.
        size: String,
        source: io::Error,
    },
    /// The pipe between a data loader and its worker.
    #[error("{doing} the data loader's pipe: {source}")]
    Pipe {
        doing: &'static str,
        source: io::Error,
    },
    /// A file of the folder that a data loader reads.
    #[error(
        "{doing} `{path}`: {source}{}",
        if source.kind() == io::ErrorKind::StorageFull {
            "; raise `limits.tmp`, or take fewer folder_samples"
        } else {
            ""
        }
    )]
    Folder {
        doing: &'static str,
        path: String,
        source: io::Error,
    },
    /// What lies in memory alone is never read from a disk.
    #[error(
        "page_cache cold needs a folder on a disk, and `{folder}` lies in memory (tmpfs), as all \
         that a container may write does; use page_cache warm, or `--engine process` with TMPDIR \
         on a disk"
    )]
    PageCache { folder: String },
    #[error(transparent)]
    Libtorch(#[from] libtorch::Error),
    /// The results file cannot be written.
    #[error("{doing} the results file: {source}")]
    Results {
        doing: &'static str,
        source: io::Error,
    },
}

fn named(objective: Objective) -> String {
    match objective.token {
        None => format!("{:?}", objective.first),
        Some(token) => format!(
            "{:?} to the first token and {token:?} to each next one",
            objective.first
        ),
    }
}

impl Error {
    /// The failure's type in records.
    pub fn reason(&self) -> FailureReason {
        match self {
            Self::RunFileMissing { .. } | Self::RunFile(_) | Self::BadRank { .. } => {
                FailureReason::BadRunFile
            }
            Self::WrongMessage { .. } | Self::Libtorch(libtorch::Error::Exchange { .. }) => {
                FailureReason::Exchange
            }
            Self::DeviceUnavailable { .. } => FailureReason::DeviceUnavailable,
            Self::SettingIgnored { .. }
            | Self::EnvironmentMissing { .. }
            | Self::KernelCache { .. }
            | Self::PageCache { .. } => FailureReason::SettingIgnored,
            Self::HostMemory { .. } | Self::GpuMemory { .. } => FailureReason::OutOfMemory,
            Self::OffloadMemory { .. }
            | Self::Libtorch(libtorch::Error::HostOutOfMemory { .. }) => {
                FailureReason::HostOutOfMemory
            }
            Self::LossNotFinite { .. } => FailureReason::LossNotFinite,
            Self::LossNotFalling { .. } => FailureReason::LossNotFalling,
            Self::ObjectiveNotMet { .. } => FailureReason::SloNotMet,
            Self::GradientMissing { .. } => FailureReason::GradientMissing,
            Self::Loader { .. }
            | Self::SharedMemory { .. }
            | Self::Pipe { .. }
            | Self::Folder { .. } => FailureReason::DataLoader,
            Self::Libtorch(error) | Self::NotCapturable(error) if memory_ran_out(error) => {
                FailureReason::OutOfMemory
            }
            Self::NotCapturable(_) => FailureReason::NotCapturable,
            Self::Libtorch(_) => FailureReason::Libtorch,
            Self::Results { .. } => FailureReason::Results,
        }
    }

    #[must_use]
    pub fn not_capturable(self) -> Self {
        match self {
            Self::Libtorch(error) => Self::NotCapturable(error),
            error => error,
        }
    }

    /// With what lies on the GPU, where there is no room left beside it.
    #[must_use]
    pub fn beside(self, allocated_bytes: Option<u64>) -> Self {
        match self {
            Self::Libtorch(libtorch::Error::HostOutOfMemory { message }) => Self::OffloadMemory {
                message,
                allocated_bytes,
            },
            error => error,
        }
    }

    /// Whether an allocation on a GPU failed.
    pub fn is_of_gpu_memory(&self) -> bool {
        matches!(self, Self::Libtorch(error) | Self::NotCapturable(error) if error.is_out_of_memory())
    }

    /// The message for records: not endless.
    pub fn brief(&self) -> String {
        const LONGEST: usize = 2000;
        self.to_string().trim().chars().take(LONGEST).collect()
    }
}

impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        Self::Libtorch(error.into())
    }
}

/// Whether memory ran out: as a type, or in the words that only the type carries in C++ and
/// that tch passes on as text (`c10/cuda/CUDAMallocAsyncAllocator.cpp`: «would exceed allowed
/// memory. (out of memory)»; `std::bad_alloc` where the C++ library itself wanted some).
fn memory_ran_out(error: &libtorch::Error) -> bool {
    let message = error.to_string();
    error.is_out_of_memory()
        || message.contains("out of memory")
        || message.contains("std::bad_alloc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, reason: FailureReason, brief: &str) {
        let error = Error::from(tch::TchError::Torch(message.to_owned()));
        assert_eq!(error.reason(), reason, "{message}");
        assert!(error.brief().ends_with(brief), "{}", error.brief());
    }

    #[test]
    fn messages_of_libtorch_get_their_type_and_lose_their_backtrace() {
        check(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of \
             139.72 GiB\nException raised from malloc at CUDACachingAllocator.cpp:1",
            FailureReason::OutOfMemory,
            "139.72 GiB",
        );
        check(
            "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate \
             memory: you tried to allocate 8 bytes. Error code 12 (Cannot allocate memory)",
            FailureReason::OutOfMemory,
            "(Cannot allocate memory)",
        );
        check(
            "Allocation on device 0 would exceed allowed memory. (out of memory)\n\
             Currently allocated     : 1.00 GiB",
            FailureReason::OutOfMemory,
            "1.00 GiB",
        );
        check(
            "mat1 and mat2 shapes cannot be multiplied",
            FailureReason::Libtorch,
            "multiplied",
        );
    }
}
