//! How it is shown: sessions to pictures, HTML, Markdown, JSON and text.
//!
//! [`write()`] draws the reports of one or more session folders. The steps are open to who needs
//! only some of them: [`Source::read`] reads a folder, [`View::of`] computes what there is to
//! say, and [`html`], [`markdown`], [`json`] and [`text`] give it a form. [`comparison`] and
//! [`claims`] do the same for the judge's verdicts, [`fit`] for a search for the largest batch,
//! [`trend`] for series over time; [`site`] puts all of them side by side.
//!
//! Nothing here knows of containers, libtorch or terminals, and nothing prints.

#![expect(
    clippy::format_collect,
    clippy::format_push_string,
    reason = "texts of a few kilobytes, written once; `write!` would bring an error that cannot be"
)]

mod charts;
pub mod claims;
pub mod comparison;
mod counts;
mod document;
mod facets;
pub mod fit;
pub mod measure;
mod model;
mod plots;
mod render;
mod session;
pub mod site;
mod svg;
pub mod trend;
mod words;
mod write;

pub use model::{Report, Source, View};
pub use plots::attribution;
pub use render::json;
pub use session::{html, markdown, text, write};
pub use words::format;
pub use write::{ReportError, write_files};
