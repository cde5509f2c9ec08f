//! Edits of JSON: fields, values, nesting.

use rand::{Rng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value};

use super::{Material, bytes, number, odd, text};

/// Edits a document; what is none any more is edited as bytes.
pub fn edit(document: &[u8], edits: u32, from: &Material, random: &mut ChaCha8Rng) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice(document) else {
        let mut document = document.to_vec();
        bytes::edit(&mut document, random);
        return document;
    };
    for _ in 0..edits {
        edit_value(&mut value, from, random);
    }
    let mut written = serde_json::to_vec(&value).unwrap_or_default();
    // What no value can say: keys twice, half a document, bytes that are no text.
    if random.random_range(0..12) == 0 {
        if random.random_bool(0.5) {
            double_a_field(&mut written, random);
        } else {
            bytes::edit(&mut written, random);
        }
    }
    written
}

/// One edit somewhere in a value.
pub fn edit_value(value: &mut Value, from: &Material, random: &mut ChaCha8Rng) {
    // Half of the edits change a leaf, the others a list or a map.
    let wants_leaf = random.random_bool(0.5);
    let mut places = Vec::new();
    collect(value, &mut Vec::new(), &mut places, wants_leaf);
    let Some(path) = places.choose(random) else {
        *value = from.value(random);
        return;
    };
    if random.random_range(0..8) == 0 {
        let other = places.choose(random).unwrap_or(path);
        swap(value, path, other);
        return;
    }
    let Some(at) = find(value, path) else { return };
    // serde takes the values alone for a map of known order.
    if random.random_range(0..40) == 0
        && let Value::Object(fields) = at
    {
        *at = Value::Array(fields.values().cloned().collect());
        return;
    }
    match at {
        Value::Object(fields) => edit_fields(fields, from, random),
        Value::Array(items) => edit_items(items, from, random),
        leaf => edit_leaf(leaf, from, random),
    }
}

#[derive(Clone, PartialEq)]
enum Step {
    Key(String),
    Place(usize),
}

fn collect(value: &Value, here: &mut Vec<Step>, places: &mut Vec<Vec<Step>>, leaves: bool) {
    if leaves != matches!(value, Value::Array(_) | Value::Object(_)) {
        places.push(here.clone());
    }
    match value {
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                here.push(Step::Place(place));
                collect(item, here, places, leaves);
                here.pop();
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                here.push(Step::Key(key.clone()));
                collect(value, here, places, leaves);
                here.pop();
            }
        }
        _ => {}
    }
}

fn find<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Place(place) => value.get_mut(*place),
    })
}

fn swap(value: &mut Value, one: &[Step], other: &[Step]) {
    // A value and one inside it cannot change places.
    if one.starts_with(other) || other.starts_with(one) {
        return;
    }
    let Some(first) = find(value, one).map(Value::take) else {
        return;
    };
    let Some(second) = find(value, other) else {
        return;
    };
    let second = std::mem::replace(second, first);
    if let Some(place) = find(value, one) {
        *place = second;
    }
}

fn edit_leaf(leaf: &mut Value, from: &Material, random: &mut ChaCha8Rng) {
    *leaf = match (&*leaf, random.random_range(0..4)) {
        (Value::Number(old), 0) => near(old, random),
        (Value::Number(_), 1) => number(random),
        (Value::String(old), 0) => {
            let mut letters: Vec<char> = old.chars().collect();
            let at = random.random_range(0..=letters.len());
            let odd = text(random);
            letters.splice(at..at, odd.chars());
            letters.into_iter().collect::<String>().into()
        }
        (Value::String(_), 1) => text(random).into(),
        (old, 2) if random.random_bool(0.3) => Value::Array(vec![old.clone()]),
        _ => from.value(random),
    };
}

fn near(old: &serde_json::Number, random: &mut ChaCha8Rng) -> Value {
    match (old.as_i64(), old.as_f64()) {
        (Some(whole), _) => match random.random_range(0..5) {
            0 => whole.saturating_add(1).into(),
            1 => whole.saturating_sub(1).into(),
            2 => whole.saturating_neg().into(),
            3 => whole.saturating_mul(1000).into(),
            _ => (whole as f64 + 0.5).into(),
        },
        (None, Some(number)) => match random.random_range(0..4) {
            0 => (-number).into(),
            1 => (number * 1e6).into(),
            2 => (number * 1e-6).into(),
            _ => number.trunc().into(),
        },
        _ => number(random),
    }
}

fn edit_fields(fields: &mut Map<String, Value>, from: &Material, random: &mut ChaCha8Rng) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    let (Some(one), Some(other)) = (keys.choose(random), keys.choose(random)) else {
        fields.insert(from.key(random), from.value(random));
        return;
    };
    match random.random_range(0..6) {
        0 => drop(fields.remove(one)),
        1 => {
            let value = fields.remove(one).unwrap_or_default();
            fields.insert(from.key(random), value);
        }
        2 => drop(fields.insert(from.key(random), from.value(random))),
        3 => {
            let value = fields[one].clone();
            fields.insert(other.clone(), value);
        }
        4 => drop(fields.insert(one.clone(), from.value(random))),
        _ => {
            let inner = Value::Object(fields.clone());
            fields.insert(one.clone(), inner);
        }
    }
}

fn edit_items(items: &mut Vec<Value>, from: &Material, random: &mut ChaCha8Rng) {
    if items.is_empty() {
        items.push(from.value(random));
        return;
    }
    let at = random.random_range(0..items.len());
    match random.random_range(0..6) {
        0 => drop(items.remove(at)),
        1 => items.insert(at, from.value(random)),
        2 => {
            let times = *[1, 2, 10, 300].choose(random).unwrap_or(&1);
            let copies = vec![items[at].clone(); times];
            items.splice(at..at, copies);
        }
        3 => items.truncate(at),
        4 => {
            let other = random.random_range(0..items.len());
            items.swap(at, other);
        }
        _ => items[at] = odd(random),
    }
}

fn double_a_field(written: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    let opens: Vec<usize> = written
        .windows(2)
        .enumerate()
        .filter(|(_, two)| *two == b"{\"")
        .map(|(place, _)| place + 1)
        .collect();
    let Some(&at) = opens.choose(random) else {
        return;
    };
    let Some(length) = written[at..].iter().position(|byte| *byte == b',') else {
        return;
    };
    let field = written[at..=at + length].to_vec();
    written.splice(at..at, field);
}
