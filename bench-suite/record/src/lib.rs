//! The files of a session.
//!
//! A session folder holds `session.json` (a [`Session`]: the plan, the machine, the images),
//! `records.ndjson` (one [`Record`] a line, written as each run ends; `records.ndjson.gz` once it is
//! packed) and `logs/`. Whoever reads results, the judge and the reports among them, needs this crate
//! and none of those that measure.

#![warn(missing_docs)]

mod claim;
mod declared;
pub mod fit;
mod folder;
mod image;
mod machine;
mod method;
mod monitor;
mod outcome;
mod run;
mod session;
mod text;
mod track;
mod validity;
mod window;
mod workload;

pub use claim::{CellChoice, ChosenCell, Claim, Expectation, Range, RangeError};
pub use declared::{Better, DeclaredMetric, MOST_DECLARED, Unit};
pub use folder::{FolderError, Records, SessionFolder};
pub use image::{ImageChange, ImageFacts, ImageLock, ImageParts, Part, PartValue, image_changes};
pub use machine::{Cpu, Gpu, Link, Machine, PciPath, Place};
pub use method::{Method, MethodDifference, MethodKey};
pub use monitor::{
    Extent, GpuInterval, GpuMonitor, Monitor, Sample, Sampled, Scope, Series, thinned,
};
pub use outcome::{Failure, Outcome, Reason, Stage};
pub use run::{HarnessCost, Isolation, Rank, Record, cell_name};
pub use session::{
    Asked, CellPlan, Deciding, EngineFacts, Labels, Look, LookEnd, MOST_CELLS, MOST_IMAGES, Others,
    RunPolicy, Session, SidesCompared, SuiteQuestion, Tool, YesWhen,
};
pub use text::{command_line, printable, word_of};
pub use track::usual_track;
pub use validity::{Before, Validity, ValidityLimits};
pub use window::Window;
pub use workload::Workload;

/// Version of `session.json` and of the lines of `records.ndjson`.
pub const VERSION: u32 = 4;
