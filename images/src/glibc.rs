//! Versions of the C library.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A glibc version, as in the symbol version `GLIBC_2.36`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Glibc {
    /// 2, so far.
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Glibc {
    type Err = ();

    /// Reads a symbol version. `GLIBC_PRIVATE` and the like are none; of `GLIBC_2.2.5`
    /// the first two numbers count.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.strip_prefix("GLIBC_").ok_or(())?.split('.');
        let mut next = || numbers.next().and_then(|n| n.parse().ok()).ok_or(());
        Ok(Self {
            major: next()?,
            minor: next()?,
        })
    }
}
