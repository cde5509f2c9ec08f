//! Llama, as Hugging Face's `LlamaForCausalLM`.
//!
//! Reference: transformers `models/llama/modeling_llama.py` with SDPA attention; Touvron et al.,
//! «Llama 2», 2023; Grattafiori et al., «The Llama 3 Herd of Models», 2024. The synthetic sequences
//! have no padding, where transformers passes no mask and has attention be causal by itself. The
//! labels are the next tokens already, so that the loss shifts nothing.
//!
//! Tensors live as long as there, as BERT's do. Normalisation, angles and loss are in single
//! precision whatever the parameters' type is.

use std::f32::consts::PI;

use libtorch::Result;
use protocol::{LoraTargets, Projection};
use tch::{Device, Kind, Tensor};

use super::{KeyValues, Network, Vocabulary, cross_entropy};
use crate::nn::{Block, Blocks, Embedding, Init, Linear, Module, Pass, RmsNorm, Scope};

/// `rms_norm_eps` of the published configurations.
const EPS: f64 = 1e-5;
/// `initializer_range` of the published configurations.
const STD: f64 = 0.02;

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    layers: usize,
    width: i64,
    heads: i64,
    /// Heads of keys and values, each of which serves several of queries.
    key_heads: i64,
    inner: i64,
    words: i64,
    theta: f64,
    stretch: Option<Stretch>,
    /// Whether the decoder's weight is the embedding.
    tied: bool,
}

/// How positions beyond those of the first training are reached, `rope_type: llama3`: slow
/// rotations are slower by `factor`.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    factor: f32,
    /// Positions of the first training.
    first_positions: f32,
}

/// What turns more often than so within the positions of the first training stays as it is, and
/// what turns less often than once is stretched as a whole: `high_freq_factor`, `low_freq_factor`.
const FAST: f32 = 4.0;
const SLOW: f32 = 1.0;

pub(super) const LLAMA2_7B: Size = Size {
    layers: 32,
    width: 4096,
    heads: 32,
    key_heads: 32,
    inner: 11_008,
    words: 32_000,
    theta: 1e4,
    stretch: None,
    tied: false,
};

pub(super) const LLAMA31_8B: Size = Size {
    key_heads: 8,
    inner: 14_336,
    words: 128_256,
    theta: 5e5,
    stretch: Some(Stretch {
        factor: 8.0,
        first_positions: 8192.0,
    }),
    ..LLAMA2_7B
};

pub(super) const LLAMA32_1B: Size = Size {
    layers: 16,
    width: 2048,
    inner: 8192,
    stretch: Some(Stretch {
        factor: 32.0,
        first_positions: 8192.0,
    }),
    tied: true,
    ..LLAMA31_8B
};

pub(super) const TINY: Size = Size {
    layers: 2,
    width: 64,
    heads: 4,
    key_heads: 2,
    inner: 128,
    words: 1024,
    stretch: Some(Stretch {
        factor: 8.0,
        first_positions: 64.0,
    }),
    ..LLAMA32_1B
};

impl Size {
    fn head_width(self) -> i64 {
        self.width / self.heads
    }

    /// Of one sequence of this length, the head over every position included. A position asks for
    /// the products with those before it and itself alone.
    pub(super) fn multiply_adds(self, length: f64) -> f64 {
        let width = self.width as f64;
        let keys = (self.key_heads * self.head_width()) as f64;
        let layer = 2.0 * width * (width + keys) + 3.0 * width * self.inner as f64;
        let attention = width * length * (length + 1.0);
        self.layers as f64 * (layer * length + attention) + width * self.words as f64 * length
    }

    pub(super) fn vocabulary(self) -> Vocabulary {
        Vocabulary::Tokens {
            count: self.words,
            mask: None,
        }
    }

    /// Radians by which each pair of a head turns from one position to the next, operation by
    /// operation as transformers' `ROPE_INIT_FUNCTIONS` has them, so that the bits are the same.
    fn frequencies(self) -> Result<Vec<f32>> {
        let head = self.head_width();
        let pairs = Tensor::f_arange_start_step(0, head, 2, (Kind::Float, Device::Cpu))?;
        let powers = Tensor::f_pow_scalar(self.theta, &pairs.f_div_scalar(head)?)?;
        let mut frequencies: Vec<f32> = Vec::try_from(powers.f_reciprocal()?)?;
        if let Some(stretch) = self.stretch {
            for frequency in &mut frequencies {
                *frequency = stretch.of(*frequency);
            }
        }
        Ok(frequencies)
    }
}

impl Stretch {
    fn of(self, frequency: f32) -> f32 {
        let length = frequency.recip() * (2.0 * PI);
        if length < self.first_positions / FAST {
            return frequency;
        }
        if length > self.first_positions / SLOW {
            return frequency / self.factor;
        }
        let kept = (length.recip() * self.first_positions - SLOW) / (FAST - SLOW);
        (1.0 - kept) * frequency / self.factor + kept * frequency
    }
}

#[derive(Debug)]
pub(super) struct Llama {
    embedding: Embedding,
    layers: Blocks<Layer>,
    norm: RmsNorm,
    /// `None` where the embedding is the decoder too.
    head: Option<Linear>,
    decoder: Module,
    frequencies: Tensor,
}

impl Llama {
    pub(super) fn new(mut scope: Scope<'_>, size: Size) -> Result<Self> {
        let frequencies = Tensor::f_from_slice(&size.frequencies()?)?;
        let frequencies = frequencies.f_to_device(scope.device())?;
        let (words, width) = (size.words, size.width);
        let mut model = scope.at("model");
        let embedding = model.at("embed_tokens").tied(size.tied);
        let embedding = Embedding::new(embedding, (words, width), STD, None)?;
        let layers = {
            let mut layers = model.at("layers");
            (0..size.layers)
                .map(|index| Layer::new(layers.at(index), size))
                .collect::<Result<_>>()?
        };
        let norm = RmsNorm::new(model.at("norm"), width, EPS)?;
        let head = (!size.tied).then(|| linear(scope.at("lm_head").of_scores(), (width, words)));
        Ok(Self {
            embedding,
            layers: Blocks::new(layers),
            norm,
            head: head.transpose()?,
            decoder: scope.at("lm_head").module(),
            frequencies,
        })
    }

    /// Cosines and sines of the angles of these positions, `[1 or batch, length]`, each
    /// `[1 or batch, 1, length, head width]`.
    fn angles(&self, positions: &Tensor, kind: Kind) -> Result<[Tensor; 2]> {
        let (rows, length) = positions.size2()?;
        let positions = positions.f_view([rows, 1, length, 1])?;
        let positions = positions.f_to_kind(Kind::Float)?;
        let angles = positions.f_mul(&self.frequencies)?;
        let angles = Tensor::f_cat(&[&angles, &angles], -1)?;
        Ok([
            angles.f_cos()?.f_to_kind(kind)?,
            angles.f_sin()?.f_to_kind(kind)?,
        ])
    }

    /// The normalised output of the last layer to scores.
    fn decode(&self, x: &Tensor) -> Result<Tensor> {
        let _entered = self.decoder.enter();
        match &self.head {
            Some(head) => head.forward(x),
            None => Ok(x.f_linear(self.embedding.weight(), None::<&Tensor>)?),
        }
    }
}

fn linear(scope: Scope<'_>, form: (i64, i64)) -> Result<Linear> {
    Linear::new(scope, form, Init::Normal { std: STD }, None)
}

impl Network for Llama {
    /// `[batch, length]` token numbers to `[batch, length, words]`.
    fn forward(&self, tokens: &Tensor, pass: Pass) -> Result<Tensor> {
        let embedded = if pass.is_first() {
            self.embedding.forward(tokens)?
        } else {
            tokens.shallow_clone()
        };
        let options = (Kind::Int64, tokens.device());
        let positions = Tensor::f_arange(tokens.size()[1], options)?.f_unsqueeze(0)?;
        let angles = self.angles(&positions, embedded.f_kind()?)?;
        let mut x = embedded.shallow_clone();
        x = self.layers.forward(x, &angles, pass)?;
        if !pass.is_last() {
            return Ok(x);
        }
        x = self.norm.forward(&x)?;
        drop(embedded);
        self.decode(&x)
    }

    /// Over all positions, in single precision.
    fn loss(&self, scores: Tensor, labels: &Tensor) -> Result<Tensor> {
        let words = scores.size3()?.2;
        let single = scores.f_to_kind(Kind::Float)?;
        cross_entropy(&single.f_view([-1, words])?, &labels.f_reshape(-1)?)
    }

    fn adapt(&mut self, mut scope: Scope<'_>, rank: i64, targets: &LoraTargets) -> Result<()> {
        let mut model = scope.at("model");
        let mut layers = model.at("layers");
        for index in 0..self.layers.count() {
            self.layers
                .at(index)
                .adapt(layers.at(index), rank, targets)?;
        }
        Ok(())
    }

    fn merge(&mut self) -> Result<()> {
        for index in 0..self.layers.count() {
            for (_, _, _, projection) in self.layers.at(index).projections() {
                projection.merge()?;
            }
        }
        Ok(())
    }

    fn next_scores(&self, tokens: &Tensor, seen: &mut KeyValues) -> Result<Tensor> {
        let length = tokens.size2()?.1;
        let positions = seen.advance(length, tokens.device())?;
        let mut x = self.embedding.forward(tokens)?;
        let angles = self.angles(&positions, x.f_kind()?)?;
        for index in 0..self.layers.count() {
            x = self
                .layers
                .at(index)
                .pass(&x, &angles, Some((&mut *seen, index)))?;
        }
        x = self.norm.forward(&x)?;
        // Of the other positions nobody asks what comes next.
        self.decode(&x.f_narrow(1, length - 1, 1)?)
    }
}

/// One decoder layer, normalised before attention and before the perceptron.
#[derive(Debug)]
struct Layer {
    module: Module,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    gate: Linear,
    up: Linear,
    down: Linear,
    attention_norm: RmsNorm,
    perceptron_norm: RmsNorm,
    head_width: i64,
}

impl Layer {
    fn new(mut scope: Scope<'_>, size: Size) -> Result<Self> {
        let Size { width, inner, .. } = size;
        let head_width = size.head_width();
        let keys = size.key_heads * head_width;
        let module = scope.module();
        let mut attention = scope.at("self_attn");
        let query = linear(attention.at("q_proj"), (width, width))?;
        let key = linear(attention.at("k_proj"), (width, keys))?;
        let value = linear(attention.at("v_proj"), (width, keys))?;
        let output = linear(attention.at("o_proj"), (width, width))?;
        let mut perceptron = scope.at("mlp");
        let gate = linear(perceptron.at("gate_proj"), (width, inner))?;
        let up = linear(perceptron.at("up_proj"), (width, inner))?;
        let down = linear(perceptron.at("down_proj"), (inner, width))?;
        Ok(Self {
            module,
            query,
            key,
            value,
            output,
            gate,
            up,
            down,
            attention_norm: RmsNorm::new(scope.at("input_layernorm"), width, EPS)?,
            perceptron_norm: RmsNorm::new(scope.at("post_attention_layernorm"), width, EPS)?,
            head_width,
        })
    }

    /// Everything that can have an adapter, with its place among the names.
    fn projections(&mut self) -> [(Projection, &'static str, &'static str, &mut Linear); 7] {
        let (attention, perceptron) = ("self_attn", "mlp");
        [
            (Projection::Query, attention, "q_proj", &mut self.query),
            (Projection::Key, attention, "k_proj", &mut self.key),
            (Projection::Value, attention, "v_proj", &mut self.value),
            (Projection::Output, attention, "o_proj", &mut self.output),
            (Projection::Gate, perceptron, "gate_proj", &mut self.gate),
            (Projection::Up, perceptron, "up_proj", &mut self.up),
            (Projection::Down, perceptron, "down_proj", &mut self.down),
        ]
    }

    fn adapt(&mut self, mut scope: Scope<'_>, rank: i64, targets: &LoraTargets) -> Result<()> {
        for (projection, part, name, linear) in self.projections() {
            if targets.has(projection) {
                linear.adapt(scope.at(part).at(name), rank)?;
            }
        }
        Ok(())
    }

    /// `[batch, length, width]` to the same. Where keys and values of positions before are kept,
    /// these come after them.
    fn attend(
        &self,
        x: &Tensor,
        angles: &[Tensor],
        seen: Option<(&mut KeyValues, usize)>,
    ) -> Result<Tensor> {
        let (batch, length, width) = x.size3()?;
        let split = |projection: &Linear| -> Result<Tensor> {
            let heads = [batch, length, -1, self.head_width];
            Ok(projection.forward(x)?.f_view(heads)?.f_transpose(1, 2)?)
        };
        let (mut query, mut key) = (split(&self.query)?, split(&self.key)?);
        let mut value = split(&self.value)?;
        (query, key) = (rotate(&query, angles)?, rotate(&key, angles)?);
        let mut mask = None;
        if let Some((seen, layer)) = seen {
            [key, value] = seen.extend(layer, [&key, &value])?;
            mask = seen.mask();
        }
        let key_heads = key.size4()?.1;
        let alone = length == 1;
        if alone {
            // One position sees all that is there. So do several: the queries that share keys.
            query = query.f_reshape([batch, key_heads, -1, self.head_width])?;
        }
        let shared = query.size4()?.1 != key_heads;
        let mut attended = Tensor::f_scaled_dot_product_attention(
            &query, &key, &value, mask, 0.0, !alone, None, shared,
        )?;
        if !alone {
            attended = attended.f_transpose(1, 2)?;
        }
        self.output
            .forward(&attended.f_reshape([batch, length, width])?)
    }

    fn perceptron(&self, x: &Tensor) -> Result<Tensor> {
        let gate = self.gate.forward(x)?.f_silu()?;
        let up = self.up.forward(x)?;
        let inner = gate.f_mul(&up)?;
        drop((gate, up));
        self.down.forward(&inner)
    }

    fn pass(
        &self,
        x: &Tensor,
        angles: &[Tensor],
        seen: Option<(&mut KeyValues, usize)>,
    ) -> Result<Tensor> {
        let _entered = self.module.enter();
        let attended = self.attend(&self.attention_norm.forward(x)?, angles, seen)?;
        let x = x.f_add(&attended)?;
        drop(attended);
        let y = self.perceptron(&self.perceptron_norm.forward(&x)?)?;
        Ok(x.f_add(&y)?)
    }
}

impl Block for Layer {
    fn forward(&self, x: Tensor, angles: &[Tensor], _training: bool) -> Result<Tensor> {
        self.pass(&x, angles, None)
    }
}

/// Turns each pair of a head, whose halves lie half a head apart.
fn rotate(x: &Tensor, angles: &[Tensor]) -> Result<Tensor> {
    let straight = x.f_mul(&angles[0])?;
    let turned = quarter_turn(x)?.f_mul(&angles[1])?;
    Ok(straight.f_add(&turned)?)
}

fn quarter_turn(x: &Tensor) -> Result<Tensor> {
    let half = x.size4()?.3 / 2;
    let first = x.f_narrow(-1, 0, half)?;
    let second = x.f_narrow(-1, half, half)?;
    Ok(Tensor::f_cat(&[&second.f_neg()?, &first], -1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_transformers() {
        let golden = include_str!("../../golden/llama-tiny.json");
        let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
        for (name, size) in [
            ("llama-tiny", TINY),
            ("llama-2-7b", LLAMA2_7B),
            ("llama-3.1-8b", LLAMA31_8B),
            ("llama-3.2-1b", LLAMA32_1B),
        ] {
            let expected = &golden["frequencies"][name];
            let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
            assert_eq!(size.frequencies().unwrap(), expected, "{name}");
        }
    }
}
