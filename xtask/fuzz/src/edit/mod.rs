//! Edits that know the form of what they edit.

pub mod bytes;
pub mod elf;
pub mod json;
pub mod table;
pub mod tar;
pub mod yaml;
pub mod zip;

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// What edits take pieces from.
#[derive(Debug, Default)]
pub struct Material {
    /// The documents that edits start from.
    pub seeds: Vec<Vec<u8>>,
    /// Keys that occur in them.
    pub keys: Vec<String>,
    /// Values that occur in them, small ones.
    pub values: Vec<Value>,
}

impl Material {
    /// That of these documents; `read` finds their parts.
    pub fn of(seeds: Vec<Vec<u8>>, read: impl Fn(&[u8]) -> Vec<Value>) -> Self {
        let mut material = Self::default();
        for seed in &seeds {
            for value in read(seed) {
                material.gather(&value);
            }
        }
        material.keys.sort();
        material.keys.dedup();
        material.seeds = seeds;
        material
    }

    fn gather(&mut self, value: &Value) {
        const ENOUGH: usize = 20_000;
        if self.values.len() >= ENOUGH {
            return;
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.gather(item)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.keys.push(key.clone());
                    self.gather(value);
                }
                if fields.len() <= 8 {
                    self.values.push(value.clone());
                }
                return;
            }
            _ => {}
        }
        self.values.push(value.clone());
    }

    fn key(&self, random: &mut ChaCha8Rng) -> String {
        match self.keys.choose(random) {
            Some(key) if random.random_bool(0.8) => key.clone(),
            _ => text(random),
        }
    }

    fn value(&self, random: &mut ChaCha8Rng) -> Value {
        match self.values.choose(random) {
            Some(value) if random.random_bool(0.5) => value.clone(),
            _ => odd(random),
        }
    }
}

/// Texts that programs stumble over.
const TEXTS: &[&str] = &[
    "",
    " ",
    ".",
    "..",
    "/",
    "../../etc/passwd",
    "/dev/zero",
    "a/b",
    "-",
    "--help",
    "a:b",
    "@",
    "x@sha256:0",
    "null",
    "~",
    "NaN",
    "-inf",
    "1e999",
    "0x10",
    "1_000",
    "true",
    "no",
    "2026-11-21T10:00:00Z",
    "-009999-01-02T01:59:59Z",
    "9999-12-30T22:00:00.999999999Z",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "cuda:4294967295",
    "cuda:4294967296",
    "18446744073709551616",
    "1-9999999999",
    "\u{1b}[2J\u{1b}]0;x\u{7}",
    "a\u{0}b",
    "\r\n::error::x",
    "##vso[task.complete]",
    "\u{202e}gpj.exe",
    "\u{feff}",
    "\u{2028}",
    "\u{85}",
    "é模型👍🏽",
    "`\"'\\",
    "{}",
    "[",
    "<script>",
    "%s%n",
];

/// A text that programs stumble over.
pub fn text(random: &mut ChaCha8Rng) -> String {
    if random.random_range(0..20) == 0 {
        let long = [100, 300, 5000, 70_000];
        return "x".repeat(*long.choose(random).unwrap_or(&1));
    }
    (*TEXTS.choose(random).unwrap_or(&"")).to_owned()
}

/// A number that programs stumble over.
pub fn number(random: &mut ChaCha8Rng) -> Value {
    match random.random_range(0..22) {
        0 => 0.into(),
        1 => (-1).into(),
        2 => 1.into(),
        3 => u64::MAX.into(),
        4 => i64::MIN.into(),
        5 => i64::MAX.into(),
        6 => u32::MAX.into(),
        7 => (u64::from(u32::MAX) + 1).into(),
        8 => (1_u64 << 53).into(),
        9 => 1e308.into(),
        10 => (-1e308).into(),
        11 => 5e-324.into(),
        12 => (-0.0).into(),
        13 => 0.1.into(),
        14 => f64::EPSILON.into(),
        15 => 1e19.into(),
        16 => random.random_range(0..10).into(),
        17 => random.random_range(0..2_000_000_000_i64).into(),
        18 => (1_u64 << random.random_range(0..64)).into(),
        19 => ((1_u64 << random.random_range(1..64)) - 1).into(),
        20 => random.random::<f64>().into(),
        _ => (random.random::<f64>() * 1e12).into(),
    }
}

/// A value that programs stumble over.
pub fn odd(random: &mut ChaCha8Rng) -> Value {
    match random.random_range(0..16) {
        0 => Value::Null,
        1 => true.into(),
        2 => false.into(),
        3 => Value::Array(Vec::new()),
        4 => Value::Object(serde_json::Map::new()),
        5..=10 => number(random),
        11 => {
            let mut deep = Value::Null;
            for _ in 0..*[2, 30, 63, 130].choose(random).unwrap_or(&2) {
                deep = if random.random_bool(0.5) {
                    Value::Array(vec![deep])
                } else {
                    serde_json::json!({ "a": deep })
                };
            }
            deep
        }
        _ => text(random).into(),
    }
}
