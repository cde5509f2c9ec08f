//! BERT with the masked-LM head, as Hugging Face's `BertForMaskedLM`.
//!
//! Reference: transformers `models/bert/modeling_bert.py` with SDPA attention; Devlin et
//! al., «BERT», 2018. No pooler; the decoder's weight is the word embedding and its bias
//! is `cls.predictions.bias`. The synthetic sequences have no padding, where transformers
//! drops the attention mask as well, so attention takes none. Dropout 0.1 on embeddings,
//! attention and both outputs of a layer, as in the published configurations.
//!
//! Tensors live as long as there, where a function's names hold them until it returns: what the
//! caching allocator reserves hangs on the order of every allocation and release.

use libtorch::Result;
use tch::{Kind, Tensor};

use super::{Network, Vocabulary, cross_entropy};
use crate::nn::{Block, Blocks, Embedding, Init, LayerNorm, Linear, Module, Pass, Scope};

const DROPOUT: f64 = 0.1;
const LAYER_NORM_EPS: f64 = 1e-12;
/// `initializer_range` of the published configurations.
const STD: f64 = 0.02;
/// The row of the word table that is never trained, `[PAD]`.
const PADDING: i64 = 0;
const SEGMENTS: i64 = 2;

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    layers: usize,
    width: i64,
    heads: i64,
    words: i64,
    positions: i64,
    mask_token: i64,
}

/// `bert-base-uncased`.
pub(super) const BASE: Size = Size {
    layers: 12,
    width: 768,
    heads: 12,
    words: 30_522,
    positions: 512,
    mask_token: 103,
};

/// `bert-large-uncased`.
pub(super) const LARGE: Size = Size {
    layers: 24,
    width: 1024,
    heads: 16,
    ..BASE
};

pub(super) const TINY: Size = Size {
    layers: 2,
    width: 64,
    heads: 2,
    words: 1024,
    positions: 128,
    mask_token: 103,
};

impl Size {
    /// Of one sequence of this length, the head over every position included.
    pub(super) fn multiply_adds(self, length: f64) -> f64 {
        let width = self.width as f64;
        let head = (width * width + width * self.words as f64) * length;
        super::encoder_multiply_adds(self.layers, self.width, length) + head
    }

    pub(super) fn vocabulary(self) -> Vocabulary {
        Vocabulary::Tokens {
            count: self.words,
            mask: Some(self.mask_token),
        }
    }
}

#[derive(Debug)]
pub(super) struct Bert {
    words: Embedding,
    positions: Embedding,
    segments: Embedding,
    embedding_norm: LayerNorm,
    embeddings: Module,
    layers: Blocks<Layer>,
    decoder_bias: Tensor,
    decoder: Module,
    transform: Linear,
    transform_norm: LayerNorm,
    /// `[1, positions]`: 0, 1, 2, …
    position_ids: Tensor,
    /// `[1, positions]`: all 0, every token in the first segment.
    segment_ids: Tensor,
}

impl Bert {
    pub(super) fn new(mut scope: Scope<'_>, size: Size) -> Result<Self> {
        let Size { width, .. } = size;
        let options = (Kind::Int64, scope.device());
        let position_ids = Tensor::f_arange(size.positions, options)?.f_unsqueeze(0)?;
        let segment_ids = Tensor::f_zeros([1, size.positions], options)?;

        let mut bert = scope.at("bert");
        let mut embeddings = bert.at("embeddings");
        let words = embeddings.at("word_embeddings").tied(true);
        let words = Embedding::new(words, (size.words, width), STD, Some(PADDING))?;
        let mut table = |name, rows| Embedding::new(embeddings.at(name), (rows, width), STD, None);
        let positions = table("position_embeddings", size.positions)?;
        let segments = table("token_type_embeddings", SEGMENTS)?;
        let embedding_norm = layer_norm(embeddings.at("LayerNorm"), width)?;
        let embeddings = embeddings.module();

        let mut encoder = bert.at("encoder");
        let mut encoder = encoder.at("layer");
        let layers = (0..size.layers)
            .map(|index| Layer::new(encoder.at(index), size))
            .collect::<Result<_>>()?;

        let mut head = scope.at("cls");
        let mut head = head.at("predictions");
        let decoder_bias = head.parameter("bias", &[size.words], Init::Zeros)?;
        let decoder = head.at("decoder").module();
        let mut transform = head.at("transform");
        Ok(Self {
            words,
            positions,
            segments,
            embedding_norm,
            embeddings,
            layers: Blocks::new(layers),
            decoder_bias,
            decoder,
            transform: linear(transform.at("dense"), (width, width))?,
            transform_norm: layer_norm(transform.at("LayerNorm"), width)?,
            position_ids,
            segment_ids,
        })
    }

    /// `[batch, length]` token numbers to `[batch, length, width]`.
    fn embed(&self, tokens: &Tensor, training: bool) -> Result<Tensor> {
        let _entered = self.embeddings.enter();
        let (batch, length) = tokens.size2()?;
        let segment_ids = self
            .segment_ids
            .f_narrow(1, 0, length)?
            .f_expand([batch, length], false)?;
        let words = self.words.forward(tokens)?;
        let segments = self.segments.forward(&segment_ids)?;
        let mut x = words.f_add(&segments)?;
        let position_ids = self.position_ids.f_narrow(1, 0, length)?;
        x = x.f_add(&self.positions.forward(&position_ids)?)?;
        x = self.embedding_norm.forward(&x)?;
        Ok(x.f_dropout(DROPOUT, training)?)
    }
}

fn linear(scope: Scope<'_>, form: (i64, i64)) -> Result<Linear> {
    Linear::new(scope, form, Init::Normal { std: STD }, Init::Zeros)
}

fn layer_norm(scope: Scope<'_>, width: i64) -> Result<LayerNorm> {
    LayerNorm::new(scope, width, LAYER_NORM_EPS)
}

impl Network for Bert {
    /// `[batch, length]` token numbers to `[batch, length, words]`.
    fn forward(&self, tokens: &Tensor, pass: Pass) -> Result<Tensor> {
        let mut x = tokens.shallow_clone();
        if pass.is_first() {
            x = self.embed(tokens, pass.training)?;
        }
        x = self.layers.forward(x, &[], pass)?;
        if !pass.is_last() {
            return Ok(x);
        }
        x = self.transform.forward(&x)?;
        x = x.f_gelu("none")?;
        x = self.transform_norm.forward(&x)?;
        let _entered = self.decoder.enter();
        Ok(x.f_linear(self.words.weight(), Some(&self.decoder_bias))?)
    }

    /// Over the masked positions; the labels of all others are [`super::IGNORED_LABEL`].
    fn loss(&self, scores: Tensor, labels: &Tensor) -> Result<Tensor> {
        let words = scores.size3()?.2;
        cross_entropy(&scores.f_view([-1, words])?, &labels.f_reshape(-1)?)
    }
}

/// One encoder layer, normalised after each sum.
#[derive(Debug)]
struct Layer {
    module: Module,
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
    heads: i64,
}

impl Layer {
    fn new(mut scope: Scope<'_>, size: Size) -> Result<Self> {
        let Size { width, heads, .. } = size;
        let inner = 4 * width;
        let module = scope.module();
        let mut attention = scope.at("attention");
        let mut own = attention.at("self");
        let query = linear(own.at("query"), (width, width))?;
        let key = linear(own.at("key"), (width, width))?;
        let value = linear(own.at("value"), (width, width))?;
        let mut after = attention.at("output");
        let attention_output = linear(after.at("dense"), (width, width))?;
        let attention_norm = layer_norm(after.at("LayerNorm"), width)?;
        let mut intermediate = scope.at("intermediate");
        let intermediate = linear(intermediate.at("dense"), (width, inner))?;
        let mut output = scope.at("output");
        Ok(Self {
            module,
            query,
            key,
            value,
            attention_output,
            attention_norm,
            intermediate,
            output: linear(output.at("dense"), (inner, width))?,
            output_norm: layer_norm(output.at("LayerNorm"), width)?,
            heads,
        })
    }

    /// `[batch, length, width]` to the same.
    fn attend(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let (batch, length, width) = x.size3()?;
        let split = |projection: &Linear| -> Result<Tensor> {
            let projected = projection.forward(x)?;
            let heads = [batch, length, self.heads, width / self.heads];
            Ok(projected.f_view(heads)?.f_transpose(1, 2)?)
        };
        let attended = Tensor::f_scaled_dot_product_attention(
            &split(&self.query)?,
            &split(&self.key)?,
            &split(&self.value)?,
            None::<&Tensor>,
            if training { DROPOUT } else { 0.0 },
            false,
            None,
            false,
        )?;
        Ok(attended
            .f_transpose(1, 2)?
            .f_reshape([batch, length, width])?)
    }

    /// Attention, with its shortcut and normalisation.
    fn first_half(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let context = self.attend(x, training)?;
        let mut y = self.attention_output.forward(&context)?;
        y = y.f_dropout(DROPOUT, training)?;
        self.attention_norm.forward(&y.f_add(x)?)
    }

    /// The feed-forward network, with its shortcut and normalisation.
    fn second_half(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let inner = self.intermediate.forward(x)?.f_gelu("none")?;
        let mut y = self.output.forward(&inner)?;
        y = y.f_dropout(DROPOUT, training)?;
        self.output_norm.forward(&y.f_add(x)?)
    }
}

impl Block for Layer {
    fn forward(&self, x: Tensor, _: &[Tensor], training: bool) -> Result<Tensor> {
        let _entered = self.module.enter();
        let attended = self.first_half(&x, training)?;
        self.second_half(&attended, training)
    }
}
