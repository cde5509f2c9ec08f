//! What two images differ in: the explanation that stands beside a comparison of theirs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{Assembly, lock::Lock};

/// One thing that differs: its value on either side; `None` where that side lacks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it is.
    pub name: String,
    /// In the first image.
    pub first: Option<String>,
    /// In the second image.
    pub second: Option<String>,
}

/// What two images differ in. Everything that is equal is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Versions that libraries state themselves: CUDA, cuDNN, NCCL, glibc, torch.
    pub versions: Vec<Change>,
    /// Debian packages and wheels, by version.
    pub packages: Vec<Change>,
    /// libtorch's libraries, by size in bytes.
    pub libraries: Vec<Change>,
    /// Environment of the image.
    pub environment: Vec<Change>,
    /// Layers, by size in bytes.
    pub layers: Vec<Change>,
}

impl Difference {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What of an image goes into a comparison; every map goes from a name to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    versions: Values,
    packages: Values,
    libraries: Values,
    environment: Values,
    layers: Values,
}

type Values = BTreeMap<String, String>;

impl Parts {
    pub(crate) fn new(versions: Values, environment: Values, lock: &Lock) -> Self {
        let sized = |(name, bytes): (&str, u64)| (name.to_owned(), bytes.to_string());
        let layers = lock.expected.layers.iter();
        let top = lock.expected.image.iter().map(|image| &image.layer);
        Self {
            versions,
            packages: lock.packages(),
            libraries: lock
                .libtorch
                .libraries()
                .map(|(name, bytes, _)| sized((name, bytes)))
                .collect(),
            environment,
            layers: layers
                .chain(top)
                .map(|layer| sized((&layer.name, layer.size_bytes)))
                .collect(),
        }
    }
}

impl From<&Assembly> for Parts {
    fn from(assembly: &Assembly) -> Self {
        Self::new(
            assembly.versions.clone(),
            assembly.environment(),
            &assembly.lock,
        )
    }
}

/// Compares two images.
#[must_use]
pub fn diff(first: &Parts, second: &Parts) -> Difference {
    Difference {
        versions: changes(&first.versions, &second.versions),
        packages: changes(&first.packages, &second.packages),
        libraries: changes(&first.libraries, &second.libraries),
        environment: changes(&first.environment, &second.environment),
        layers: changes(&first.layers, &second.layers),
    }
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
        let values = |pairs: &[(&str, &str)]| -> Values {
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
