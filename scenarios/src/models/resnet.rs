//! `ResNet` with bottleneck blocks, as `torchvision.models.resnet50` (v1.5: the stride is in
//! the 3×3 convolution).
//!
//! Reference: torchvision 0.26 `torchvision/models/resnet.py`; He et al., «Deep Residual
//! Learning for Image Recognition», 2015. `ReLU` and the residual sum work in place where
//! torchvision's do, which decides how much memory a step takes.

use libtorch::Result;
use tch::{Kind, Tensor};

use super::{Network, cross_entropy};
use crate::nn::{BatchNorm2d, Block, Blocks, Conv2d, ConvForm, Init, Linear, Module, Pass, Scope};

/// Channels out of a block for each channel inside it.
const EXPANSION: i64 = 4;

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Channels of the stem and of the first stage's inside.
    pub(super) channels: i64,
    /// Blocks in each stage.
    pub(super) stages: [usize; 4],
    pub(super) classes: i64,
}

impl Size {
    /// Of one image of this height and width.
    pub(super) fn multiply_adds(&self, image: f64) -> f64 {
        let expansion = EXPANSION as f64;
        let mut side = image / 2.0;
        let mut inputs = self.channels as f64;
        let mut sum = 3.0 * inputs * 49.0 * side * side;
        side /= 2.0;
        for (stage, &count) in self.stages.iter().enumerate() {
            let width = (self.channels << stage) as f64;
            let outputs = width * expansion;
            for index in 0..count {
                // The first product still sees the larger image.
                sum += inputs * width * side * side;
                if stage > 0 && index == 0 {
                    side /= 2.0;
                }
                let area = side * side;
                sum += (9.0 * width * width + width * outputs) * area;
                if index == 0 {
                    sum += inputs * outputs * area;
                }
                inputs = outputs;
            }
        }
        sum + inputs * self.classes as f64
    }
}

pub(super) const RESNET50: Size = Size {
    channels: 64,
    stages: [3, 4, 6, 3],
    classes: 1000,
};

pub(super) const TINY: Size = Size {
    channels: 16,
    stages: [1, 1, 1, 1],
    classes: 10,
};

#[derive(Debug)]
pub(super) struct Resnet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    blocks: Blocks<Bottleneck>,
    fc: Linear,
    batches_tracked: Tensor,
}

impl Resnet {
    pub(super) fn new(mut scope: Scope<'_>, size: &Size) -> Result<Self> {
        let mut norms = Vec::new();
        let conv1 = conv(scope.at("conv1"), (3, size.channels), (7, 2))?;
        let bn1 = norm(scope.at("bn1"), size.channels, &mut norms)?;
        let mut blocks = Vec::new();
        let mut inputs = size.channels;
        for (stage, &count) in size.stages.iter().enumerate() {
            let mut layer = scope.at(format_args!("layer{}", stage + 1));
            let width = size.channels << stage;
            for index in 0..count {
                let stride = if stage > 0 && index == 0 { 2 } else { 1 };
                let block = layer.at(index);
                blocks.push(Bottleneck::new(block, (inputs, width), stride, &mut norms)?);
                inputs = width * EXPANSION;
            }
        }
        let uniform = Init::fan_in_uniform(inputs);
        let fc = Linear::new(scope.at("fc"), (inputs, size.classes), uniform, uniform)?;
        Ok(Self {
            conv1,
            bn1,
            blocks: Blocks::new(blocks),
            fc,
            batches_tracked: track_batches(&mut scope, norms)?,
        })
    }
}

/// torchvision counts the batches of each normalisation in a buffer of one number, which
/// nothing reads while the momentum is set. Here they lie side by side, so that one
/// kernel counts them all.
fn track_batches(scope: &mut Scope<'_>, norms: Vec<String>) -> Result<Tensor> {
    let count = i64::try_from(norms.len()).unwrap_or(i64::MAX);
    let counters = Tensor::f_zeros([count], (Kind::Int64, scope.device()))?;
    for (index, name) in (0..).zip(norms) {
        scope.adopt(name, &counters.f_select(0, index)?);
    }
    Ok(counters)
}

fn conv(
    scope: Scope<'_>,
    (inputs, outputs): (i64, i64),
    (kernel, stride): (i64, i64),
) -> Result<Conv2d> {
    let form = ConvForm {
        inputs,
        outputs,
        kernel,
        stride,
        padding: kernel / 2,
    };
    let init = Init::kaiming_normal_fan_out(form.weight_shape());
    Conv2d::new(scope, form, init, None)
}

fn norm(scope: Scope<'_>, channels: i64, norms: &mut Vec<String>) -> Result<BatchNorm2d> {
    norms.push(scope.name("num_batches_tracked"));
    BatchNorm2d::new(scope, channels)
}

impl Network for Resnet {
    /// `[batch, 3, height, width]` to `[batch, classes]`.
    fn forward(&self, input: &Tensor, pass: Pass) -> Result<Tensor> {
        if pass.training {
            let _untracked = tch::no_grad_guard();
            let _ = self.batches_tracked.shallow_clone().f_add_scalar_(1)?;
        }
        let mut x = input.shallow_clone();
        if pass.is_first() {
            x = self.conv1.forward(input)?;
            x = self.bn1.forward(&x, pass.training)?;
            let _ = x.f_relu_()?;
            x = x.f_max_pool2d(3, 2, 1, 1, false)?;
        }
        x = self.blocks.forward(x, &[], pass)?;
        if !pass.is_last() {
            return Ok(x);
        }
        x = x.f_adaptive_avg_pool2d([1, 1])?;
        x = x.f_flatten(1, -1)?;
        self.fc.forward(&x)
    }

    fn loss(&self, scores: Tensor, labels: &Tensor) -> Result<Tensor> {
        cross_entropy(&scores, labels)
    }
}

/// 1×1, 3×3, 1×1 convolutions around a shortcut.
#[derive(Debug)]
struct Bottleneck {
    module: Module,
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    conv3: Conv2d,
    bn3: BatchNorm2d,
    downsample: Option<(Conv2d, BatchNorm2d)>,
}

impl Bottleneck {
    fn new(
        mut scope: Scope<'_>,
        (inputs, width): (i64, i64),
        stride: i64,
        norms: &mut Vec<String>,
    ) -> Result<Self> {
        let outputs = width * EXPANSION;
        Ok(Self {
            module: scope.module(),
            conv1: conv(scope.at("conv1"), (inputs, width), (1, 1))?,
            bn1: norm(scope.at("bn1"), width, norms)?,
            conv2: conv(scope.at("conv2"), (width, width), (3, stride))?,
            bn2: norm(scope.at("bn2"), width, norms)?,
            conv3: conv(scope.at("conv3"), (width, outputs), (1, 1))?,
            bn3: norm(scope.at("bn3"), outputs, norms)?,
            downsample: if stride != 1 || inputs != outputs {
                let mut scope = scope.at("downsample");
                Some((
                    conv(scope.at(0), (inputs, outputs), (1, stride))?,
                    norm(scope.at(1), outputs, norms)?,
                ))
            } else {
                None
            },
        })
    }
}

impl Block for Bottleneck {
    // One variable, assigned again and again: a new one of the same name would keep the
    // old tensor until the end of the block.
    fn forward(&self, x: Tensor, _: &[Tensor], training: bool) -> Result<Tensor> {
        let _entered = self.module.enter();
        let mut out = self.conv1.forward(&x)?;
        out = self.bn1.forward(&out, training)?;
        let _ = out.f_relu_()?;
        out = self.conv2.forward(&out)?;
        out = self.bn2.forward(&out, training)?;
        let _ = out.f_relu_()?;
        out = self.conv3.forward(&out)?;
        out = self.bn3.forward(&out, training)?;
        let identity = match &self.downsample {
            Some((conv, norm)) => norm.forward(&conv.forward(&x)?, training)?,
            None => x,
        };
        let _ = out.f_add_(&identity)?;
        Ok(out.f_relu_()?)
    }
}
