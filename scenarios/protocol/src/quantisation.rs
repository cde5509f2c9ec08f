//! Products in 8 bits: in FP8, in whole numbers, or as inference in whole numbers will have them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Gradients, Precision, Task, validity::Combination, variant::refuse_if};

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

/// In which whole numbers linear layers multiply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Int8 {
    /// In none: products are of the precision's type.
    #[default]
    None,
    /// Of 8 bits: weights are rounded once, with a scale for each output, inputs in every product, with
    /// a scale for each row.
    Dynamic,
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

pub(crate) fn int8(asked: &Combination<'_>) -> Result<(), String> {
    let variant = asked.variant;
    if variant.int8 == Int8::None {
        return Ok(());
    }
    refuse_if!(
        asked.task == Task::Training,
        "whole numbers have no gradient; use the task inference, generation or serving, or \
         qat: int8 to train for them"
    )?;
    refuse_if!(
        asked.model.is_convolutional(),
        "{} has convolutions, and int8 is for linear layers; drop it",
        asked.model
    )?;
    refuse_if!(
        variant.gradients == Gradients::Tracked,
        "whole numbers have no gradient; use gradients: no-grad or inference-mode"
    )?;
    let others = [
        ("fp8", "both would round the same products"),
        (
            "lora_rank",
            "adapters are added to weights that are not rounded",
        ),
    ];
    of_one(asked, &others)
}

/// Refuses the first of these axes that is chosen.
fn of_one(asked: &Combination<'_>, others: &[(&str, &str)]) -> Result<(), String> {
    match others.iter().find(|(axis, _)| asked.is_chosen(axis)) {
        Some((axis, why)) => Err(format!(
            "{axis}={}: {why}; drop one of the two",
            asked.value(axis)
        )),
        None => Ok(()),
    }
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
    of_one(asked, &others)
}
