//! GPU architectures, by the names that nvcc gives them.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The architectures that CUDA 12 and 13 compile for.
const KNOWN: [u32; 17] = [
    50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 120,
];

/// An architecture of GPUs, such as `sm_90`: the compute capability without its dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GpuArchitecture(u32);

impl GpuArchitecture {
    /// Its number: 90.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Whether code that was kept for it runs on GPUs of a compute capability, such as `9.0`: of the
    /// same generation, and not older.
    pub fn runs_on(self, capability: &str) -> bool {
        let number = capability.replace('.', "").parse().ok();
        number.is_some_and(|number| Self(number).runs_cubin_of(self.0))
    }

    /// Whether its GPUs run cubins that were compiled for an architecture: the same generation, not
    /// newer.
    pub(crate) fn runs_cubin_of(self, compiled: u32) -> bool {
        compiled / 10 == self.0 / 10 && compiled <= self.0
    }
}

/// What libtorch's libraries have GPU code for, where a spec names these architectures.
pub(crate) fn gpu_code<'a>(
    has_cuda: bool,
    kept: impl Iterator<Item = &'a GpuArchitecture>,
) -> String {
    let kept: Vec<String> = kept.map(ToString::to_string).collect();
    match (has_cuda, kept.is_empty()) {
        (false, _) => "none".to_owned(),
        (true, true) => "all".to_owned(),
        (true, false) => kept.join(", "),
    }
}

impl FromStr for GpuArchitecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text
            .strip_prefix("sm_")
            .and_then(|number| number.parse().ok());
        match number {
            Some(number) if KNOWN.contains(&number) => Ok(Self(number)),
            _ => {
                let known = KNOWN.map(|number| format!("sm_{number}")).join(", ");
                Err(format!(
                    "`{text}` is no GPU architecture that is known; known are {known}"
                ))
            }
        }
    }
}

impl TryFrom<String> for GpuArchitecture {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<GpuArchitecture> for String {
    fn from(architecture: GpuArchitecture) -> Self {
        architecture.to_string()
    }
}

impl fmt::Display for GpuArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

impl JsonSchema for GpuArchitecture {
    fn schema_name() -> Cow<'static, str> {
        "GpuArchitecture".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known = KNOWN.map(|number| format!("sm_{number}"));
        json_schema!({ "type": "string", "enum": known })
    }
}
