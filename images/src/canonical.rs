//! JSON with one spelling: keys sorted, no blanks. Digests of documents rest on it.

use serde::Serialize;

pub(crate) fn json(value: &impl Serialize) -> String {
    // The types that are digested here hold nothing that JSON cannot say.
    let value = serde_json::to_value(value).unwrap_or_default();
    // Its objects are sorted: `xtask/tests/arrows.rs` sees that serde_json's `preserve_order` is off.
    value.to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::Serialize;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        #[derive(Serialize)]
        struct Document {
            z: u64,
            a: Option<()>,
            list: [Pair; 1],
        }
        #[derive(Serialize)]
        struct Pair {
            right: &'static str,
            left: &'static str,
        }
        let document = Document {
            z: u64::MAX,
            a: None,
            list: [Pair {
                right: "2",
                left: "1",
            }],
        };
        assert_eq!(
            super::json(&document),
            r#"{"a":null,"list":[{"left":"1","right":"2"}],"z":18446744073709551615}"#
        );
        let built = json!({"b": {"z": 1, "a": 2}, "B": [], "a": {}, "é": 0, "aa": true});
        assert_eq!(
            super::json(&built),
            r#"{"B":[],"a":{},"aa":true,"b":{"a":2,"z":1},"é":0}"#
        );
    }

    #[test]
    fn a_value_has_one_spelling() {
        let numbers = json!([0, -1, i64::MIN, 1.0, 0.1, 1e300, -0.0, f64::NAN]);
        assert_eq!(
            super::json(&numbers),
            "[0,-1,-9223372036854775808,1.0,0.1,1e+300,-0.0,null]"
        );
        let text = "\"\\/\u{8}\u{c}\n\r\t\u{1}\u{7f}é\u{2028}\u{1f980}";
        let spelt = "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\u{7f}é\u{2028}\u{1f980}\"";
        assert_eq!(super::json(&text), spelt);
        assert_eq!(
            super::json(&HashMap::from([(text, 1)])),
            format!("{{{spelt}:1}}")
        );
    }

    #[test]
    fn what_json_cannot_say_is_null() {
        assert_eq!(super::json(&HashMap::from([([1, 2], 1)])), "null");
    }
}
