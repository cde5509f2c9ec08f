//! The words that harness and workload share.
//!
//! The harness writes one [`RunFile`] (JSON) for each run, the `scenario` binary
//! answers with one [`Event`] a line (JSON) in the results file. Both carry
//! [`VERSION`]; neither side accepts another one. Units stand in the field names.

mod allocator;
mod event;
mod model;
mod run_file;
mod validity;
mod variant;

pub use allocator::{Allocator, AllocatorBackend, ParseAllocatorError};
pub use event::{
    AllocatorCounters, CudaFacts, Event, FailureReason, Memory, Phase, ScalerState, Started, Step,
    Summary,
};
pub use model::{InputKind, Model, Task};
pub use run_file::{Device, ParseDeviceError, RunFile, RunFileError, Steps};
pub use validity::{Refusal, check};
pub use variant::{
    Checkpointing, MemoryFormat, Optimizer, ParseCheckpointingError, Positive, Precision, Variant,
};

/// Version of the run file and of the event lines.
pub const VERSION: u32 = 1;
