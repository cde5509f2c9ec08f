//! Which projections of a decoder have a low-rank adapter.

use std::{collections::BTreeSet, fmt};

use crate::text::{read_by, text_form};

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

read_by!(
    LoraTargets,
    "unknown LoRA target `{}`; expected some of q, k, v, o, gate, up and down, each once and \
     joined by +",
    |text| {
        let mut targets = BTreeSet::new();
        for word in text.split('+') {
            let (target, _) = Projection::ALL.iter().find(|(_, name)| *name == word)?;
            targets.insert(*target).then_some(())?;
        }
        Some(Self(targets))
    }
);

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
        for text in ["", "q+w", "q+q", "q v"] {
            let error = text.parse::<LoraTargets>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown LoRA target `{text}`; ")));
        }
    }
}
