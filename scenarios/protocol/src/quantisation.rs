//! Products in 8 bits: in FP8, or as inference in whole numbers will have them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Precision, validity::Combination, variant::refuse_if};

/// How many values share a scale in the FP8 products of linear layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fp8 {
    /// Products are of the precision's type.
    #[default]
    None,
    /// All of a matrix.
    Tensor,
    /// Each row of the left matrix, and each column of the right one.
    Row,
}

impl Fp8 {
    /// The compute capability whose products these are.
    pub fn capability(self) -> Option<(u32, u32)> {
        match self {
            Self::None => None,
            Self::Tensor => Some((8, 9)),
            Self::Row => Some((9, 0)),
        }
    }
}

/// What training rounds to whole numbers of 8 bits, so that the model learns to bear it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Qat {
    /// Nothing.
    #[default]
    None,
    /// Weights and inputs of linear layers and convolutions.
    Int8,
}

pub(crate) fn fp8(asked: &Combination<'_>) -> Result<(), String> {
    let variant = asked.variant;
    if variant.fp8 == Fp8::None {
        return Ok(());
    }
    refuse_if!(
        asked.model.is_convolutional(),
        "{} has convolutions, and FP8 is for linear layers; drop it",
        asked.model
    )?;
    let is_bf16 = matches!(variant.precision, Precision::AmpBf16 | Precision::Bf16);
    refuse_if!(
        !is_bf16,
        "products in FP8 give bfloat16, and precision is {}; use amp-bf16 or bf16",
        asked.value("precision")
    )
}

pub(crate) fn qat(asked: &Combination<'_>) -> Result<(), String> {
    let variant = asked.variant;
    if variant.qat == Qat::None {
        return Ok(());
    }
    refuse_if!(
        asked.model.reads_volumes(),
        "{} has no rounded layers; use a model of images or text",
        asked.model
    )?;
    refuse_if!(
        variant.precision == Precision::Bf16,
        "what is rounded to 8 bits is single precision; use fp32, tf32 or amp-bf16"
    )?;
    let others = [
        ("fp8", "both would round the same products"),
        (
            "checkpointing",
            "a second forward would move the observed ranges again",
        ),
        (
            "lora_rank",
            "adapters are added to weights that are not rounded",
        ),
    ];
    match others.into_iter().find(|(axis, _)| asked.is_chosen(axis)) {
        Some((axis, why)) => Err(format!(
            "{axis}={}: {why}; drop one of the two",
            asked.value(axis)
        )),
        None => Ok(()),
    }
}
