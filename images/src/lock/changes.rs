//! Lists of things that differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// One thing that differs: its value on either side; `None` where that side lacks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it is.
    pub name: String,
    /// Before, or in the lock.
    pub first: Option<String>,
    /// After, or now.
    pub second: Option<String>,
}

/// What is not the same on both sides.
pub(crate) fn changes(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> Vec<Change> {
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    names
        .into_iter()
        .filter(|name| first.get(*name) != second.get(*name))
        .map(|name| Change {
            name: name.clone(),
            first: first.get(name).cloned(),
            second: second.get(name).cloned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let values = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        let found = changes(
            &values(&[("a", "1"), ("b", "1")]),
            &values(&[("a", "1"), ("c", "2")]),
        );
        let change = |name: &str, first: Option<&str>, second: Option<&str>| Change {
            name: name.to_owned(),
            first: first.map(str::to_owned),
            second: second.map(str::to_owned),
        };
        assert_eq!(
            found,
            [change("b", Some("1"), None), change("c", None, Some("2"))]
        );
    }
}
