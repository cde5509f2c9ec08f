//! libtorch builds: a version, and with or without CUDA.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Which half of libtorch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// The slice that runs on the CPU alone.
    Cpu,
    /// With CUDA and the libraries of NVIDIA that it loads.
    Cuda,
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&record::word_of(self))
    }
}

/// The releases of tch that scenarios are compiled with, oldest first, each with the torch that it
/// is generated for. Which versions of everything else go with one stands in
/// `images/tch-<version>.Cargo.lock`, and for the newest common one in the workspace's own.
const TCH: [(&str, Series); 7] = [
    ("0.18.1", Series(2, 5)),
    ("0.19.0", Series(2, 6)),
    ("0.20.0", Series(2, 7)),
    ("0.22.0", Series(2, 9)),
    ("0.23.0", Series(2, 10)),
    ("0.24.0", Series(2, 11)),
    ("0.26.0", Series(2, 13)),
];

/// The first series whose headers are C++20.
const CXX20_SINCE: Series = Series(2, 14);

/// The series of a torch version: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series(u32, u32);

impl Series {
    /// Of a version such as `2.11.0` or `2.12.0a0+git1234`.
    fn of(version: &str) -> Option<Self> {
        let mut numbers = version.split('.');
        let mut next = || numbers.next()?.parse().ok();
        Some(Self(next()?, next()?))
    }

    /// Whether its headers need C++20, which torch-sys does not ask the compiler for.
    pub(crate) fn is_cxx20(self) -> bool {
        self >= CXX20_SINCE
    }
}

/// The tch for a torch: the one that is generated for it, else for the nearest older one, against
/// which newer torches compile.
pub(crate) fn tch_for(version: &str) -> Result<(&'static str, Series)> {
    let series = Series::of(version);
    let fitting = |series: Series| TCH.iter().rev().find(|(_, made_for)| *made_for <= series);
    let found = series.and_then(|series| Some((fitting(series)?.0, series)));
    let Series(major, minor) = TCH[0].1;
    found.ok_or_else(|| {
        Error::Input(format!(
            "no tch compiles against torch `{version}`; expected {major}.{minor} or newer, such as \
             2.11.0"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torch_has_its_own_tch_or_that_of_the_nearest_older_one() {
        for (torch, tch, cxx20) in [
            ("2.5.1", "0.18.1", false),
            ("2.8.0", "0.20.0", false),
            ("2.10.0", "0.23.0", false),
            ("2.12.1", "0.24.0", false),
            ("2.12.0a0+git1234", "0.24.0", false),
            ("2.13.0", "0.26.0", false),
            ("2.15.0", "0.26.0", true),
            ("3.0.0", "0.26.0", true),
        ] {
            let (found, series) = tch_for(torch).unwrap();
            assert_eq!((found, series.is_cxx20()), (tch, cxx20), "{torch}");
        }
    }

    #[test]
    fn an_older_torch_is_refused_with_the_oldest_that_works() {
        let refusals = ["2.4.1", "1.13.1", "two", ""].map(|version| {
            let error = tch_for(version).unwrap_err();
            assert!(matches!(error, Error::Input(_)), "{error:?}");
            error.to_string()
        });
        insta::assert_snapshot!(refusals.join("\n"), @r"
        no tch compiles against torch `2.4.1`; expected 2.5 or newer, such as 2.11.0
        no tch compiles against torch `1.13.1`; expected 2.5 or newer, such as 2.11.0
        no tch compiles against torch `two`; expected 2.5 or newer, such as 2.11.0
        no tch compiles against torch ``; expected 2.5 or newer, such as 2.11.0
        ");
    }
}
