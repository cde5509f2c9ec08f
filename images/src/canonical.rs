//! JSON with one spelling: keys sorted, no blanks. Digests of documents rest on it.

use serde::Serialize;
use serde_json::Value;

/// The canonical JSON of a value.
pub(crate) fn json(value: &impl Serialize) -> String {
    // The types that are digested here hold nothing that JSON cannot say.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    let mut text = String::new();
    write(&value, &mut text);
    text
}

fn write(value: &Value, to: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            to.push('{');
            for (number, key) in keys.into_iter().enumerate() {
                if number > 0 {
                    to.push(',');
                }
                to.push_str(&Value::String(key.clone()).to_string());
                to.push(':');
                write(&map[key], to);
            }
            to.push('}');
        }
        Value::Array(items) => {
            to.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    to.push(',');
                }
                write(item, to);
            }
            to.push(']');
        }
        scalar => to.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let map = HashMap::from([
            ("b", HashMap::from([("z", 1), ("a", 2)])),
            ("a", HashMap::new()),
        ]);
        assert_eq!(super::json(&map), r#"{"a":{},"b":{"a":2,"z":1}}"#);
    }
}
