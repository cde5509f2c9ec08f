//! The layers that the models share, as thin as `torch.nn`'s.

use libtorch::{Result, fp8};
use tch::{Kind, Tensor};

use super::{Init, Module, Rounding, Scope, int8, rounding::FakeQuantised};

/// `nn.Linear`: `[.., in]` to `[.., out]`, with or without bias.
#[derive(Debug)]
pub struct Linear {
    module: Module,
    weight: Tensor,
    bias: Option<Tensor>,
    adapter: Option<Adapter>,
    product: Product,
}

/// How a layer multiplies its input by its weight.
#[derive(Debug)]
enum Product {
    Plain,
    Fp8(fp8::Scaling),
    /// The weight is whole numbers with these scales, `[1, out]`, and the result of this type.
    Int8(Tensor, Kind),
    Fake(FakeQuantised),
}

/// A low-rank addition to a layer's weight (Hu et al., «`LoRA`», 2021), as PEFT's `lora.Linear`.
#[derive(Debug)]
struct Adapter {
    /// `[rank, in]`.
    down: Tensor,
    /// `[out, rank]`.
    up: Tensor,
}

/// What an adapter's product is multiplied by, `lora_alpha / r`: alpha is twice the rank.
const LORA_SCALE: f64 = 2.0;

impl Linear {
    /// A layer whose weight begins by this rule, with a bias where it has one.
    pub fn new(
        mut scope: Scope<'_>,
        (inputs, outputs): (i64, i64),
        weight: Init,
        bias: impl Into<Option<Init>>,
    ) -> Result<Self> {
        let is_multiple = |of: i64| inputs % of == 0 && outputs % of == 0;
        let (module, shape) = (scope.module(), [outputs, inputs]);
        let mut product = match FakeQuantised::new(&mut scope, outputs)? {
            Some(quantised) => Product::Fake(quantised),
            None => Product::Plain,
        };
        let weight = match scope.rounding() {
            Rounding::Int8(kind) if is_multiple(int8::MULTIPLE) => {
                let (weight, scales) = scope.int8_parameter("weight", &shape, weight)?;
                product = Product::Int8(scales.f_view([1, outputs])?, kind);
                weight
            }
            rounding => {
                if let Rounding::Fp8(scaling) = rounding
                    && is_multiple(fp8::MULTIPLE)
                {
                    product = Product::Fp8(scaling);
                }
                scope.parameter("weight", &shape, weight)?
            }
        };
        Ok(Self {
            module,
            weight,
            product,
            bias: bias
                .into()
                .map(|init| scope.parameter("bias", &[outputs], init))
                .transpose()?,
            adapter: None,
        })
    }

    /// Gives it an adapter of this rank, which begins as nothing.
    pub fn adapt(&mut self, mut scope: Scope<'_>, rank: i64) -> Result<()> {
        let (outputs, inputs) = self.weight.size2()?;
        let (mut down, uniform) = (scope.at("lora_A"), Init::fan_in_uniform(inputs));
        let down = down.parameter("weight", &[rank, inputs], uniform)?;
        let mut up = scope.at("lora_B");
        let up = up.parameter("weight", &[outputs, rank], Init::Zeros)?;
        self.adapter = Some(Adapter { down, up });
        Ok(())
    }

    /// Adds the adapter, where there is one, to the weight.
    pub fn merge(&mut self) -> Result<()> {
        if let Some(Adapter { down, up }) = self.adapter.take() {
            let _untracked = tch::no_grad_guard();
            let addition = up.f_matmul(&down)?.f_mul_scalar(LORA_SCALE)?;
            let _ = self.weight.f_add_(&addition)?;
        }
        Ok(())
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _entered = self.module.enter();
        let bias = self.bias.as_ref();
        let y = match &self.product {
            Product::Plain => x.f_linear(&self.weight, bias)?,
            Product::Fp8(scaling) => fp8::linear(x, &self.weight, bias, *scaling)?,
            Product::Int8(scales, kind) => int8::linear(x, (&self.weight, scales), bias, *kind)?,
            Product::Fake(quantised) => {
                let (x, weight) = quantised.round(x, &self.weight)?;
                x.f_linear(&weight, bias)?
            }
        };
        let Some(Adapter { down, up }) = &self.adapter else {
            return Ok(y);
        };
        let none = None::<&Tensor>;
        let low = x.f_linear(down, none)?;
        let mut addition = low.f_linear(up, none)?;
        drop(low);
        addition = addition.f_mul_scalar(LORA_SCALE)?;
        Ok(y.f_add(&addition)?)
    }
}

/// transformers' `LlamaRMSNorm` over the last dimension, in single precision.
#[derive(Debug)]
pub struct RmsNorm {
    module: Module,
    weight: Tensor,
    eps: f64,
}

impl RmsNorm {
    /// A layer for rows of this width.
    pub fn new(mut scope: Scope<'_>, width: i64, eps: f64) -> Result<Self> {
        Ok(Self {
            module: scope.module(),
            weight: scope.parameter("weight", &[width], Init::Ones)?,
            eps,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _entered = self.module.enter();
        let kind = x.f_kind()?;
        let mut x = x.f_to_kind(Kind::Float)?;
        let variance = x
            .f_pow_tensor_scalar(2)?
            .f_mean_dim([-1].as_slice(), true, None)?;
        x = x.f_mul(&variance.f_add_scalar(self.eps)?.f_rsqrt()?)?;
        Ok(self.weight.f_mul(&x.f_to_kind(kind)?)?)
    }
}

/// `nn.LayerNorm` over the last dimension.
#[derive(Debug)]
pub struct LayerNorm {
    module: Module,
    weight: Tensor,
    bias: Tensor,
    width: i64,
    eps: f64,
}

impl LayerNorm {
    /// A layer for rows of this width, beginning as the identity.
    pub fn new(mut scope: Scope<'_>, width: i64, eps: f64) -> Result<Self> {
        Ok(Self {
            module: scope.module(),
            weight: scope.parameter("weight", &[width], Init::Ones)?,
            bias: scope.parameter("bias", &[width], Init::Zeros)?,
            width,
            eps,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _entered = self.module.enter();
        let width = [self.width];
        Ok(x.f_layer_norm(width, Some(&self.weight), Some(&self.bias), self.eps, true)?)
    }
}

/// `nn.Embedding`: indices `[..]` to rows `[.., width]`.
#[derive(Debug)]
pub struct Embedding {
    module: Module,
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
            // Of another stage it has no memory.
            && !weight.data_ptr().is_null()
        {
            let _untracked = tch::no_grad_guard();
            let _ = weight.f_select(0, row)?.f_zero_()?;
        }
        Ok(Self {
            module: scope.module(),
            weight,
            // libtorch's word for «no padding row».
            padding: padding.unwrap_or(-1),
        })
    }

    /// The table, for a decoder that shares it.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    pub fn forward(&self, indices: &Tensor) -> Result<Tensor> {
        let _entered = self.module.enter();
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
    module: Module,
    weight: Tensor,
    bias: Option<Tensor>,
    stride: i64,
    padding: i64,
    quantised: Option<FakeQuantised>,
}

#[derive(Debug, Clone, Copy)]
pub struct ConvForm {
    pub inputs: i64,
    pub outputs: i64,
    /// Height and width of the window.
    pub kernel: i64,
    pub stride: i64,
    pub padding: i64,
}

impl ConvForm {
    /// The weight's shape, `[out, in, height, width]`.
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
            module: scope.module(),
            quantised: FakeQuantised::new(&mut scope, form.outputs)?,
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
        let _entered = self.module.enter();
        let (stride, padding) = (self.stride, self.padding);
        let rounded = self.quantised.as_ref();
        let rounded = rounded.map(|of| of.round(x, &self.weight)).transpose()?;
        let (x, weight) = match &rounded {
            Some((x, weight)) => (x, weight),
            None => (x, &self.weight),
        };
        Ok(x.f_conv2d(weight, self.bias.as_ref(), stride, padding, 1, 1)?)
    }
}

/// `nn.BatchNorm2d` with running statistics.
#[derive(Debug)]
pub struct BatchNorm2d {
    module: Module,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
}

impl BatchNorm2d {
    /// A layer for this many channels, beginning as the identity.
    pub fn new(mut scope: Scope<'_>, channels: i64) -> Result<Self> {
        Ok(Self {
            module: scope.module(),
            weight: scope.parameter("weight", &[channels], Init::Ones)?,
            bias: scope.parameter("bias", &[channels], Init::Zeros)?,
            running_mean: scope.buffer("running_mean", &[channels], Init::Zeros)?,
            running_var: scope.buffer("running_var", &[channels], Init::Ones)?,
        })
    }

    /// Applies it. In training it uses the batch's statistics and updates the running ones.
    pub fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let _entered = self.module.enter();
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
