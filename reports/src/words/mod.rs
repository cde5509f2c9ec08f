//! Numbers, metrics, comparisons and claims in words.

pub(crate) mod claims;
pub(crate) mod comparison;
pub mod format;
pub(crate) mod lists;
pub(crate) mod metric;
pub(crate) mod names;
