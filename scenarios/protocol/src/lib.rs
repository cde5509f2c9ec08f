//! The words that harness and workload share.
//!
//! The harness writes one [`RunFile`] (JSON) for each run, the `scenario` binary
//! answers with one [`Event`] a line (JSON) in the results file. Both carry
//! [`VERSION`]; neither side accepts another one. Units stand in the field names.

#![warn(missing_docs)]

mod allocator;
mod arrivals;
mod axis;
mod count;
mod event;
mod kernel;
mod length_range;
mod lora;
mod model;
mod module;
mod nccl;
mod program;
mod program_run;
mod quantisation;
mod run_file;
mod text;
mod trace;
mod validity;
mod values;
mod variant;
mod volume;

pub use allocator::{Allocator, AllocatorBackend};
pub use arrivals::{Arrivals, SEARCHED_QUANTILE, requests_needed, search_window};
pub use axis::{Axes, Axis};
pub use count::{Count, Positive};
pub use event::{
    CudaFacts, Event, FailureReason, MemoryPoint, Moment, Phase, Shortage, Source, Started, Step,
};
pub use kernel::{Kernel, MOST_KERNELS};
pub use length_range::LengthRange;
pub use lora::{LoraTargets, Projection};
pub use model::{InputKind, Model, Task};
pub use module::{MOST_MODULES, Module};
pub use nccl::Nccl;
pub use program::{program, set_program};
pub use program_run::{EVENTS_VARIABLE, ProgramRun, RUN_VARIABLE, Until};
pub use quantisation::{Fp8, Int8, Qat};
pub use run_file::{Device, MOST_RANKS, RunFile, RunFileError, Snapshot, Steps};
pub use text::ParseError;
pub use trace::{TensorEvent, Trace, TracedRequest};
pub use validity::{Refusal, check, check_steps, check_traced};
pub use values::{MOST_VALUES, Values, bad_name, bad_values};
// All of it, so that a new axis needs no line here.
pub use variant::*;

/// Where the allocator's history goes: a file beside that of the event lines.
pub const SNAPSHOT_FILE: &str = "snapshot.pickle";

/// How long a step of the task idle is.
pub const IDLE_STEP: std::time::Duration = std::time::Duration::from_secs(1);

/// Version of the run file and of the event lines.
pub const VERSION: u32 = 4;
