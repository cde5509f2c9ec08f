//! The models and tasks.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the model computes in one measured step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Forward, loss, backward and optimizer step.
    #[default]
    Training,
    /// Forward without gradients.
    Inference,
    /// Nothing: libtorch is loaded, the GPU's context is made, and time passes. A step is
    /// [`crate::IDLE_STEP`] long.
    Idle,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Training => "training",
            Self::Inference => "inference",
            Self::Idle => "idle",
        })
    }
}

/// The models, each in its reference architecture, and a tiny size of each family for CPU runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Model {
    /// ResNet-50 v1.5 as in torchvision: stride in the 3×3 convolution, 1000 classes.
    #[serde(rename = "resnet50")]
    Resnet50,
    /// Bottleneck blocks as in ResNet-50, one a stage, 16 base channels, 10 classes.
    #[serde(rename = "resnet-tiny")]
    ResnetTiny,
    /// BERT-base uncased with the masked-LM head, decoder tied to the embedding.
    #[serde(rename = "bert-base")]
    BertBase,
    /// BERT-large uncased with the masked-LM head, decoder tied to the embedding.
    #[serde(rename = "bert-large")]
    BertLarge,
    /// 2 layers, width 64, 2 heads, vocabulary 1024.
    #[serde(rename = "bert-tiny")]
    BertTiny,
    /// ViT-B/16, 224 × 224, 1000 classes.
    #[serde(rename = "vit-b16")]
    VitB16,
    /// ViT-L/16, 224 × 224, 1000 classes.
    #[serde(rename = "vit-l16")]
    VitL16,
    /// 2 layers, width 64, 2 heads, patches of 8, 32 × 32 images, 10 classes.
    #[serde(rename = "vit-tiny")]
    VitTiny,
    /// No model, for the task idle.
    #[serde(rename = "none")]
    None,
}

/// What a model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// Three-channel square images.
    Images {
        /// Usual height and width in pixels.
        size: u32,
        /// The size must be a multiple of this.
        multiple_of: u32,
        /// Whether other sizes than the usual one can be read.
        resizable: bool,
    },
    /// Sequences of tokens.
    Tokens {
        /// Usual number of tokens.
        length: u32,
        /// Longest sequence that the position table holds.
        longest: u32,
    },
    /// Nothing.
    Nothing,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 9] = [
        Self::Resnet50,
        Self::ResnetTiny,
        Self::BertBase,
        Self::BertLarge,
        Self::BertTiny,
        Self::VitB16,
        Self::VitL16,
        Self::VitTiny,
        Self::None,
    ];

    /// The name in suites and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resnet50 => "resnet50",
            Self::ResnetTiny => "resnet-tiny",
            Self::BertBase => "bert-base",
            Self::BertLarge => "bert-large",
            Self::BertTiny => "bert-tiny",
            Self::VitB16 => "vit-b16",
            Self::VitL16 => "vit-l16",
            Self::VitTiny => "vit-tiny",
            Self::None => "none",
        }
    }

    /// What it reads.
    #[must_use]
    pub fn input(self) -> InputKind {
        let images = |size, multiple_of, resizable| InputKind::Images {
            size,
            multiple_of,
            resizable,
        };
        match self {
            Self::Resnet50 => images(224, 32, true),
            Self::ResnetTiny => images(32, 32, true),
            // The position table fixes the number of patches.
            Self::VitB16 | Self::VitL16 => images(224, 16, false),
            Self::VitTiny => images(32, 8, false),
            Self::BertBase | Self::BertLarge => InputKind::Tokens {
                length: 128,
                longest: 512,
            },
            Self::BertTiny => InputKind::Tokens {
                length: 32,
                longest: 128,
            },
            Self::None => InputKind::Nothing,
        }
    }

    /// How many blocks checkpointing can drop: residual blocks or transformer layers.
    #[must_use]
    pub fn blocks(self) -> u32 {
        match self {
            Self::Resnet50 => 16,
            Self::ResnetTiny => 4,
            Self::BertBase | Self::VitB16 => 12,
            Self::BertLarge | Self::VitL16 => 24,
            Self::BertTiny | Self::VitTiny => 2,
            Self::None => 0,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_words_in_files() {
        for model in Model::ALL {
            assert_eq!(serde_json::to_value(model).unwrap(), model.name());
        }
    }
}
