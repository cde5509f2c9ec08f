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
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

/// A torch version that scenarios are known to build against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownTorch {
    /// On PyPI.
    pub version: &'static str,
    /// CUDA of its PyPI wheels, as in a flavour's name: `cu130`.
    pub cuda: &'static str,
    /// The tch that is generated for it, or the nearest older one that compiles against it.
    pub tch: &'static str,
}

/// The known torch versions, oldest first. tch by tch's own releases and by compiling each
/// pair; CUDA by what the wheels on PyPI require.
pub const KNOWN_TORCH: [KnownTorch; 7] = [
    KnownTorch {
        version: "2.6.0",
        cuda: "cu124",
        tch: "0.19.0",
    },
    KnownTorch {
        version: "2.7.1",
        cuda: "cu126",
        tch: "0.20.0",
    },
    KnownTorch {
        version: "2.8.0",
        cuda: "cu128",
        tch: "0.20.0",
    },
    KnownTorch {
        version: "2.9.1",
        cuda: "cu128",
        tch: "0.22.0",
    },
    KnownTorch {
        version: "2.10.0",
        cuda: "cu128",
        tch: "0.23.0",
    },
    KnownTorch {
        version: "2.11.0",
        cuda: "cu130",
        tch: "0.24.0",
    },
    KnownTorch {
        version: "2.12.1",
        cuda: "cu130",
        tch: "0.24.0",
    },
];

impl KnownTorch {
    /// The known torch of this version.
    pub fn of(version: &str) -> Result<Self> {
        KNOWN_TORCH
            .into_iter()
            .find(|torch| torch.version == version)
            .ok_or_else(|| Error::UnknownTorch {
                version: version.to_owned(),
                known: KNOWN_TORCH.map(|torch| torch.version).join(", "),
            })
    }

    /// The full name of one of its flavours, as PyTorch writes it: `2.11.0+cpu`, `2.11.0+cu130`.
    #[must_use]
    pub fn name(&self, flavour: Flavour) -> String {
        match flavour {
            Flavour::Cpu => format!("{}+cpu", self.version),
            Flavour::Cuda => format!("{}+{}", self.version, self.cuda),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flavours_have_pytorchs_names() {
        let torch = KnownTorch::of("2.11.0").unwrap();
        assert_eq!(torch.name(Flavour::Cpu), "2.11.0+cpu");
        assert_eq!(torch.name(Flavour::Cuda), "2.11.0+cu130");
    }

    #[test]
    fn an_unknown_version_names_the_known_ones() {
        let error = KnownTorch::of("1.0.0").unwrap_err().to_string();
        assert!(
            error.contains("torch 1.0.0") && error.contains("2.6.0, 2.7.1"),
            "{error}"
        );
    }
}
