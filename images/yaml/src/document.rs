//! One document.

use std::{io::Read as _, path::Path, sync::Arc};

use serde::de::DeserializeOwned;
use serde_saphyr::Spanned;

use crate::{
    KeyPath, Problem, YamlError,
    strict::Strict,
    tree::{self, Node},
    wording,
};

/// Most bytes of a document. What is larger is not even parsed.
pub const MAX_BYTES: usize = 1 << 20;
/// Most values of a document once every alias is written out.
pub const MAX_NODES: usize = 20_000;
pub const MAX_DEPTH: usize = 24;

/// A document that is sound YAML: within the limits, no tags.
#[derive(Debug, Clone)]
pub struct Document {
    name: String,
    text: Arc<str>,
    root: Spanned<Node>,
}

impl Document {
    /// Reads a file. Errors name it as `path` is written.
    pub fn read(path: &Path) -> Result<Self, YamlError> {
        let failed = |source| YamlError::Read {
            path: path.to_owned(),
            source,
        };
        let file = regular_file::open_own(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        Self::from_bytes(&path.display().to_string(), &bytes)
    }

    /// Reads a text; `name` stands in errors.
    pub fn from_text(name: &str, text: &str) -> Result<Self, YamlError> {
        Self::from_bytes(name, text.as_bytes())
    }

    /// Reads bytes; `name` stands in errors.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, YamlError> {
        if bytes.len() > MAX_BYTES {
            return Err(YamlError::TooLarge {
                name: name.to_owned(),
            });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| YamlError::NotUtf8 {
            name: name.to_owned(),
            line: bytes[..error.valid_up_to()]
                .split(|byte| *byte == b'\n')
                .count(),
            byte: error.valid_up_to(),
        })?;
        let text: Arc<str> = text.strip_prefix('\u{feff}').unwrap_or(text).into();
        let root = tree::read(&text).map_err(|(place, (message, help))| {
            let help = help.map(str::to_owned);
            Problem::new(name, &text, None, place, message, None, help)
        })?;
        Ok(Self {
            name: name.to_owned(),
            text,
            root,
        })
    }

    /// The name that stands in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The document as a `T`.
    ///
    /// The document is seen as JSON: an enum with data is written `{variant: data}`.
    /// `#[serde(flatten)]` and `untagged` lose the position below them; use neither.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        serde_path_to_error::deserialize(Strict(self.value()))
            .map_err(|error| self.error_from_serde(&error.path().iter().collect(), error.inner()))
    }

    pub fn value(&self) -> &serde_json::Value {
        &self.root.value.value
    }

    /// serde's error about the value at `path` (or about that key), in plain words.
    ///
    /// For parts that a caller takes as [`serde_json::Value`] first and types later.
    pub fn error_from_serde(&self, path: &KeyPath, error: &serde_json::Error) -> YamlError {
        let wording = wording::of(&error.to_string());
        let (expected, help) = (wording.expected, wording.help);
        self.problem(path, wording.is_key, wording.message, expected, help)
            .into()
    }

    /// An error about the value at `path`, with an optional next step.
    ///
    /// Where the document has no such value the caret points to the nearest one around it.
    pub fn error_at(
        &self,
        path: &KeyPath,
        message: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        self.problem(path, false, message, None, help).into()
    }

    /// An error about the value at `path`, with what was expected beside the caret.
    pub fn error_expecting(
        &self,
        path: &KeyPath,
        message: impl Into<String>,
        expected: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        self.problem(path, false, message, Some(expected.into()), help)
            .into()
    }

    /// An error about the key of the value at `path`, with what was expected beside the caret.
    pub fn error_at_key(
        &self,
        path: &KeyPath,
        message: impl Into<String>,
        expected: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        self.problem(path, true, message, Some(expected.into()), help)
            .into()
    }

    fn problem(
        &self,
        path: &KeyPath,
        is_key: bool,
        message: impl Into<String>,
        label: Option<String>,
        help: Option<String>,
    ) -> Box<Problem> {
        let (value, key) = Node::find(&self.root, path);
        let place = key.filter(|_| is_key).unwrap_or(value);
        let (name, text) = (&self.name, &self.text);
        Problem::new(name, text, Some(path), place, message.into(), label, help)
    }
}
