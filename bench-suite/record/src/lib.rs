//! The files of a session.
//!
//! A session folder holds `session.json` (a [`Session`]: the plan, the machine, the images),
//! `records.ndjson` (one [`Record`] a line, written as each run ends) and `logs/`. Whoever reads
//! results, the judge and the reports among them, needs this crate and none of those that measure.

mod claim;
pub mod fit;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod image;
mod machine;
mod method;
mod monitor;
mod outcome;
mod parts;
mod run;
mod session;
mod text;
mod track;
mod upgrade;
mod validity;
mod window;

pub use claim::{CellChoice, Claim, Expectation, Range, RangeError};
pub use folder::{BadLine, FolderError, Records, SessionFolder};
pub use image::{ImageChange, ImageFacts, ImageLock, ImageParts, Part, PartValue, image_changes};
pub use machine::{Cpu, Gpu, Machine};
pub use method::{Method, MethodDifference, MethodKey};
pub use monitor::{Extent, GpuInterval, Monitor, Sample, Series, thinned};
pub use outcome::{Outcome, Reason, Stage};
pub use parts::MemoryParts;
pub use run::{HarnessCost, Isolation, Metrics, Record, StepTimes};
pub use session::{
    Asked, CellPlan, Deciding, EngineFacts, Labels, Look, LookEnd, RunPolicy, Session,
    SidesCompared, SuiteQuestion, Tool,
};
pub use text::{command_line, printable};
pub use track::usual_track;
pub use validity::{Before, Validity, ValidityLimits};
pub use window::{Peaks, Reading, Window};

/// Version of `session.json` and of the lines of `records.ndjson`. Those of versions 1 and 2 are read too.
pub const VERSION: u32 = 3;
