//! The models, each in its reference's architecture, names and order of parameters.
//!
//! A new model is a line in [`protocol::Model`] and one in [`architecture`]; a new family also a
//! module here that implements [`Network`].

mod bert;
mod key_values;
mod llama;
mod resnet;
mod unet;
mod vit;
pub mod window;

use libtorch::Result;
use protocol::{InputKind, LoraTargets, Model, Positive, Task, Variant};
use tch::Tensor;

pub use self::key_values::KeyValues;
use crate::nn::{Parameters, Pass, Placement, Scope, Stage};

/// A model that reads a batch and can be trained on labels.
pub trait Network: std::fmt::Debug {
    /// What the model makes of the input: scores, one row for each thing to be classified. Of a stage
    /// what its blocks make of what those before made.
    fn forward(&self, input: &Tensor, pass: Pass) -> Result<Tensor>;

    /// The mean loss of the scores, a scalar. Takes the scores, so that nobody holds them
    /// longer than the graph does.
    fn loss(&self, scores: Tensor, labels: &Tensor) -> Result<Tensor>;

    /// Gives low-rank adapters of this rank to these projections.
    fn adapt(&mut self, _scope: Scope<'_>, _rank: i64, _targets: &LoraTargets) -> Result<()> {
        Err(no_decoder())
    }

    /// Adds all adapters to the weights.
    fn merge(&mut self) -> Result<()> {
        Err(no_decoder())
    }

    /// `[batch, length]` tokens that come after those seen to the scores of what comes next,
    /// `[batch, 1, words]`.
    fn next_scores(&self, _tokens: &Tensor, _seen: &mut KeyValues) -> Result<Tensor> {
        Err(no_decoder())
    }
}

/// `protocol::check` refuses it before.
fn no_decoder() -> libtorch::Error {
    libtorch::Error::Libtorch {
        message: "the model is no decoder".into(),
    }
}

#[derive(Debug)]
pub struct Built {
    pub network: Box<dyn Network>,
    pub parameters: Parameters,
}

/// What the synthetic labels and tokens are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vocabulary {
    Classes(i64),
    /// A class for each voxel of a volume.
    Voxels,
    /// Tokens, one of which stands for a masked word.
    Tokens {
        count: i64,
        /// The token that masks; `None` where the labels are the next tokens.
        mask: Option<i64>,
    },
}

/// A family and the size of its member.
enum Architecture {
    Resnet(resnet::Size),
    Bert(bert::Size),
    Llama(llama::Size),
    Unet(unet::Size),
    Vit(vit::Size),
}

/// The model's family and size; `None` where there is no model.
fn architecture(model: Model) -> Option<Architecture> {
    use Architecture::{Bert, Llama, Resnet, Unet, Vit};
    Some(match model {
        Model::Resnet50 => Resnet(resnet::RESNET50),
        Model::ResnetTiny => Resnet(resnet::TINY),
        Model::BertBase => Bert(bert::BASE),
        Model::BertLarge => Bert(bert::LARGE),
        Model::BertTiny => Bert(bert::TINY),
        Model::LlamaTiny => Llama(llama::TINY),
        Model::Llama2With7B => Llama(llama::LLAMA2_7B),
        Model::Llama31With8B => Llama(llama::LLAMA31_8B),
        Model::Llama32With1B => Llama(llama::LLAMA32_1B),
        Model::Unet3d => Unet(unet::KITS19),
        Model::Unet3dTiny => Unet(unet::TINY),
        Model::VitB16 => Vit(vit::B16),
        Model::VitL16 => Vit(vit::L16),
        Model::VitTiny => Vit(vit::TINY),
        Model::None => return None,
    })
}

/// Makes the model with parameters that begin as the reference's do.
pub fn build(model: Model, placement: Placement) -> Result<Built> {
    build_stage(model, placement, None)
}

/// As [`build`], with memory for the parameters of a stage alone.
pub fn build_stage(model: Model, placement: Placement, stage: Option<Stage>) -> Result<Built> {
    let mut parameters = Parameters::of_stage(placement, stage);
    let scope = parameters.root();
    let network: Box<dyn Network> = match architecture(model) {
        Some(Architecture::Resnet(size)) => Box::new(resnet::Resnet::new(scope, &size)?),
        Some(Architecture::Bert(size)) => Box::new(bert::Bert::new(scope, size)?),
        Some(Architecture::Llama(size)) => Box::new(llama::Llama::new(scope, size)?),
        Some(Architecture::Unet(size)) => Box::new(unet::Unet::new(scope, size)?),
        Some(Architecture::Vit(size)) => Box::new(vit::Vit::new(scope, size)?),
        None => {
            return Err(libtorch::Error::Libtorch {
                message: "there is no model to build".into(),
            });
        }
    };
    Ok(Built {
        network,
        parameters,
    })
}

/// Freezes the model and gives it the adapters that the variant asks for, where it does.
pub fn adapt(built: &mut Built, variant: &Variant) -> Result<()> {
    let Some(rank) = variant.lora_rank else {
        return Ok(());
    };
    let targets = variant.lora_targets.clone().unwrap_or_default();
    built.parameters.freeze()?;
    let scope = built.parameters.root();
    built.network.adapt(scope, rank.get().into(), &targets)?;
    if variant.lora_merged == Some(true) {
        built.network.merge()?;
        built.parameters.thaw();
    }
    Ok(())
}

/// Edges of the variant's images in pixels or volumes in voxels, or the tokens of its sequences, of the
/// longest where they vary.
pub fn input_size(model: Model, variant: &Variant) -> u32 {
    match model.input() {
        InputKind::Images { size, .. } | InputKind::Volumes { size, .. } => {
            variant.image_size.map_or(size, Positive::get)
        }
        InputKind::Tokens { length, .. } => match variant.sequence_lengths {
            Some(lengths) => lengths.longest(),
            None => variant.sequence_length.map_or(length, Positive::get),
        },
        InputKind::Nothing => 0,
    }
}

/// Edges or tokens of what the model reads of a sample at once, and how often it does: where volumes
/// are taken in patches, inference slides over all of one.
pub fn read_at_once(model: Model, task: Task, variant: &Variant) -> (u32, f64) {
    let whole = input_size(model, variant);
    match variant.patch_size.map(Positive::get) {
        Some(patch) if task == Task::Inference => {
            let places = window::places(whole.into(), patch.into()).len();
            (patch, (places as f64).powi(3))
        }
        Some(patch) => (patch, 1.0),
        None => (whole, 1.0),
    }
}

/// Floating-point operations that the model asks for a sample: two for each multiply-add of its
/// matrix products and convolutions, attention's included; three times forward's for training,
/// because backward has two products for each one of forward (Kaplan et al., «Scaling Laws for
/// Neural Language Models», 2020, section 2.1). Operations done again for checkpointing are not
/// the model's, and the rest, such as normalisation, is a per cent or less.
///
/// `size` are the edges of an image in pixels or of a volume in voxels, or the tokens of a sequence.
pub fn flops_per_sample(model: Model, task: Task, size: u32) -> f64 {
    let size = f64::from(size);
    let multiply_adds = match architecture(model) {
        Some(Architecture::Resnet(of)) => of.multiply_adds(size),
        Some(Architecture::Bert(of)) => of.multiply_adds(size),
        Some(Architecture::Llama(of)) => of.multiply_adds(size),
        Some(Architecture::Unet(of)) => of.multiply_adds(size),
        Some(Architecture::Vit(of)) => of.multiply_adds(),
        None => 0.0,
    };
    // Backward takes twice what forward does.
    let passes = if task == Task::Training { 3.0 } else { 1.0 };
    2.0 * multiply_adds * passes
}

/// Multiply-adds of a transformer's layers for a sequence: four square projections and a
/// perceptron four times as wide, and the two products of attention.
fn encoder_multiply_adds(layers: usize, width: i64, length: f64) -> f64 {
    let width = width as f64;
    layers as f64 * (12.0 * width * width * length + 2.0 * width * length * length)
}

/// What the model's labels are.
pub fn vocabulary(model: Model) -> Vocabulary {
    match architecture(model) {
        Some(Architecture::Resnet(of)) => Vocabulary::Classes(of.classes),
        Some(Architecture::Bert(of)) => of.vocabulary(),
        Some(Architecture::Llama(of)) => of.vocabulary(),
        Some(Architecture::Unet(_)) => Vocabulary::Voxels,
        Some(Architecture::Vit(of)) => Vocabulary::Classes(of.classes),
        None => Vocabulary::Classes(0),
    }
}

/// The label of a position that the loss leaves out, as in `PyTorch`.
pub const IGNORED_LABEL: i64 = -100;

/// Mean cross entropy of `[n, classes]` scores against `[n]` labels; single precision
/// under autocast.
fn cross_entropy(scores: &Tensor, labels: &Tensor) -> Result<Tensor> {
    Ok(scores.f_cross_entropy_loss(
        labels,
        None::<&Tensor>,
        tch::Reduction::Mean,
        IGNORED_LABEL,
        0.0,
    )?)
}
