//! Where in a document a value stands.

use std::fmt::{self, Write as _};

/// One step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    Key(String),
    /// A place in a list, from 0.
    Index(usize),
}

/// The way from the top of a document to a value, as in `scenarios[1].axes.precision`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(pub(crate) Vec<Segment>);

impl KeyPath {
    /// The whole document.
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

    pub fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl<'a> FromIterator<&'a serde_path_to_error::Segment> for KeyPath {
    fn from_iter<T: IntoIterator<Item = &'a serde_path_to_error::Segment>>(steps: T) -> Self {
        use serde_path_to_error::Segment as Step;
        let segments = steps.into_iter().map_while(|step| match step {
            Step::Seq { index } => Some(Segment::Index(*index)),
            Step::Map { key } => Some(Segment::Key(key.clone())),
            Step::Enum { variant } => Some(Segment::Key(variant.clone())),
            // The steps behind an unknown one could only mislead.
            Step::Unknown => None,
        });
        Self(segments.collect())
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
