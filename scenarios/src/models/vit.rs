//! Vision Transformer, as timm's `vit_base_patch16_224` and `vit_large_patch16_224`.
//!
//! Reference: timm `timm/models/vision_transformer.py`; Dosovitskiy et al., «An Image is
//! Worth 16x16 Words», 2020. Query, key and value come out of one packed product as in
//! timm (torchvision's model computes the same function); dropout is 0 in both, so there
//! is none here.

use libtorch::Result;
use tch::Tensor;

use super::{Network, cross_entropy};
use crate::nn::{Block, Blocks, Conv2d, ConvForm, Init, LayerNorm, Linear, Module, Pass, Scope};

const LAYER_NORM_EPS: f64 = 1e-6;
const STD: f64 = 0.02;
const MLP_RATIO: i64 = 4;

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    layers: usize,
    width: i64,
    heads: i64,
    patch: i64,
    image: i64,
    pub(super) classes: i64,
}

impl Size {
    /// Of one image.
    pub(super) fn multiply_adds(self) -> f64 {
        let width = self.width as f64;
        let patches = ((self.image / self.patch) as f64).powi(2);
        let embedding = patches * 3.0 * ((self.patch * self.patch) as f64) * width;
        embedding
            + super::encoder_multiply_adds(self.layers, self.width, patches + 1.0)
            + width * self.classes as f64
    }
}

pub(super) const B16: Size = Size {
    layers: 12,
    width: 768,
    heads: 12,
    patch: 16,
    image: 224,
    classes: 1000,
};

pub(super) const L16: Size = Size {
    layers: 24,
    width: 1024,
    heads: 16,
    ..B16
};

pub(super) const TINY: Size = Size {
    layers: 2,
    width: 64,
    heads: 2,
    patch: 8,
    image: 32,
    classes: 10,
};

#[derive(Debug)]
pub(super) struct Vit {
    class_token: Tensor,
    positions: Tensor,
    patches: Conv2d,
    blocks: Blocks<Encoder>,
    norm: LayerNorm,
    head: Linear,
}

impl Vit {
    pub(super) fn new(mut scope: Scope<'_>, size: Size) -> Result<Self> {
        let Size { width, patch, .. } = size;
        let across = size.image / patch;
        let class_token =
            scope.parameter("cls_token", &[1, 1, width], Init::Normal { std: 1e-6 })?;
        let positions = scope.parameter(
            "pos_embed",
            &[1, across * across + 1, width],
            Init::TruncatedNormal { std: STD },
        )?;
        let form = ConvForm {
            inputs: 3,
            outputs: width,
            kernel: patch,
            stride: patch,
            padding: 0,
        };
        let uniform = Init::fan_in_uniform(3 * patch * patch);
        let patches = {
            let mut embed = scope.at("patch_embed");
            Conv2d::new(embed.at("proj"), form, uniform, Some(uniform))?
        };
        let blocks = {
            let mut blocks = scope.at("blocks");
            (0..size.layers)
                .map(|index| Encoder::new(blocks.at(index), width, size.heads))
                .collect::<Result<_>>()?
        };
        Ok(Self {
            class_token,
            positions,
            patches,
            blocks: Blocks::new(blocks),
            norm: LayerNorm::new(scope.at("norm"), width, LAYER_NORM_EPS)?,
            head: linear(scope.at("head").of_scores(), (width, size.classes))?,
        })
    }

    /// `[batch, 3, height, width]` to `[batch, 1 + patches, width]`.
    fn embed(&self, images: &Tensor) -> Result<Tensor> {
        let mut x = self.patches.forward(images)?;
        x = x.f_flatten(2, -1)?.f_transpose(1, 2)?;
        let batch = x.size3()?.0;
        let class = self.class_token.f_expand([batch, -1, -1], false)?;
        x = Tensor::f_cat(&[&class, &x], 1)?;
        Ok(x.f_add(&self.positions)?)
    }
}

fn linear(scope: Scope<'_>, form: (i64, i64)) -> Result<Linear> {
    Linear::new(scope, form, Init::TruncatedNormal { std: STD }, Init::Zeros)
}

impl Network for Vit {
    /// `[batch, 3, height, width]` to `[batch, classes]`.
    fn forward(&self, images: &Tensor, pass: Pass) -> Result<Tensor> {
        let mut x = images.shallow_clone();
        if pass.is_first() {
            x = self.embed(images)?;
        }
        x = self.blocks.forward(x, &[], pass)?;
        if !pass.is_last() {
            return Ok(x);
        }
        x = self.norm.forward(&x)?;
        x = x.f_select(1, 0)?;
        self.head.forward(&x)
    }

    fn loss(&self, scores: Tensor, labels: &Tensor) -> Result<Tensor> {
        cross_entropy(&scores, labels)
    }
}

/// One encoder block, normalised before attention and before the perceptron.
#[derive(Debug)]
struct Encoder {
    module: Module,
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    heads: i64,
}

impl Encoder {
    fn new(mut scope: Scope<'_>, width: i64, heads: i64) -> Result<Self> {
        let module = scope.module();
        let norm1 = LayerNorm::new(scope.at("norm1"), width, LAYER_NORM_EPS)?;
        let (qkv, proj) = {
            let mut attention = scope.at("attn");
            (
                linear(attention.at("qkv"), (width, 3 * width))?,
                linear(attention.at("proj"), (width, width))?,
            )
        };
        let norm2 = LayerNorm::new(scope.at("norm2"), width, LAYER_NORM_EPS)?;
        let mut mlp = scope.at("mlp");
        Ok(Self {
            module,
            norm1,
            qkv,
            proj,
            norm2,
            fc1: linear(mlp.at("fc1"), (width, MLP_RATIO * width))?,
            fc2: linear(mlp.at("fc2"), (MLP_RATIO * width, width))?,
            heads,
        })
    }

    /// `[batch, length, width]` to the same.
    fn attend(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length, width) = x.size3()?;
        let packed = self
            .qkv
            .forward(x)?
            .f_reshape([batch, length, 3, self.heads, width / self.heads])?
            .f_permute([2, 0, 3, 1, 4])?;
        // One node for all three in the graph: their gradients are stacked once.
        let qkv = packed.f_unbind(0)?;
        drop(packed);
        let mut y = Tensor::f_scaled_dot_product_attention(
            &qkv[0],
            &qkv[1],
            &qkv[2],
            None::<&Tensor>,
            0.0,
            false,
            None,
            false,
        )?;
        y = y.f_transpose(1, 2)?.f_reshape([batch, length, width])?;
        drop(qkv);
        self.proj.forward(&y)
    }
}

impl Block for Encoder {
    fn forward(&self, mut x: Tensor, _: &[Tensor], _training: bool) -> Result<Tensor> {
        let _entered = self.module.enter();
        x = x.f_add(&self.attend(&self.norm1.forward(&x)?)?)?;
        let mut y = self.norm2.forward(&x)?;
        y = self.fc1.forward(&y)?;
        y = y.f_gelu("none")?;
        y = self.fc2.forward(&y)?;
        Ok(x.f_add(&y)?)
    }
}
