//! The words that harness and workload share.
//!
//! The harness writes one [`RunFile`] (JSON) for each run, the `scenario` binary
//! answers with one [`Event`] a line (JSON) in the results file. Both carry
//! [`VERSION`]; neither side accepts another one. Units stand in the field names.

mod allocator;
mod event;
mod length_range;
mod model;
mod run_file;
mod validity;
mod variant;

pub use allocator::{Allocator, AllocatorBackend, ParseAllocatorError};
pub use event::{
    AllocatorCounters, CudaFacts, Event, FailureReason, Memory, MemoryPoint, Moment, Phase,
    ScalerState, Shortage, Started, Step, StepParts, Summary,
};
pub use length_range::{LengthRange, ParseLengthRangeError};
pub use model::{InputKind, Model, Task};
pub use run_file::{Device, ParseDeviceError, RunFile, RunFileError, Steps};
pub use validity::{Refusal, check};
pub use variant::{
    Checkpointing, Execution, KernelCache, MemoryFormat, Optimizer, ParseCheckpointingError,
    Positive, Precision, Variant,
};

/// What a run with `deterministic` needs in its environment on a GPU, with its value: cuBLAS
/// then works in buffers that give the same bits every time (NVIDIA's cuBLAS documentation,
/// «Results Reproducibility»).
pub const DETERMINISTIC_ENVIRONMENT: (&str, &str) = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8");

/// Says where the CUDA driver keeps the kernels that it compiles (NVIDIA's CUDA programming guide,
/// «CUDA Environment Variables»). The harness sets it for every run on a GPU.
pub const KERNEL_CACHE_VARIABLE: &str = "CUDA_CACHE_PATH";

/// How long a step of the task idle is.
pub const IDLE_STEP: std::time::Duration = std::time::Duration::from_secs(1);

/// Version of the run file and of the event lines.
pub const VERSION: u32 = 3;
