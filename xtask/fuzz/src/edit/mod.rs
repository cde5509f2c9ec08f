//! Edits that know the form of what they edit, down to texts and bytes that libFuzzer mutates.

pub(crate) mod json;
pub(crate) mod table;
pub(crate) mod yaml;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// Larger inputs are rare in use and slow here.
pub const MAX_INPUT_BYTES: usize = 1 << 18;

/// What edits are chosen by.
pub struct Dice {
    random: ChaCha8Rng,
    mutate: fn(&[u8]) -> Vec<u8>,
}

impl Dice {
    /// Those of this seed; `mutate` changes bytes that have no form, as libFuzzer does.
    #[must_use]
    pub fn new(seed: u64, mutate: fn(&[u8]) -> Vec<u8>) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            mutate,
        }
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// How often a document is edited. One edit lets most of it through to where it matters; many
    /// find what only a combination breaks.
    fn edits(&mut self) -> usize {
        let mut edits = 1;
        while edits < 12 && self.one_in(2) {
            edits += 1;
        }
        edits
    }

    pub(crate) fn mutated(&self, bytes: &[u8]) -> Vec<u8> {
        (self.mutate)(bytes)
    }

    /// A text that differs from this one a little, or one that has nothing of it, which is often a
    /// word of the dictionary.
    fn text(&mut self, old: &str) -> String {
        match self.below(40) {
            0 => "x".repeat(*self.pick(&[100, 300, 5000, 70_000])),
            1..20 => lossy(&self.mutated(b"")),
            _ => lossy(&self.mutated(old.as_bytes())),
        }
    }

    fn number(&mut self, old: &str) -> Value {
        let near = old.parse::<f64>().unwrap_or_default();
        let text = match self.below(4) {
            0 => (near * self.pick(&[-1.0, 0.5, 1e-6, 1000.0, 1e6])).to_string(),
            1 => lossy(&self.mutated(old.as_bytes())),
            _ => {
                let numbers: Vec<&str> = NUMBERS.split(' ').collect();
                (*self.pick(&numbers)).to_owned()
            }
        };
        serde_json::from_str(&text).unwrap_or_else(|_| 0.into())
    }

    /// A value that programs stumble over.
    fn value(&mut self) -> Value {
        match self.below(10) {
            0 => Value::Null,
            1 => self.one_in(2).into(),
            2 => Value::Array(Vec::new()),
            3 => serde_json::json!({}),
            4 => {
                let mut deep = Value::Null;
                for _ in 0..*self.pick(&[2, 30, 63, 130]) {
                    deep = match self.below(2) {
                        0 => serde_json::json!([deep]),
                        _ => serde_json::json!({ "a": deep }),
                    };
                }
                deep
            }
            5..8 => self.number("1"),
            _ => self.text("").into(),
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Numbers that programs stumble over.
const NUMBERS: &str = "0 -1 1 2 7 1000 4294967295 4294967296 9007199254740993 18446744073709551615 \
    -9223372036854775808 9223372036854775807 1e308 -1e308 5e-324 -0.0 0.1 0.5 1e19";

/// The documents that edits start from, and take pieces of.
pub struct Pool {
    seeds: Vec<Vec<u8>>,
    documents: Vec<Value>,
}

impl Pool {
    pub(crate) fn new(seeds: Vec<Vec<u8>>) -> Self {
        let lines = seeds
            .iter()
            .flat_map(|seed| seed.split(|byte| matches!(byte, 0 | b'\n')));
        let mut documents: Vec<Value> = lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        documents.extend(
            seeds
                .iter()
                .filter_map(|seed| serde_yaml::from_slice(seed).ok()),
        );
        documents.retain(|document| document.is_object() || document.is_array());
        Self { seeds, documents }
    }

    /// All documents.
    #[must_use]
    pub fn seeds(&self) -> &[Vec<u8>] {
        &self.seeds
    }

    /// One of them.
    pub fn seed(&self, dice: &mut Dice) -> &[u8] {
        dice.pick::<Vec<u8>>(&self.seeds)
    }

    /// A value somewhere in a document, with its key.
    fn piece(&self, dice: &mut Dice) -> (String, Value) {
        let mut key = "a".to_owned();
        if self.documents.is_empty() || dice.one_in(3) {
            return (dice.text(&key), dice.value());
        }
        let mut at = dice.pick(&self.documents);
        loop {
            at = match at {
                Value::Object(fields) if !fields.is_empty() => {
                    let place = dice.below(fields.len());
                    let field = fields
                        .iter()
                        .nth(place)
                        .expect("the place is below the length");
                    field.0.clone_into(&mut key);
                    field.1
                }
                Value::Array(items) if !items.is_empty() => dice.pick(items),
                leaf => return (key, leaf.clone()),
            };
            if dice.one_in(6) {
                return (key, at.clone());
            }
        }
    }
}

/// Edits the lines of a document: their order and number, and some by `edit`.
pub(crate) fn lines(
    document: &[u8],
    dice: &mut Dice,
    edit: impl Fn(&[u8], &mut Dice) -> Vec<u8>,
) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = document
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for _ in 0..dice.edits() {
        let (at, other) = (dice.below(lines.len()), dice.below(lines.len()));
        match dice.below(12) {
            0 if lines.len() > 1 => drop(lines.remove(at)),
            1 => {
                let times = if lines[at].len() < 100 {
                    *dice.pick(&[1, 20, 300])
                } else {
                    1
                };
                let copies = vec![lines[at].clone(); times];
                lines.splice(other..other, copies);
            }
            2 => lines.swap(at, other),
            _ => lines[at] = edit(&lines[at], dice),
        }
    }
    let end: &[u8] = match dice.below(16) {
        0 => b"\r",
        1 => b"\r\n",
        _ => b"\n",
    };
    lines.join(end)
}
