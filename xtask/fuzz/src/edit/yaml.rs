//! Edits of YAML: values as in JSON, and what only YAML has: indentation, anchors, tags, quotes.

use serde_json::Value;

use super::{Dice, Pool, json, lines, lossy};

/// Edits a document: its values, or its lines.
pub(crate) fn edit(document: &[u8], pool: &Pool, dice: &mut Dice) -> Vec<u8> {
    // Aliases of aliases are read by what is tested, not here.
    let has_aliases = document.windows(2).any(|two| two == b"*x");
    if !has_aliases
        && !dice.one_in(3)
        && let Ok(mut value) = serde_yaml::from_slice::<Value>(document)
    {
        for _ in 0..dice.edits() {
            json::edit_value(&mut value, pool, dice);
        }
        // JSON is YAML too.
        if dice.one_in(4) {
            return value.to_string().into_bytes();
        }
        return serde_yaml::to_string(&value)
            .unwrap_or_default()
            .into_bytes();
    }
    let edited = lines(document, dice, |line, dice| {
        let line = lossy(line);
        let edited = match dice.below(5) {
            0 => format!("  {line}"),
            1 => line.strip_prefix("  ").unwrap_or_default().to_owned(),
            // What stands before a value: an anchor, a tag, a quote.
            2 => line.replacen(": ", &format!(": {}", dice.text("")), 1),
            _ => dice.text(&line),
        };
        edited.into_bytes()
    });
    if dice.one_in(30) {
        [aliases(dice).into_bytes(), edited].concat()
    } else {
        edited
    }
}

/// A list of lists, each of them named ten times in the next: a few lines, a million values.
fn aliases(dice: &mut Dice) -> String {
    let levels = (1..2 + dice.below(7)).map(|level| {
        let below = format!("*x{}", level - 1);
        format!("x{level}: &x{level} [{}]\n", vec![below; 10].join(", "))
    });
    let first = "x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
    std::iter::once(first).chain(levels).collect()
}
