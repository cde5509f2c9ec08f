//! The layers of models that read volumes, as thin as `torch.nn`'s.

use libtorch::Result;
use tch::Tensor;

use super::{Init, Module, Scope};

/// `nn.Conv3d` on cubic windows, or `nn.ConvTranspose3d` that doubles the edges. Parameters begin as
/// there.
#[derive(Debug)]
pub struct Conv3d {
    module: Module,
    weight: Tensor,
    bias: Option<Tensor>,
    stride: i64,
    is_transposed: bool,
}

impl Conv3d {
    /// A convolution of an odd window that keeps the edges, or divides them by its stride.
    pub fn new(
        mut scope: Scope<'_>,
        (inputs, outputs): (i64, i64),
        (kernel, stride): (i64, i64),
        has_bias: bool,
    ) -> Result<Self> {
        let init = Init::fan_in_uniform(inputs * kernel.pow(3));
        let shape = [outputs, inputs, kernel, kernel, kernel];
        Ok(Self {
            module: scope.module(),
            weight: scope.parameter("weight", &shape, init)?,
            bias: has_bias
                .then(|| scope.parameter("bias", &[outputs], init))
                .transpose()?,
            stride,
            is_transposed: false,
        })
    }

    /// One that doubles the edges, with windows of two voxels beside each other.
    pub fn doubling(mut scope: Scope<'_>, (inputs, outputs): (i64, i64)) -> Result<Self> {
        // `nn.init` takes the second dimension for the inputs, which here is that of the outputs.
        let init = Init::fan_in_uniform(outputs * 8);
        Ok(Self {
            module: scope.module(),
            weight: scope.parameter("weight", &[inputs, outputs, 2, 2, 2], init)?,
            bias: Some(scope.parameter("bias", &[outputs], init)?),
            stride: 2,
            is_transposed: true,
        })
    }

    /// Applies it to `[batch, in, depth, height, width]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _entered = self.module.enter();
        let (weight, bias, stride) = (&self.weight, self.bias.as_ref(), [self.stride; 3]);
        if self.is_transposed {
            return Ok(x.f_conv_transpose3d(weight, bias, stride, [0; 3], [0; 3], 1, [1; 3])?);
        }
        let padding = weight.size()[2] / 2;
        Ok(x.f_conv3d(weight, bias, stride, [padding; 3], [1; 3], 1)?)
    }
}

/// `nn.InstanceNorm3d` with a weight and a bias for each channel, without running statistics.
#[derive(Debug)]
pub struct InstanceNorm3d {
    module: Module,
    weight: Tensor,
    bias: Tensor,
}

impl InstanceNorm3d {
    pub fn new(mut scope: Scope<'_>, channels: i64) -> Result<Self> {
        Ok(Self {
            module: scope.module(),
            weight: scope.parameter("weight", &[channels], Init::Ones)?,
            bias: scope.parameter("bias", &[channels], Init::Zeros)?,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _entered = self.module.enter();
        let (weight, bias, none) = (Some(&self.weight), Some(&self.bias), None::<&Tensor>);
        let (momentum, eps, cudnn) = (0.1, 1e-5, true);
        Ok(x.f_instance_norm(weight, bias, none, none, true, momentum, eps, cudnn)?)
    }
}
