//! Edits of JSON: fields, values, nesting.

use serde_json::{Map, Value};

use super::MAX_INPUT_BYTES;
use super::{Dice, Pool};

/// Edits a document; what is none any more is edited as bytes.
pub(crate) fn edit(document: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice(document) else {
        return dice.mutated(document);
    };
    for _ in 0..dice.edits() {
        edit_value(&mut value, pool, dice);
    }
    let written = serde_json::to_vec(&value).unwrap_or_default();
    // What no value can express: half a document, bytes that are no text, a key twice.
    match dice.below(24) {
        0 => dice.mutated(&written),
        1 => with_a_field_twice(written),
        _ => written,
    }
}

/// One edit somewhere in a value.
pub(super) fn edit_value(value: &mut Value, pool: &Pool, dice: &mut Dice) {
    match place(value, dice) {
        Value::Object(fields) if !fields.is_empty() => {
            // serde takes the values alone for a struct.
            if dice.one_in(20) {
                let values = fields.values().cloned().collect();
                *place(value, dice) = Value::Array(values);
            } else {
                edit_fields(fields, pool, dice);
            }
        }
        Value::Array(items) if !items.is_empty() => edit_items(items, pool, dice),
        leaf => {
            *leaf = match (&*leaf, dice.below(4)) {
                (Value::Number(old), 0 | 1) => dice.number(&old.to_string()),
                (Value::String(old), 0 | 1) => dice.text(old).into(),
                (old, 2) if dice.one_in(3) => Value::Array(vec![old.clone()]),
                _ => pool.piece(dice).1,
            };
        }
    }
}

/// A place in a value: fields are found on the way down, so that long lists do not hide the others.
fn place<'a>(value: &'a mut Value, dice: &mut Dice) -> &'a mut Value {
    let length = match value {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    if length == 0 || dice.one_in(5) {
        return value;
    }
    let at = dice.below(length);
    let inner = match value {
        Value::Object(fields) => fields.values_mut().nth(at),
        Value::Array(items) => items.get_mut(at),
        _ => None,
    };
    place(inner.expect("the place is below the length"), dice)
}

fn edit_fields(fields: &mut Map<String, Value>, pool: &Pool, dice: &mut Dice) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    let (one, other) = (dice.pick(&keys), dice.pick(&keys));
    let (new, value) = pool.piece(dice);
    match dice.below(6) {
        0 => drop(fields.remove(one)),
        1 => {
            let value = fields.remove(one).unwrap_or_default();
            fields.insert(new, value);
        }
        2 => drop(fields.insert(new, value)),
        3 => drop(fields.insert(other.clone(), fields[one].clone())),
        4 => drop(fields.insert(one.clone(), value)),
        _ => {
            let whole = Value::Object(fields.clone());
            fields.insert(one.clone(), if fits(&whole, 2) { whole } else { value });
        }
    }
}

/// Whether so many copies still fit an input: without this bound, edits of edits fill all memory.
fn fits(value: &Value, copies: usize) -> bool {
    value.to_string().len() * copies <= MAX_INPUT_BYTES
}

fn edit_items(items: &mut Vec<Value>, pool: &Pool, dice: &mut Dice) {
    let (at, other) = (dice.below(items.len()), dice.below(items.len()));
    match dice.below(6) {
        0 => drop(items.remove(at)),
        1 => items.insert(at, pool.piece(dice).1),
        2 => {
            let many = *dice.pick(&[1, 2, 10, 300]);
            let copies = if fits(&items[at], many) { many } else { 1 };
            items.splice(at..at, vec![items[at].clone(); copies]);
        }
        3 => items.truncate(at),
        4 => items.swap(at, other),
        _ => items[at] = dice.value(),
    }
}

fn with_a_field_twice(mut written: Vec<u8>) -> Vec<u8> {
    let begin = written.iter().position(|byte| *byte == b'{');
    let end = written.iter().position(|byte| *byte == b',');
    if let (Some(begin), Some(end)) = (begin, end)
        && begin < end
    {
        let field = written[begin + 1..=end].to_vec();
        written.splice(begin + 1..=begin, field);
    }
    written
}
