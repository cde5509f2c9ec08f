//! The models, each in its reference's architecture, names and order of parameters.
//!
//! A new model is a variant of [`protocol::Model`], a module here that implements
//! [`Network`], and a line in [`build`].

mod bert;
mod resnet;
mod vit;

use libtorch::Result;
use protocol::{Checkpointing, InputKind, Model, Positive, Task, Variant};
use tch::Tensor;

use crate::nn::{Parameters, Placement};

/// How one pass through a model is to be done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass {
    /// Dropout on, statistics of the batch; else as for inference.
    pub training: bool,
    /// What is recomputed in backward.
    pub checkpointing: Checkpointing,
}

/// A model that reads a batch and can be trained on labels.
pub trait Network: std::fmt::Debug {
    /// What the model makes of the input: scores, one row for each thing to be classified.
    fn forward(&self, input: &Tensor, pass: Pass) -> Result<Tensor>;

    /// The mean loss of the scores, a scalar. Takes the scores, so that nobody holds them
    /// longer than the graph does.
    fn loss(&self, scores: Tensor, labels: &Tensor) -> Result<Tensor>;
}

/// A model with its parameters.
#[derive(Debug)]
pub struct Built {
    /// The computation.
    pub network: Box<dyn Network>,
    /// What it computes with.
    pub parameters: Parameters,
}

/// What the synthetic labels and tokens are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vocabulary {
    /// Classes of images.
    Classes(i64),
    /// Tokens, one of which stands for a masked word.
    Tokens {
        /// How many.
        count: i64,
        /// The token that masks.
        mask: i64,
    },
}

/// Makes the model with parameters that begin as the reference's do.
pub fn build(model: Model, placement: Placement) -> Result<Built> {
    let mut parameters = Parameters::new(placement);
    let scope = parameters.root();
    let network: Box<dyn Network> = match model {
        Model::Resnet50 => Box::new(resnet::Resnet::new(scope, &resnet::RESNET50)?),
        Model::ResnetTiny => Box::new(resnet::Resnet::new(scope, &resnet::TINY)?),
        Model::BertBase => Box::new(bert::Bert::new(scope, bert::BASE)?),
        Model::BertLarge => Box::new(bert::Bert::new(scope, bert::LARGE)?),
        Model::BertTiny => Box::new(bert::Bert::new(scope, bert::TINY)?),
        Model::VitB16 => Box::new(vit::Vit::new(scope, vit::B16)?),
        Model::VitL16 => Box::new(vit::Vit::new(scope, vit::L16)?),
        Model::VitTiny => Box::new(vit::Vit::new(scope, vit::TINY)?),
        Model::None => {
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

/// Height and width of the variant's images in pixels, or the tokens of its sequences, of the
/// longest where they vary.
#[must_use]
pub fn input_size(model: Model, variant: &Variant) -> u32 {
    match model.input() {
        InputKind::Images { size, .. } => variant.image_size.map_or(size, Positive::get),
        InputKind::Tokens { length, .. } => match variant.sequence_lengths {
            Some(lengths) => lengths.longest(),
            None => variant.sequence_length.map_or(length, Positive::get),
        },
        InputKind::Nothing => 0,
    }
}

/// Floating-point operations that the model asks for a sample: two for each multiply-add of its
/// matrix products and convolutions, attention's included; three times forward's for training,
/// because backward has two products for each one of forward (Kaplan et al., «Scaling Laws for
/// Neural Language Models», 2020, section 2.1). Operations done again for checkpointing are not
/// the model's, and the rest, such as normalisation, is a per cent or less.
///
/// `size` is the height and width of an image in pixels, or the tokens of a sequence.
#[must_use]
pub fn flops_per_sample(model: Model, task: Task, size: u32) -> f64 {
    let size = f64::from(size);
    let multiply_adds = match model {
        Model::Resnet50 => resnet::RESNET50.multiply_adds(size),
        Model::ResnetTiny => resnet::TINY.multiply_adds(size),
        Model::BertBase => bert::BASE.multiply_adds(size),
        Model::BertLarge => bert::LARGE.multiply_adds(size),
        Model::BertTiny => bert::TINY.multiply_adds(size),
        Model::VitB16 => vit::B16.multiply_adds(),
        Model::VitL16 => vit::L16.multiply_adds(),
        Model::VitTiny => vit::TINY.multiply_adds(),
        Model::None => 0.0,
    };
    let passes = match task {
        Task::Training => 3.0,
        Task::Inference => 1.0,
        Task::Idle => 0.0,
    };
    2.0 * multiply_adds * passes
}

/// Multiply-adds of a transformer's layers for a sequence: four square projections and a
/// perceptron four times as wide, and the two products of attention.
fn encoder_multiply_adds(layers: usize, width: i64, length: f64) -> f64 {
    let width = width as f64;
    layers as f64 * (12.0 * width * width * length + 2.0 * width * length * length)
}

/// What the model's labels are.
#[must_use]
pub fn vocabulary(model: Model) -> Vocabulary {
    match model {
        Model::Resnet50 => Vocabulary::Classes(resnet::RESNET50.classes),
        Model::ResnetTiny => Vocabulary::Classes(resnet::TINY.classes),
        Model::BertBase => bert::BASE.vocabulary(),
        Model::BertLarge => bert::LARGE.vocabulary(),
        Model::BertTiny => bert::TINY.vocabulary(),
        Model::VitB16 => Vocabulary::Classes(vit::B16.classes),
        Model::VitL16 => Vocabulary::Classes(vit::L16.classes),
        Model::VitTiny => Vocabulary::Classes(vit::TINY.classes),
        Model::None => Vocabulary::Classes(0),
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
