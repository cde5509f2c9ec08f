//! What a report says, before it has a form: [`Report`] for programs, and [`View`], which adds
//! the order in which people read it.

pub(crate) mod answers;
mod build;
pub(crate) mod changes;
pub(crate) mod effects;
mod failure;
mod group;
pub(crate) mod headline;
mod metrics;
mod pairs;
mod report;
mod rerun;
mod sentences;
mod slow;
mod source;
mod spread;
pub(crate) mod time;
pub(crate) mod versions;
mod view;
mod warnings;

pub(crate) use changes::Change;
pub(crate) use failure::{Contaminated, Failure, is_contaminated};

pub(crate) use group::{Group, RUN_PEAK_ABOVE, Row};
pub use report::Report;
pub(crate) use report::{CellSummary, Counts, GateOutcome, Headline, SessionSummary};
pub use source::Source;
pub(crate) use spread::Spread;
pub use view::View;
pub(crate) use warnings::not_isolated;
