//! Series over time with their changes of level, as a page and as text.

mod failures;
mod forms;
mod ledger;
mod picture;
mod series;

pub use failures::{annotations, failures};
pub(crate) use forms::page;
pub use forms::{html, ledger_text, line, markdown, text};
pub use ledger::{Entry, Standing};
pub(crate) use picture::chart;
pub(crate) use series::Urgency;
pub use series::{AttributeChange, Failure, MethodChange, MethodChanges, Series, time};
