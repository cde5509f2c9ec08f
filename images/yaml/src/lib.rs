//! YAML documents read strictly, with positions for every error.
//!
//! A [`Document`] is one file that people write by hand: small, without duplicate keys, tags or
//! tricks with aliases. [`Document::parse`] turns it into a type; whatever is wrong with it comes
//! back as a [`YamlError`] that names the file, the key path and the line, shows the line with a
//! caret, and says what was expected. A [`Spot`] makes the same kind of error for what
//! only the caller can know, such as a combination that means nothing.
//!
//! serde-saphyr reads the text once, into values and the places of them and of their keys. Types are
//! read out of these values and not by serde-saphyr itself: errors that come later need the places
//! ([`Spot::error`]), and what some keys may hold depends on others ([`Spot::serde`]), so that every text would have to be read twice.
//!
//! ```
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Suite {
//!     name: String,
//! }
//!
//! let document = strict_yaml::Document::from_text("suite.yaml", "nam: smoke\n")?;
//! let error = document.parse::<Suite>().err().expect("`nam` is no key");
//! assert!(error.to_string().starts_with("suite.yaml:1:1: nam: unknown key `nam`"));
//! assert!(error.render(false).contains("did you mean `name`?"));
//! # Ok::<(), strict_yaml::YamlError>(())
//! ```

mod document;
mod error;
mod key_path;
mod similar;
mod spot;
mod strict;
mod tree;
mod wording;

pub use document::{Document, MAX_BYTES, MAX_DEPTH, MAX_NODES};
pub use error::{Problem, YamlError, printable};
pub use key_path::{KeyPath, Segment};
pub use similar::{did_you_mean, most_similar};
pub use spot::Spot;
