//! One choice on every axis.

use std::{collections::BTreeMap, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Allocator, LengthRange};

/// Serde and schema for an axis that is written as text and parsed by `FromStr`.
macro_rules! text_axis {
    ($type:ty, $description:literal, $pattern:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern,
                })
            }
        }
    };
}
pub(crate) use text_axis;

/// The arithmetic of matrix products and convolutions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// IEEE single precision throughout.
    #[default]
    Fp32,
    /// Single precision whose products may use the 19-bit tf32 units.
    Tf32,
    /// Autocast to half precision with dynamic loss scaling.
    AmpFp16,
    /// Autocast to bfloat16, without loss scaling.
    AmpBf16,
}

/// Which activations are dropped in forward and computed again in backward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Checkpointing {
    /// Keep all activations.
    #[default]
    None,
    /// Recompute each block (transformer layer, residual block).
    Blocks,
    /// Recompute groups of this many consecutive blocks; at least 2.
    Every(u32),
}

/// Why a text is no checkpointing policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown checkpointing `{0}`; expected none, blocks, or every-K with K of at least 2")]
pub struct ParseCheckpointingError(String);

impl FromStr for Checkpointing {
    type Err = ParseCheckpointingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "blocks" => Ok(Self::Blocks),
            _ => text
                .strip_prefix("every-")
                .filter(|k| k.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|k| k.parse().ok())
                .filter(|k| (2..=1024).contains(k))
                .map(Self::Every)
                .ok_or_else(|| ParseCheckpointingError(text.to_owned())),
        }
    }
}

impl fmt::Display for Checkpointing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Blocks => f.write_str("blocks"),
            Self::Every(k) => write!(f, "every-{k}"),
        }
    }
}

text_axis!(
    Checkpointing,
    "Which activations are recomputed in backward: none, blocks, every-K",
    r"^(none|blocks|every-[0-9]+)$"
);

/// How image tensors lie in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryFormat {
    /// Batch, channel, height, width.
    #[default]
    Contiguous,
    /// Batch, height, width, channel: what tensor cores want for convolutions.
    ChannelsLast,
}

/// The optimizer, in libtorch's fused in-place form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// SGD, momentum 0.9: one extra value for each parameter.
    #[default]
    SgdMomentum,
    /// `AdamW`: two extra values for each parameter.
    Adamw,
}

/// How the CPU hands the work to the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// One kernel after the other, as written.
    #[default]
    Eager,
    /// The whole step captured once as a CUDA graph, and replayed.
    CudaGraph,
}

/// Where the CUDA driver keeps the kernels that it compiles for the GPU. cuDNN's trials have it
/// compile some hundred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KernelCache {
    /// In a folder of the run's own, which begins empty.
    #[default]
    Run,
    /// In one folder for all runs of the session that say so: the first one fills it.
    Session,
}

/// One choice on every axis. A new axis is a field here, its meaning in the
/// workload, and, where it has limits, a rule in [`crate::check`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Variant {
    /// The arithmetic.
    pub precision: Precision,
    /// What is recomputed in backward.
    pub checkpointing: Checkpointing,
    /// Micro-batches whose gradients are summed before one optimizer step.
    #[schemars(range(min = 1, max = 65536))]
    pub accumulation: Positive,
    /// The CUDA allocator's settings.
    pub allocator: Allocator,
    /// How image tensors lie in memory.
    pub memory_format: MemoryFormat,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// How the CPU hands the work to the GPU.
    pub execution: Execution,
    /// Only algorithms that give the same bits every time, for the price that they ask.
    pub deterministic: bool,
    /// Where compiled kernels are kept.
    pub kernel_cache: KernelCache,
    /// Samples in one micro-batch; the effective batch is this times `accumulation`.
    #[schemars(range(min = 1, max = 65536))]
    pub batch: Positive,
    /// Tokens in a sequence; text models only. `None`: the model's usual length.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub sequence_length: Option<Positive>,
    /// Processes that make the micro-batches and hand them over through `/dev/shm`, as a data
    /// loader's workers do; training only. `None`: the batches lie on the device from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub loader_workers: Option<Positive>,
    /// Micro-batches that each of them makes ahead of need, 2 unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub prefetch_factor: Option<Positive>,
    /// Lengths of sequences, of which each step draws one out of the run's seed; text models only,
    /// in place of `sequence_length`. `None`: all steps have one length.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LengthRange")]
    pub sequence_lengths: Option<LengthRange>,
    /// Height and width of an image in pixels; vision models only. `None`: the model's usual size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub image_size: Option<Positive>,
}

/// A count from 1 to 65536.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Positive(u32);

impl Positive {
    /// One.
    pub const ONE: Self = Self(1);

    /// `None` where the number is outside 1 to 65536.
    #[must_use]
    pub fn new(value: u32) -> Option<Self> {
        (1..=65_536).contains(&value).then_some(Self(value))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for Positive {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Positive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        u32::try_from(value)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| {
                serde::de::Error::invalid_value(
                    serde::de::Unexpected::Signed(value),
                    &"a whole number from 1 to 65536",
                )
            })
    }
}

impl Variant {
    /// The names of all axes, in the order of the fields.
    pub const AXES: [&'static str; 15] = [
        "precision",
        "checkpointing",
        "accumulation",
        "allocator",
        "memory_format",
        "optimizer",
        "execution",
        "deterministic",
        "kernel_cache",
        "batch",
        "sequence_length",
        "sequence_lengths",
        "image_size",
        "loader_workers",
        "prefetch_factor",
    ];

    /// Every axis that has a value, with the value as text.
    ///
    /// # Panics
    /// Never: a variant always serialises to a flat map.
    #[must_use]
    pub fn axes(&self) -> BTreeMap<String, String> {
        let value = serde_json::to_value(self).expect("a variant serialises");
        let map = value.as_object().expect("a variant is a map");
        map.iter()
            .map(|(axis, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                (axis.clone(), text)
            })
            .collect()
    }

    /// Samples that one optimizer step sees.
    #[must_use]
    pub fn effective_batch(&self) -> u64 {
        u64::from(self.batch.get()) * u64::from(self.accumulation.get())
    }
}

impl fmt::Display for Variant {
    /// Short and complete: precision and batch always, other axes where they differ from the
    /// default, as in `amp-bf16 bs64 checkpointing=blocks`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.axes();
        let defaults = Self::default().axes();
        write!(f, "{} bs{}", axes["precision"], self.batch)?;
        for name in Self::AXES {
            if matches!(name, "precision" | "batch") {
                continue;
            }
            if let Some(value) = axes.get(name)
                && defaults.get(name) != Some(value)
            {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_the_fields() {
        let full = Variant {
            sequence_length: Positive::new(128),
            sequence_lengths: Some("16-512".parse().unwrap()),
            loader_workers: Positive::new(2),
            prefetch_factor: Positive::new(4),
            image_size: Positive::new(224),
            ..Variant::default()
        };
        let mut names: Vec<_> = full.axes().into_keys().collect();
        names.sort();
        let mut listed = Variant::AXES.to_vec();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }

    #[test]
    fn a_variant_reads_short_and_complete() {
        let variant: Variant = serde_json::from_str(
            r#"{"precision":"amp-bf16","batch":64,"checkpointing":"every-3","accumulation":4}"#,
        )
        .unwrap();
        assert_eq!(
            variant.to_string(),
            "amp-bf16 bs64 checkpointing=every-3 accumulation=4"
        );
        assert_eq!(variant.effective_batch(), 256);
    }

    #[test]
    fn counts_outside_their_range_are_refused() {
        for bad in ["0", "-3", "65537", "1.5", "\"two\""] {
            let text = format!(r#"{{"batch":{bad}}}"#);
            assert!(serde_json::from_str::<Variant>(&text).is_err(), "{bad}");
        }
    }

    #[test]
    fn checkpointing_reads_and_writes() {
        for text in ["none", "blocks", "every-2", "every-12"] {
            assert_eq!(text.parse::<Checkpointing>().unwrap().to_string(), text);
        }
        for text in [
            "", "every", "every-", "every-1", "every--2", "every-+2", "block",
        ] {
            assert!(text.parse::<Checkpointing>().is_err(), "{text}");
        }
    }
}
