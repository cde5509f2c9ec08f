//! 3D U-Net, as the reference of `MLPerf` Training for `KiTS19`.
//!
//! Reference: mlcommons/training `image_segmentation/pytorch/model/unet3d.py`, `layers.py` and
//! `losses.py`, with its defaults: instance normalisation, `ReLU`, no deep supervision; Çiçek et al.,
//! «3D U-Net», 2016. `ReLU` gives a new tensor, as there.

use libtorch::Result;
use tch::{Kind, Tensor};

use super::{Network, cross_entropy};
use crate::nn::{Block, Blocks, Conv3d, InstanceNorm3d, Module, Pass, Scope};

/// Background, kidney and tumour.
pub(super) const CLASSES: i64 = 3;
/// Keeps the share of a class that is nowhere from being no number.
const SMOOTH: f64 = 1e-6;

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Channels of each level from the top; the bottom has as many as the last.
    channels: &'static [i64],
}

pub(super) const KITS19: Size = Size {
    channels: &[32, 64, 128, 256, 320],
};

pub(super) const TINY: Size = Size {
    channels: &[4, 8, 16],
};

impl Size {
    /// Of one volume of these edges.
    pub(super) fn multiply_adds(&self, edge: f64) -> f64 {
        let windows =
            |inputs: i64, outputs: i64, edge: f64| 27.0 * (inputs * outputs) as f64 * edge.powi(3);
        let (mut edge, mut inputs, mut sum) = (edge, 1, 0.0);
        for (level, &outputs) in self.down().enumerate() {
            edge /= if level > 0 { 2.0 } else { 1.0 };
            sum += windows(inputs, outputs, edge) + windows(outputs, outputs, edge);
            inputs = outputs;
        }
        for &outputs in self.channels.iter().rev() {
            // Each voxel above is read from one below, as if windows were of one voxel.
            edge *= 2.0;
            sum += windows(inputs, outputs, edge) / 27.0;
            sum += windows(2 * outputs, outputs, edge) + windows(outputs, outputs, edge);
            inputs = outputs;
        }
        sum + (inputs * CLASSES) as f64 * edge.powi(3)
    }

    /// Channels of what goes down, the bottom included.
    fn down(&self) -> impl Iterator<Item = &i64> {
        self.channels.iter().chain(self.channels.last())
    }
}

#[derive(Debug)]
pub(super) struct Unet {
    blocks: Blocks<Stage>,
    /// How many blocks give something that goes across.
    levels: usize,
    output: Conv3d,
    /// `[1, classes - 1, 1, 1, 1]`: 1, 2, …
    classes: Tensor,
}

impl Unet {
    pub(super) fn new(mut scope: Scope<'_>, size: Size) -> Result<Self> {
        let mut blocks = Vec::new();
        let (levels, mut inputs) = (size.channels.len(), 1);
        for (level, &outputs) in size.down().enumerate() {
            let sides = (inputs, outputs);
            blocks.push(match level {
                0 => Stage::new(scope.at("input_block"), sides, 1)?,
                level if level < levels => {
                    Stage::new(scope.at("downsample").at(level - 1), sides, 2)?
                }
                _ => Stage::new(scope.at("bottleneck"), sides, 2)?,
            });
            inputs = outputs;
        }
        for (index, &outputs) in size.channels.iter().rev().enumerate() {
            blocks.push(Stage::up(
                scope.at("upsample").at(index),
                (inputs, outputs),
            )?);
            inputs = outputs;
        }
        let options = (Kind::Int64, scope.device());
        let mut output = scope.at("output");
        let mut output = output.at("conv");
        Ok(Self {
            blocks: Blocks::new(blocks),
            levels,
            output: Conv3d::new(output.at(0), (inputs, CLASSES), (1, 1), true)?,
            classes: Tensor::f_arange_start(1, CLASSES, options)?.f_view([1, -1, 1, 1, 1])?,
        })
    }
}

impl Network for Unet {
    /// `[batch, 1, depth, height, width]` to `[batch, classes, depth, height, width]`.
    fn forward(&self, input: &Tensor, pass: Pass) -> Result<Tensor> {
        let mut x = input.shallow_clone();
        let mut across = Vec::new();
        for index in 0..self.blocks.count() {
            let beside = if index > self.levels {
                across.pop()
            } else {
                None
            };
            x = self.blocks.one(index, x, beside.as_slice(), pass)?;
            if index < self.levels {
                across.push(x.shallow_clone());
            }
        }
        self.output.forward(&x)
    }

    /// The mean of cross entropy and of one less the Dice coefficient of every class but background.
    fn loss(&self, scores: Tensor, labels: &Tensor) -> Result<Tensor> {
        let entropy = cross_entropy(&scores, labels)?;
        let shares = scores
            .f_softmax(1, Kind::Float)?
            .f_narrow(1, 1, CLASSES - 1)?;
        drop(scores);
        let truth = labels.f_unsqueeze(1)?.f_eq_tensor(&self.classes)?;
        let truth = truth.f_to_kind(Kind::Float)?;
        let sum = |of: &Tensor| of.f_sum_dim_intlist([2, 3, 4].as_slice(), false, Kind::Float);
        let both = sum(&shares.f_mul(&truth)?)?.f_mul_scalar(2.0)?;
        let either = sum(&truth)?.f_add(&sum(&shares)?)?;
        let dice = both
            .f_add_scalar(SMOOTH)?
            .f_div(&either.f_add_scalar(SMOOTH)?)?;
        let missed = dice.f_neg()?.f_add_scalar(1.0)?.f_mean(Kind::Float)?;
        Ok(missed.f_add(&entropy)?.f_div_scalar(2.0)?)
    }
}

/// Two convolutions, of what comes from below beside what comes across, where it goes up.
#[derive(Debug)]
struct Stage {
    module: Module,
    upsample: Option<Conv3d>,
    conv1: (Conv3d, InstanceNorm3d),
    conv2: (Conv3d, InstanceNorm3d),
}

impl Stage {
    fn new(mut scope: Scope<'_>, (inputs, outputs): (i64, i64), stride: i64) -> Result<Self> {
        Ok(Self {
            module: scope.module(),
            upsample: None,
            conv1: convolution(scope.at("conv1"), (inputs, outputs), stride)?,
            conv2: convolution(scope.at("conv2"), (outputs, outputs), 1)?,
        })
    }

    fn up(mut scope: Scope<'_>, (inputs, outputs): (i64, i64)) -> Result<Self> {
        let upsample = Conv3d::doubling(scope.at("upsample_conv").at(0), (inputs, outputs))?;
        Ok(Self {
            upsample: Some(upsample),
            ..Self::new(scope, (2 * outputs, outputs), 1)?
        })
    }
}

fn convolution(
    mut scope: Scope<'_>,
    sides: (i64, i64),
    stride: i64,
) -> Result<(Conv3d, InstanceNorm3d)> {
    let conv = Conv3d::new(scope.at(0), sides, (3, stride), false)?;
    Ok((conv, InstanceNorm3d::new(scope.at(1), sides.1)?))
}

impl Block for Stage {
    fn forward(&self, mut x: Tensor, beside: &[Tensor], _training: bool) -> Result<Tensor> {
        let _entered = self.module.enter();
        if let Some(upsample) = &self.upsample {
            x = upsample.forward(&x)?;
            x = Tensor::f_cat(&[&x, &beside[0]], 1)?;
        }
        for (conv, norm) in [&self.conv1, &self.conv2] {
            x = conv.forward(&x)?;
            x = norm.forward(&x)?;
            x = x.f_relu()?;
        }
        Ok(x)
    }
}
