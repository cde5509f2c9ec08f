//! serde's messages in the words of people who write YAML.

use crate::similar::did_you_mean;

/// A message, split into what was found and what was expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wording {
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    /// The next step, where there is a likely one.
    pub(crate) help: Option<String>,
    /// Whether it is about a key.
    pub(crate) is_key: bool,
    /// The key that is not there.
    pub(crate) missing: Option<String>,
}

pub(crate) fn of(message: &str) -> Wording {
    let (found, expected) = match message.split_once(", expected ") {
        Some((found, expected)) => (found, Some(expected)),
        None => match message.split_once(", there are no ") {
            Some((found, _)) => (found, Some("no key at all")),
            None => (message, None),
        },
    };
    if let Some(field) = quoted(found, "unknown field ") {
        return unknown("unknown key", field, expected, true);
    }
    if let Some(word) = quoted(found, "unknown variant ") {
        return unknown("invalid value", word, expected, false);
    }
    if let Some(field) = quoted(found, "missing field ") {
        return Wording {
            message: format!("the key `{field}` is missing"),
            expected: Some("add it to the keys here".to_owned()),
            help: None,
            is_key: true,
            missing: Some(field.to_owned()),
        };
    }
    let (found, expected) = match (expected, found.split_once("; expected ")) {
        (Some(expected), _) => (found, Some(kind(expected))),
        (None, Some((found, expected))) => (found, Some(expected.to_owned())),
        (None, None) => (found, None),
    };
    let kinds = [
        ("invalid type: ", "the wrong kind of value"),
        ("invalid value: ", "a value out of range"),
        ("invalid length ", "the wrong number of entries"),
    ];
    let message = kinds.iter().find_map(|(start, what)| {
        let got = found.strip_prefix(start)?;
        Some(format!("{what}: {}", got_words(got)))
    });
    Wording {
        message: message.unwrap_or_else(|| found.to_owned()),
        expected: expected.map(|what| format!("expected {what}")),
        help: None,
        is_key: false,
        missing: None,
    }
}

fn unknown(what: &str, got: &str, expected: Option<&str>, is_key: bool) -> Wording {
    let candidates: Vec<&str> = expected
        .unwrap_or_default()
        .split('`')
        .skip(1)
        .step_by(2)
        .collect();
    let expected = match (expected, candidates.as_slice()) {
        (None, _) => None,
        (Some(other), []) => Some(format!("expected {other}")),
        (Some(_), [one]) => Some(format!("expected {one}")),
        (Some(_), many) => Some(format!("expected one of {}", many.join(", "))),
    };
    Wording {
        message: format!("{what} `{got}`"),
        help: did_you_mean(got, candidates),
        expected,
        is_key,
        missing: None,
    }
}

fn quoted<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.strip_prefix(start)?
        .strip_prefix('`')?
        .strip_suffix('`')
}

/// Rust's types, as what to write.
fn kind(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a string" | "string" | "a borrowed string" => "text".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        "a map" => "a map of keys and values".into(),
        other if other.starts_with("struct ") => "a map of keys and values".into(),
        other if other.starts_with("enum ") || other == "string or map" => "one word".into(),
        other => other.to_owned(),
    }
}

fn got_words(got: &str) -> String {
    match got.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer" | "floating", rest)) => {
            format!(
                "the number {}",
                rest.trim_start_matches("point ").replace('`', "")
            )
        }
        Some(("boolean", value)) => value.replace('`', ""),
        _ => match got {
            "null" => "nothing (null)".into(),
            "map" => "a map".into(),
            "sequence" => "a list".into(),
            other => other.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expect: &str) {
        let Wording {
            message,
            expected,
            help,
            ..
        } = of(message);
        let parts = [Some(message), expected, help];
        assert_eq!(
            parts.into_iter().flatten().collect::<Vec<_>>().join(" | "),
            expect
        );
    }

    #[test]
    fn serde_speaks_plainly() {
        check(
            "unknown field `stpes`, expected one of `name`, `steps`",
            "unknown key `stpes` | expected one of name, steps | did you mean `steps`?",
        );
        check(
            "unknown field `a`, there are no fields",
            "unknown key `a` | expected no key at all",
        );
        check(
            "unknown variant `x`, expected `cpu` or `cuda`",
            "invalid value `x` | expected one of cpu, cuda",
        );
        check(
            "missing field `name`",
            "the key `name` is missing | add it to the keys here",
        );
        check(
            "invalid type: string \"three\", expected u32",
            "the wrong kind of value: the text \"three\" | expected a whole number, 0 or more",
        );
        check(
            "invalid value: integer `-3`, expected u32",
            "a value out of range: the number -3 | expected a whole number, 0 or more",
        );
        check(
            "invalid type: floating point `1.5`, expected u32",
            "the wrong kind of value: the number 1.5 | expected a whole number, 0 or more",
        );
        check(
            "invalid type: null, expected struct Suite",
            "the wrong kind of value: nothing (null) | expected a map of keys and values",
        );
        check("said by a type itself", "said by a type itself");
        check(
            "unknown colour `x`; expected red, or blue",
            "unknown colour `x` | expected red, or blue",
        );
    }
}
