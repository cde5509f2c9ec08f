//! Which projections of a decoder have a low-rank adapter.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::text::text_form;

/// A linear layer of a decoder's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Projection {
    /// To queries.
    Query,
    /// To keys.
    Key,
    /// To values.
    Value,
    /// Out of attention.
    Output,
    /// To the perceptron's gate.
    Gate,
    /// Into the perceptron.
    Up,
    /// Out of the perceptron.
    Down,
}

impl Projection {
    /// All, with their names in suites.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Query, "q"),
        (Self::Key, "k"),
        (Self::Value, "v"),
        (Self::Output, "o"),
        (Self::Gate, "gate"),
        (Self::Up, "up"),
        (Self::Down, "down"),
    ];
}

/// Some projections, at least one, written as `q+v`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoraTargets(BTreeSet<Projection>);

/// Queries and values (Hu et al., «`LoRA`», 2021, section 4.2).
impl Default for LoraTargets {
    fn default() -> Self {
        Self(BTreeSet::from([Projection::Query, Projection::Value]))
    }
}

impl LoraTargets {
    /// Whether this one has an adapter.
    pub fn has(&self, projection: Projection) -> bool {
        self.0.contains(&projection)
    }
}

/// Why a text names no targets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown LoRA target `{0}`; expected some of q, k, v, o, gate, up and down, each once and \
     joined by +"
)]
pub struct ParseLoraTargetsError(String);

impl FromStr for LoraTargets {
    type Err = ParseLoraTargetsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut targets = BTreeSet::new();
        for word in text.split('+') {
            let known = Projection::ALL.iter().find(|(_, name)| *name == word);
            match known {
                Some((projection, _)) if targets.insert(*projection) => {}
                _ => return Err(ParseLoraTargetsError(word.to_owned())),
            }
        }
        Ok(Self(targets))
    }
}

impl fmt::Display for LoraTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen = Projection::ALL.iter().filter(|(one, _)| self.has(*one));
        let names: Vec<_> = chosen.map(|(_, name)| *name).collect();
        f.write_str(&names.join("+"))
    }
}

text_form!(
    LoraTargets,
    "Projections with an adapter: some of q, k, v, o, gate, up and down, joined by +",
    r"^(q|k|v|o|gate|up|down)(\+(q|k|v|o|gate|up|down))*$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_and_write() {
        let usual = LoraTargets::default();
        assert_eq!("v+q".parse(), Ok(usual.clone()));
        assert_eq!(usual.to_string(), "q+v");
        assert!(usual.has(Projection::Value) && !usual.has(Projection::Key));
        for (text, bad) in [("", ""), ("q+w", "w"), ("q+q", "q"), ("q v", "q v")] {
            let error = text.parse::<LoraTargets>().unwrap_err();
            assert_eq!(error, ParseLoraTargetsError(bad.to_owned()));
        }
    }
}
