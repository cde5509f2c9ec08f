//! Where in a document a value stands.

use std::fmt::{self, Write as _};

/// One step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A key of a map.
    Key(String),
    /// A place in a list, from 0.
    Index(usize),
}

/// The way from the top of a document to a value, as in `scenarios[1].axes.precision`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct KeyPath(Vec<Segment>);

impl KeyPath {
    /// The whole document.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The value under this key of the map at `self`.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.push(Segment::Key(key.into()));
        self
    }

    /// The value at this place, from 0, of the list at `self`.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Segment::Index(index));
        self
    }

    /// The steps from the top.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl From<&serde_path_to_error::Path> for KeyPath {
    fn from(path: &serde_path_to_error::Path) -> Self {
        use serde_path_to_error::Segment as Told;
        let mut segments = Vec::new();
        for segment in path {
            match segment {
                Told::Seq { index } => segments.push(Segment::Index(*index)),
                Told::Map { key } => segments.push(Segment::Key(key.clone())),
                Told::Enum { variant } => segments.push(Segment::Key(variant.clone())),
                // The steps behind an unknown one could only mislead.
                Told::Unknown => break,
            }
        }
        Self(segments)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("(top level)");
        }
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if place == 0 => write_key(f, key)?,
                Segment::Key(key) => {
                    f.write_str(".")?;
                    write_key(f, key)?;
                }
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A key may be anything in a file that is not to be trusted: shown cut, and without what would
/// steer a terminal.
fn write_key(f: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
    const LONGEST: usize = 80;
    for letter in key.chars().take(LONGEST) {
        f.write_char(if letter.is_control() { ' ' } else { letter })?;
    }
    if key.chars().nth(LONGEST).is_some() {
        f.write_str("…")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_people_write_them() {
        let path = KeyPath::root().key("scenarios").index(1).key("axes");
        assert_eq!(path.to_string(), "scenarios[1].axes");
        assert_eq!(KeyPath::root().to_string(), "(top level)");
    }
}
