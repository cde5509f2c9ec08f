//! The words that harness and workload share.
//!
//! The harness writes one [`RunFile`] (JSON) for each run, the `scenario` binary
//! answers with one [`Event`] a line (JSON) in the results file. Both carry
//! [`VERSION`]; neither side accepts another one. Units stand in the field names.

mod allocator;
mod axis;
mod count;
mod event;
mod length_range;
mod model;
mod run_file;
mod text;
mod validity;
mod variant;

pub use allocator::{Allocator, AllocatorBackend, ParseAllocatorError};
pub use axis::Axis;
pub use count::{Count, Positive};
pub use event::{
    AllocatorCounters, CudaFacts, Event, FailureReason, Memory, MemoryPoint, Moment, Phase,
    ScalerState, Shortage, Started, Step, StepParts, Summary,
};
pub use length_range::{LengthRange, ParseLengthRangeError};
pub use model::{InputKind, Model, Task};
pub use run_file::{Device, ParseDeviceError, RunFile, RunFileError, Steps};
pub use validity::{Refusal, check};
// All of it, so that a new axis needs no line here.
pub use variant::*;

/// How long a step of the task idle is.
pub const IDLE_STEP: std::time::Duration = std::time::Duration::from_secs(1);

/// Version of the run file and of the event lines.
pub const VERSION: u32 = 3;
