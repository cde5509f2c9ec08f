//! One document.

use std::{collections::BTreeMap, io::Read as _, path::Path, sync::Arc};

use serde::de::DeserializeOwned;
use serde_saphyr::{Location, Spanned};

use crate::{
    KeyPath, Problem, Segment, YamlError,
    error::MOST_FOUND,
    most_similar,
    spot::Spot,
    strict::Strict,
    tree::{self, Node},
};

/// Most bytes of a document. What is larger is not even parsed.
pub const MAX_BYTES: usize = 1 << 20;
/// Most values of a document once every alias is written out.
pub const MAX_NODES: usize = 20_000;
pub const MAX_DEPTH: usize = 24;

/// A document that is sound YAML: within the limits, no tags.
#[derive(Debug, Clone)]
pub struct Document {
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
    pub(crate) root: Spanned<Node>,
    /// What was wrong in it and was taken out or replaced, by paths of the text.
    mended: Vec<KeyPath>,
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
            let problem = Problem::new(name, &text, None, place, message, None, help);
            YamlError::of(vec![problem])
        })?;
        Ok(Self {
            name: name.to_owned(),
            text,
            root,
            mended: Vec::new(),
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
        if !self.root.value.repeats.is_empty() {
            return Err(YamlError::of(self.repeats()));
        }
        serde_path_to_error::deserialize(Strict(self.value()))
            .map_err(|error| self.at(error.path().iter().collect()).serde(error.inner()))
    }

    fn repeats(&self) -> Vec<Problem> {
        let repeats = self.root.value.repeats.iter();
        let problem = |(key, place): &(String, Location)| {
            let message = format!("the key `{key}` is here for the second time");
            let help = Some("drop one of the two".to_owned());
            Problem::new(&self.name, &self.text, None, *place, message, None, help)
        };
        repeats.map(problem).collect()
    }

    /// All that `read` finds wrong, although it stops at the first mistake: what is wrong is taken
    /// out of a copy, which is read again.
    ///
    /// A key that is missing is replaced by the one of `stand_ins`. What is wrong with a value
    /// because something in it was taken out is not reported; what else depends on values
    /// elsewhere, `read` leaves where [`Spot::mended`] says so.
    pub fn read_whole<T>(
        &self,
        stand_ins: &[(&str, &str)],
        read: impl Fn(&Self) -> Result<T, YamlError>,
    ) -> Result<T, YamlError> {
        let mut copy = self.clone();
        let mut problems = self.repeats();
        copy.root.value.repeats.clear();
        for _ in 0..MOST_FOUND {
            let found = match read(&copy) {
                Ok(read) if problems.is_empty() => return Ok(read),
                Ok(_) => break,
                Err(YamlError::Wrong(problems)) => problems,
                Err(other) => return Err(other),
            };
            // What is mended first moves nothing that is mended later.
            let mut places = BTreeMap::new();
            for problem in found {
                let path = problem.path.clone().unwrap_or_default();
                let missing = problem.missing.clone();
                if !copy.follows(&path, missing.as_deref()) {
                    problems.push(problem);
                }
                places.insert(path, missing);
            }
            let mut places = places.iter().rev();
            let is_left = |(path, missing): (&KeyPath, &Option<String>)| {
                copy.mend(path, missing.as_deref(), stand_ins)
            };
            if !places.all(is_left) {
                break;
            }
        }
        Err(YamlError::of(problems))
    }

    /// Whether a mistake at `path` comes of what was mended there.
    fn follows(&self, path: &KeyPath, missing: Option<&str>) -> bool {
        let written = Node::find(&self.root, path).path;
        let is_cause = |way: &[Segment]| match (missing, way) {
            (None, _) => true,
            (Some(missing), [Segment::Key(key)]) => most_similar(key, [missing]).is_some(),
            (Some(_), _) => false,
        };
        self.ways(&written).any(is_cause)
    }

    /// Takes out what is wrong, or puts in what is missing; whether something else is left.
    fn mend(&mut self, path: &KeyPath, missing: Option<&str>, stand_ins: &[(&str, &str)]) -> bool {
        let found = Node::find(&self.root, path);
        let stand_in = stand_ins.iter().find(|(name, _)| Some(*name) == missing);
        let map = tree::value_at(&mut self.root.value.value, path.segments());
        if let (Some((key, json)), Some(serde_json::Value::Object(map))) = (stand_in, map) {
            let value = serde_json::from_str(json).unwrap_or_default();
            map.insert((*key).to_owned(), value);
            self.mended.push(found.path.key(*key));
            return true;
        }
        Node::remove(&mut self.root, &path.segments()[..found.depth]);
        let mut written = found.path;
        written.0.truncate(found.depth);
        self.mended.push(written);
        found.depth > 0
    }

    pub(crate) fn ways<'a>(&'a self, written: &'a KeyPath) -> impl Iterator<Item = &'a [Segment]> {
        let mended = self.mended.iter();
        mended.filter_map(|path| path.segments().strip_prefix(written.segments()))
    }

    pub fn value(&self) -> &serde_json::Value {
        &self.root.value.value
    }

    /// The whole document.
    pub fn top(&self) -> Spot<'_> {
        self.at(KeyPath::root())
    }

    /// The value at `path`.
    pub fn at(&self, path: KeyPath) -> Spot<'_> {
        Spot::new(self, path)
    }

    /// An error about the value at `path`, with an optional next step; see [`Spot::error`].
    pub fn error_at(
        &self,
        path: &KeyPath,
        message: impl Into<String>,
        help: Option<String>,
    ) -> YamlError {
        self.at(path.clone()).error(message, help)
    }
}
