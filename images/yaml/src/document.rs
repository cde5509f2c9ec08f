//! One document.

use std::{io::Read as _, path::Path};

use serde::de::DeserializeOwned;

use crate::{
    KeyPath, Problem, YamlError,
    excerpt::Excerpt,
    strict::Strict,
    tree::{Place, Tree},
    wording::{self, Target},
};

/// Most bytes of a document. What is larger is not even parsed.
pub const MAX_BYTES: usize = 1 << 20;
/// Most values of a document once every alias is written out.
pub const MAX_NODES: usize = 20_000;
/// Deepest nesting of a document.
pub const MAX_DEPTH: usize = 64;

/// A document that is sound YAML: within the limits, no key twice, no tags.
#[derive(Debug, Clone)]
pub struct Document {
    name: String,
    text: String,
    value: serde_json::Value,
    tree: Tree,
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
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let problem = |path, place: Place, message, help| {
            let excerpt = Excerpt::new(name, text, place.line, place.column, place.length);
            let problem = Problem::new(path, message, None, help, name, excerpt);
            YamlError::At(Box::new(problem))
        };
        let tree = Tree::read(text)
            .map_err(|fault| problem(fault.path, fault.place, fault.message, fault.help))?;
        let value = serde_yaml::from_str(text).map_err(|error| {
            let place = error.location().map_or(
                Place {
                    line: 1,
                    column: 0,
                    length: 1,
                },
                |location| Place {
                    line: location.line(),
                    column: location.column().saturating_sub(1),
                    length: 1,
                },
            );
            let message = format!("not valid YAML: {error}");
            problem(KeyPath::root(), place, message, None)
        })?;
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            value,
            tree,
        })
    }

    /// The name that stands in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text, without a byte order mark.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The document as a `T`.
    ///
    /// The document is seen as JSON: an enum with data is written `{variant: data}`.
    /// `#[serde(flatten)]` and `untagged` lose the position below them; use neither.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        serde_path_to_error::deserialize(Strict(&self.value))
            .map_err(|error| self.error_from_serde(&KeyPath::from(error.path()), error.inner()))
    }

    /// The whole document as JSON.
    #[must_use]
    pub fn value(&self) -> &serde_json::Value {
        &self.value
    }

    /// serde's error about the value at `path` (or about that key), in plain words.
    ///
    /// For parts that a caller takes as [`serde_json::Value`] first and types later.
    #[must_use]
    pub fn error_from_serde(&self, path: &KeyPath, error: &serde_json::Error) -> YamlError {
        let wording = wording::of(&error.to_string());
        let found = self.tree.find(path);
        let place = match wording.target {
            Target::Key => found.key.unwrap_or(found.value),
            Target::Value => found.value,
        };
        self.problem(
            path.clone(),
            place,
            wording.message,
            wording.expected,
            wording.help,
        )
    }

    /// An error about the value at `path`, with an optional next step.
    ///
    /// Where the document has no such value the caret points to the nearest one around it.
    #[must_use]
    pub fn error_at(
        &self,
        path: &KeyPath,
        message: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        let place = self.tree.find(path).value;
        self.problem(path.clone(), place, message.into(), None, help)
    }

    /// An error about the value at `path`, with what was expected beside the caret.
    #[must_use]
    pub fn error_expecting(
        &self,
        path: &KeyPath,
        message: impl Into<String>,
        expected: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        let place = self.tree.find(path).value;
        let expected = Some(expected.into());
        self.problem(path.clone(), place, message.into(), expected, help)
    }

    /// An error about the key of the value at `path`, with what was expected beside the caret.
    #[must_use]
    pub fn error_at_key(
        &self,
        path: &KeyPath,
        message: impl Into<String>,
        expected: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        let found = self.tree.find(path);
        let place = found.key.unwrap_or(found.value);
        let expected = Some(expected.into());
        self.problem(path.clone(), place, message.into(), expected, help)
    }

    fn problem(
        &self,
        path: KeyPath,
        place: Place,
        message: String,
        label: Option<String>,
        help: Option<String>,
    ) -> YamlError {
        let excerpt = Excerpt::new(
            &self.name,
            &self.text,
            place.line,
            place.column,
            place.length,
        );
        let problem = Problem::new(path, message, label, help, &self.name, excerpt);
        YamlError::At(Box::new(problem))
    }
}
