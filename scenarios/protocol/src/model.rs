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
    /// A prompt read at once, then one token after the other out of the keys and values so far.
    Generation,
    /// Forward without gradients, for requests that arrive whether or not the model is free.
    Serving,
    /// Tensors are allocated and freed, and never read or written. A step makes as many as a batch has.
    Allocation,
    /// Ranks exchange a message, as often in a step as a batch has samples.
    Collectives,
    /// Nothing: libtorch is loaded, the GPU's context is made, and time passes. A step is
    /// [`crate::IDLE_STEP`] long.
    Idle,
}

impl Task {
    /// All tasks.
    pub const ALL: &'static [Self] = &[
        Self::Training,
        Self::Inference,
        Self::Generation,
        Self::Serving,
        Self::Allocation,
        Self::Collectives,
        Self::Idle,
    ];

    /// The name in suites and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Inference => "inference",
            Self::Generation => "generation",
            Self::Serving => "serving",
            Self::Allocation => "allocation",
            Self::Collectives => "collectives",
            Self::Idle => "idle",
        }
    }

    /// Whether it computes a model.
    pub fn computes(self) -> bool {
        matches!(
            self,
            Self::Training | Self::Inference | Self::Generation | Self::Serving
        )
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Declares the models: documentation, the name in suites and records, what it reads, and how many
/// blocks checkpointing can drop (residual blocks or transformer layers).
macro_rules! models {
    ($($(#[$meta:meta])* $model:ident: $name:literal, $input:expr, $blocks:literal;)*) => {
        /// The models, each in its reference architecture, and a tiny size of each family for CPU
        /// runs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Model {
            $($(#[$meta])* #[serde(rename = $name)] $model,)*
        }

        impl Model {
            /// All models.
            pub const ALL: &'static [Self] = &[$(Self::$model),*];

            /// The name in suites and records.
            pub fn name(self) -> &'static str {
                match self { $(Self::$model => $name,)* }
            }

            /// What it reads.
            pub fn input(self) -> InputKind {
                match self { $(Self::$model => $input,)* }
            }

            /// How many blocks checkpointing can drop.
            pub fn blocks(self) -> u32 {
                match self { $(Self::$model => $blocks,)* }
            }
        }
    };
}

models! {
    /// ResNet-50 v1.5 as in torchvision: stride in the 3×3 convolution, 1000 classes.
    Resnet50: "resnet50", images(224, 32, true), 16;
    /// Bottleneck blocks as in ResNet-50, one a stage, 16 base channels, 10 classes.
    ResnetTiny: "resnet-tiny", images(32, 32, true), 4;
    /// BERT-base uncased with the masked-LM head, decoder tied to the embedding.
    BertBase: "bert-base", tokens(128, 512), 12;
    /// BERT-large uncased with the masked-LM head, decoder tied to the embedding.
    BertLarge: "bert-large", tokens(128, 512), 24;
    /// 2 layers, width 64, 2 heads, vocabulary 1024.
    BertTiny: "bert-tiny", tokens(32, 128), 2;
    // The position table of a ViT fixes the number of patches.
    /// ViT-B/16, 224 × 224, 1000 classes.
    VitB16: "vit-b16", images(224, 16, false), 12;
    /// ViT-L/16, 224 × 224, 1000 classes.
    VitL16: "vit-l16", images(224, 16, false), 24;
    /// 2 layers, width 64, 2 heads, patches of 8, 32 × 32 images, 10 classes.
    VitTiny: "vit-tiny", images(32, 8, false), 2;
    /// As Llama-3.2: 2 layers, width 64, 4 heads over 2 of keys and values, vocabulary 1024.
    LlamaTiny: "llama-tiny", text(32, 256), 2;
    /// The shape of Llama-2-7B.
    Llama2With7B: "llama-2-7b", text(2048, 4096), 32;
    /// The shape of Llama-3.1-8B.
    Llama31With8B: "llama-3.1-8b", text(2048, 131_072), 32;
    /// The shape of Llama-3.2-1B, decoder tied to the embedding.
    Llama32With1B: "llama-3.2-1b", text(2048, 131_072), 16;
    /// 3D U-Net as MLPerf's reference for KiTS19: 32 to 320 channels, 3 classes, volumes of 128³.
    Unet3d: "unet-3d", InputKind::Volumes { size: 128, multiple_of: 32 }, 11;
    /// As 3D U-Net: 4 to 16 channels, volumes of 16³.
    Unet3dTiny: "unet-3d-tiny", InputKind::Volumes { size: 16, multiple_of: 8 }, 7;
    /// No model, for the tasks allocation, collectives and idle.
    None: "none", InputKind::Nothing, 0;
}

const fn images(size: u32, multiple_of: u32, resizable: bool) -> InputKind {
    InputKind::Images {
        size,
        multiple_of,
        resizable,
    }
}

const fn tokens(length: u32, longest: u32) -> InputKind {
    InputKind::Tokens {
        length,
        longest,
        causal: false,
    }
}

const fn text(length: u32, longest: u32) -> InputKind {
    InputKind::Tokens {
        length,
        longest,
        causal: true,
    }
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
        /// Longest sequence that the positions hold.
        longest: u32,
        /// Whether a position sees those before it alone: a decoder, which can generate.
        causal: bool,
    },
    /// Cubic volumes of one channel, each of whose voxels has a class.
    Volumes {
        /// Usual edges in voxels.
        size: u32,
        /// The edges must be multiples of this, twice it at least.
        multiple_of: u32,
    },
    /// Nothing.
    Nothing,
}

impl Model {
    pub(crate) fn reads_volumes(self) -> bool {
        matches!(self.input(), InputKind::Volumes { .. })
    }

    /// Whether its blocks are convolutions. `ResNet` is the one family whose images may have other
    /// sizes.
    pub(crate) fn is_convolutional(self) -> bool {
        let resizes = matches!(self.input(), InputKind::Images { resizable, .. } if resizable);
        resizes || self.reads_volumes()
    }

    /// Whether it can generate.
    pub fn is_decoder(self) -> bool {
        matches!(self.input(), InputKind::Tokens { causal: true, .. })
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
