//! A value of a document, and what can be said of it.

use crate::{Document, KeyPath, Problem, Segment, YamlError, did_you_mean, tree::Node, wording};

/// A place in a document, where a value stands or might.
#[derive(Debug, Clone)]
pub struct Spot<'a> {
    document: &'a Document,
    path: KeyPath,
    /// Whether errors are about the key rather than the value.
    is_key: bool,
}

impl<'a> Spot<'a> {
    pub(crate) fn new(document: &'a Document, path: KeyPath) -> Self {
        Self {
            document,
            path,
            is_key: false,
        }
    }

    pub fn document(&self) -> &'a Document {
        self.document
    }

    pub fn path(&self) -> &KeyPath {
        &self.path
    }

    /// The value under this key of the map here.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        Self::new(self.document, self.path.clone().key(key))
    }

    /// The value at this place, from 0, of the list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self::new(self.document, self.path.clone().index(index))
    }

    /// The same for errors about the key of the value.
    #[must_use]
    pub fn on_key(mut self) -> Self {
        self.is_key = true;
        self
    }

    /// The ways from the value here to what was wrong in it, where the document is a copy that
    /// [`Document::read_whole`] mended.
    pub fn mended(&self) -> Vec<Vec<Segment>> {
        let written = Node::find(&self.document.root, &self.path).path;
        let ways = self.document.ways(&written);
        ways.map(<[Segment]>::to_vec).collect()
    }

    /// Whether nothing was wrong in the value here; see [`Self::mended`].
    pub fn is_sound(&self) -> bool {
        self.mended().is_empty()
    }

    /// An error with an optional next step.
    ///
    /// Where the document has no such value the caret points to the nearest one around it.
    pub fn error(&self, message: impl Into<String>, help: Option<String>) -> YamlError {
        YamlError::of(vec![self.problem(message, None, help)])
    }

    /// An error with what was expected beside the caret.
    pub fn expecting(
        &self,
        message: impl Into<String>,
        expected: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        YamlError::of(vec![self.problem(message, Some(expected.into()), help)])
    }

    /// An error about a name that is none of those known, with the one that was probably meant;
    /// `expected` begins the list of them.
    pub fn unknown(
        &self,
        message: impl Into<String>,
        expected: &str,
        name: &str,
        known: &[&str],
    ) -> YamlError {
        let expected = format!("{expected}{}", known.join(", "));
        self.expecting(message, expected, did_you_mean(name, known.iter().copied()))
    }

    /// serde's error about the value here (or about its key), in plain words.
    ///
    /// For parts that a caller takes as [`serde_json::Value`] first and types later.
    pub fn serde(mut self, error: &serde_json::Error) -> YamlError {
        let wording = wording::of(&error.to_string());
        self.is_key = wording.is_key;
        let mut problem = self.problem(wording.message, wording.expected, wording.help);
        problem.missing = wording.missing;
        YamlError::of(vec![problem])
    }

    fn problem(
        &self,
        message: impl Into<String>,
        label: Option<String>,
        help: Option<String>,
    ) -> Problem {
        let Document {
            name, text, root, ..
        } = self.document;
        let found = Node::find(root, &self.path);
        let place = found.key.filter(|_| self.is_key).unwrap_or(found.value);
        let written = Some(found.path);
        let mut problem = Problem::new(name, text, written, place, message.into(), label, help);
        problem.path = Some(self.path.clone());
        problem
    }
}
