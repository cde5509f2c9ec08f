//! Products in 8 bits: in FP8, in whole numbers, or rounded as inference in whole numbers will have them.

use libtorch::{Result, fp8::Scaling};
use protocol::{Fp8, Int8, Precision, Qat, Variant};
use tch::{Kind, Tensor};

use super::Scope;

/// What becomes of the two sides of a layer's product.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rounding {
    #[default]
    None,
    /// FP8, of linear layers alone.
    Fp8(Scaling),
    /// Whole numbers of 8 bits, of linear layers alone, whose products are of this type.
    Int8(Kind),
    /// Whole numbers of 8 bits, whose values stay what they stand for.
    Fake,
}

impl Rounding {
    pub fn of(variant: &Variant) -> Self {
        match (variant.fp8, variant.int8, variant.qat) {
            (Fp8::Tensor, ..) => Self::Fp8(Scaling::Tensor),
            (Fp8::Row, ..) => Self::Fp8(Scaling::Row),
            (Fp8::None, Int8::Dynamic, _) => Self::Int8(match variant.precision {
                Precision::Fp32 | Precision::Tf32 => Kind::Float,
                Precision::AmpFp16 => Kind::Half,
                Precision::AmpBf16 | Precision::Bf16 => Kind::BFloat16,
            }),
            (Fp8::None, Int8::None, Qat::Int8) => Self::Fake,
            (Fp8::None, Int8::None, Qat::None) => Self::None,
        }
    }
}

/// Rounds a layer's input and weight, as `torch.ao.quantization` does for x86: the input to 256 values
/// of one range, the weight to as many of a range for each output, about 0. Ranges are averages of the
/// extremes that were seen.
#[derive(Debug)]
pub(super) struct FakeQuantised {
    on: Tensor,
    input: Range,
    weight: Range,
}

#[derive(Debug)]
struct Range {
    least: Tensor,
    most: Tensor,
    scale: Tensor,
    zero: Tensor,
}

/// What a new extreme counts in the average.
const NEW_SHARE: f64 = 0.01;

impl FakeQuantised {
    /// For a layer of so many outputs; `None` where nothing is rounded to whole numbers.
    pub(super) fn new(scope: &mut Scope<'_>, outputs: i64) -> Result<Option<Self>> {
        if scope.rounding() != Rounding::Fake {
            return Ok(None);
        }
        Ok(Some(Self {
            on: Tensor::f_ones([1], (Kind::Int64, scope.device()))?,
            input: Range::new(scope.at("activation_post_process"), 1)?,
            weight: Range::new(scope.at("weight_fake_quant"), outputs)?,
        }))
    }

    /// Both rounded, with the gradients of what is within its range.
    pub(super) fn round(&self, x: &Tensor, weight: &Tensor) -> Result<(Tensor, Tensor)> {
        let of_x = self.input.round(x, &self.on, (0, 255), false)?;
        Ok((
            of_x,
            self.weight.round(weight, &self.on, (-128, 127), true)?,
        ))
    }
}

impl Range {
    fn new(mut scope: Scope<'_>, count: i64) -> Result<Self> {
        let device = scope.device();
        let mut keep = |name: &str, value: f64, kind: Kind| -> Result<Tensor> {
            let tensor = Tensor::f_full([count], value, (kind, device))?;
            let name = scope.name(name);
            scope.adopt(name, &tensor);
            Ok(tensor)
        };
        Ok(Self {
            least: keep("min_val", f64::INFINITY, Kind::Float)?,
            most: keep("max_val", f64::NEG_INFINITY, Kind::Float)?,
            scale: keep("scale", 1.0, Kind::Float)?,
            zero: keep("zero_point", 0.0, Kind::Int)?,
        })
    }

    fn round(
        &self,
        x: &Tensor,
        on: &Tensor,
        (low, high): (i64, i64),
        each: bool,
    ) -> Result<Tensor> {
        let x = x.f_to_kind(Kind::Float)?;
        let (least, most, scale, zero) = (&self.least, &self.most, &self.scale, &self.zero);
        Ok(x.f_fused_moving_avg_obs_fake_quant(
            on, on, least, most, scale, zero, NEW_SHARE, low, high, 0, each, each,
        )?)
    }
}
