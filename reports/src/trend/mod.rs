//! Series over time with their changes of level, as a page and as text.

mod failures;
mod forms;
mod ledger;
mod method;
mod picture;
mod series;

pub use failures::{annotations, failures, junit};
pub(crate) use forms::page;
pub use forms::{html, ledger_text, line, markdown, text};
pub use ledger::{Entry, Moved, Spot, Standing};
pub use method::{MethodChange, MethodChanges};
pub(crate) use picture::chart;
pub(crate) use series::Urgency;
pub use series::{AttributeChange, Failure, Series, time};
