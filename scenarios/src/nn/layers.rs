//! The layers that the models share, as thin as `torch.nn`'s.

use libtorch::Result;
use tch::Tensor;

use super::{Init, Scope};

/// `nn.Linear`: `[.., in]` to `[.., out]`.
#[derive(Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    /// A layer whose weight and bias begin by these rules.
    pub fn new(
        mut scope: Scope<'_>,
        (inputs, outputs): (i64, i64),
        weight: Init,
        bias: Init,
    ) -> Result<Self> {
        Ok(Self {
            weight: scope.parameter("weight", &[outputs, inputs], weight)?,
            bias: scope.parameter("bias", &[outputs], bias)?,
        })
    }

    /// Applies it.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.f_linear(&self.weight, Some(&self.bias))?)
    }
}

/// `nn.LayerNorm` over the last dimension.
#[derive(Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    width: i64,
    eps: f64,
}

impl LayerNorm {
    /// A layer for rows of this width, beginning as the identity.
    pub fn new(mut scope: Scope<'_>, width: i64, eps: f64) -> Result<Self> {
        Ok(Self {
            weight: scope.parameter("weight", &[width], Init::Ones)?,
            bias: scope.parameter("bias", &[width], Init::Zeros)?,
            width,
            eps,
        })
    }

    /// Applies it.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let width = [self.width];
        Ok(x.f_layer_norm(width, Some(&self.weight), Some(&self.bias), self.eps, true)?)
    }
}

/// `nn.Embedding`: indices `[..]` to rows `[.., width]`.
#[derive(Debug)]
pub struct Embedding {
    weight: Tensor,
    padding: i64,
}

impl Embedding {
    /// A table of `rows` rows, normal with this deviation. The row at `padding` begins at
    /// zero and is never trained.
    pub fn new(
        mut scope: Scope<'_>,
        (rows, width): (i64, i64),
        std: f64,
        padding: Option<i64>,
    ) -> Result<Self> {
        let weight = scope.parameter("weight", &[rows, width], Init::Normal { std })?;
        if let Some(row) = padding
            && scope.fills()
        {
            let _untracked = tch::no_grad_guard();
            let _ = weight.f_select(0, row)?.f_zero_()?;
        }
        Ok(Self {
            weight,
            // libtorch's word for «no padding row».
            padding: padding.unwrap_or(-1),
        })
    }

    /// The table, for a decoder that shares it.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Looks the rows up.
    pub fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        let (padding, by_frequency, sparse) = (self.padding, false, false);
        Ok(Tensor::f_embedding(
            &self.weight,
            indices,
            padding,
            by_frequency,
            sparse,
        )?)
    }
}

/// `nn.Conv2d` on square windows, with or without bias.
#[derive(Debug)]
pub struct Conv2d {
    weight: Tensor,
    bias: Option<Tensor>,
    stride: i64,
    padding: i64,
}

/// The form of a convolution.
#[derive(Debug, Clone, Copy)]
pub struct ConvForm {
    /// Channels read.
    pub inputs: i64,
    /// Channels written.
    pub outputs: i64,
    /// Height and width of the window.
    pub kernel: i64,
    /// Step of the window.
    pub stride: i64,
    /// Zeros around the image.
    pub padding: i64,
}

impl ConvForm {
    /// The weight's shape, `[out, in, height, width]`.
    #[must_use]
    pub fn weight_shape(self) -> [i64; 4] {
        [self.outputs, self.inputs, self.kernel, self.kernel]
    }
}

impl Conv2d {
    /// A convolution whose weight begins by this rule, with a bias where it has one.
    pub fn new(
        mut scope: Scope<'_>,
        form: ConvForm,
        weight: Init,
        bias: Option<Init>,
    ) -> Result<Self> {
        Ok(Self {
            weight: scope.parameter("weight", &form.weight_shape(), weight)?,
            bias: bias
                .map(|init| scope.parameter("bias", &[form.outputs], init))
                .transpose()?,
            stride: form.stride,
            padding: form.padding,
        })
    }

    /// Applies it to `[batch, in, height, width]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (stride, padding) = (self.stride, self.padding);
        Ok(x.f_conv2d(&self.weight, self.bias.as_ref(), stride, padding, 1, 1)?)
    }
}

/// `nn.BatchNorm2d` with running statistics.
#[derive(Debug)]
pub struct BatchNorm2d {
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
}

impl BatchNorm2d {
    /// A layer for this many channels, beginning as the identity.
    pub fn new(mut scope: Scope<'_>, channels: i64) -> Result<Self> {
        Ok(Self {
            weight: scope.parameter("weight", &[channels], Init::Ones)?,
            bias: scope.parameter("bias", &[channels], Init::Zeros)?,
            running_mean: scope.buffer("running_mean", &[channels], Init::Zeros)?,
            running_var: scope.buffer("running_var", &[channels], Init::Ones)?,
        })
    }

    /// Applies it. In training it uses the batch's statistics and updates the running ones.
    pub fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let (momentum, eps, cudnn) = (0.1, 1e-5, true);
        Ok(x.f_batch_norm(
            Some(&self.weight),
            Some(&self.bias),
            Some(&self.running_mean),
            Some(&self.running_var),
            training,
            momentum,
            eps,
            cudnn,
        )?)
    }
}
