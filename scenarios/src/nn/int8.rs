//! Products in whole numbers of 8 bits, as torchao's `Int8DynamicActivationInt8WeightConfig` has them:
//! scales are those of the largest magnitude of a row, about zero.

use libtorch::Result;
use tch::{Kind, Tensor};

/// What both sides of a weight must be multiples of, for `_int_mm` on a GPU takes no others.
pub(super) const MULTIPLE: i64 = 8;

/// The largest of the whole numbers; the least is its opposite.
const MOST: f64 = 127.0;

/// The rows that `_int_mm` multiplies on a GPU at least.
const ROWS_ON_GPU: i64 = 17;

/// The rows of a matrix, `[rows, columns]`, as whole numbers that are still in single precision, and what
/// each was divided by, `[rows, 1]`.
pub(super) fn round(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut scales = x.f_norm_scalaropt_dim_dtype(f64::INFINITY, [-1], true, Kind::Float)?;
    scales = scales.f_div_scalar(MOST)?;
    // A row of zeros stays one.
    scales = scales.f_clamp_min(f64::from(f32::MIN_POSITIVE))?;
    Ok((x.f_div(&scales)?.f_round_()?, scales))
}

/// `x · weightᵀ + bias` of `[.., in]` and the whole numbers `[out, in]` with their scales `[1, out]`.
/// The sums of products are exact; the result is of this type.
pub(super) fn linear(
    x: &Tensor,
    (weight, scales): (&Tensor, &Tensor),
    bias: Option<&Tensor>,
    kind: Kind,
) -> Result<Tensor> {
    let mut shape = x.size();
    let (outputs, inputs) = weight.size2()?;
    let (rows, of_rows) = round(&x.f_reshape([-1, inputs])?)?;
    let least = if x.device().is_cuda() { ROWS_ON_GPU } else { 1 };
    let sums = product(&rows.f_to_kind(Kind::Int8)?, weight, least)?;
    let sums = sums.f_mul(&of_rows)?;
    // Scaled, moved by the bias and brought to the type in one pass.
    let y = Tensor::f_empty(sums.size(), (kind, x.device()))?;
    let y = match bias {
        Some(bias) => bias.f_addcmul_out(&y, &sums, scales)?,
        None => sums.f_mul_out(&y, scales)?,
    };
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    Ok(y.f_view(shape.as_slice())?)
}

/// `[rows, in]` times `[out, in]` transposed, whose sums are of 32 bits. Where there are less rows than
/// `least`, rows of zeros are multiplied too.
fn product(rows: &Tensor, weight: &Tensor, least: i64) -> Result<Tensor> {
    let count = rows.size2()?.0;
    let weight = weight.f_transpose(0, 1)?;
    if count >= least {
        return Ok(rows.f_internal_int_mm(&weight)?);
    }
    let padded = rows.f_constant_pad_nd([0, 0, 0, least - count])?;
    let sums = padded.f_internal_int_mm(&weight)?;
    Ok(sums.f_narrow(0, 0, count)?)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

    #[test]
    fn a_product_is_off_by_what_rounding_takes_at_most() {
        let _turn = crate::nn::draw_alone();
        tch::manual_seed(3);
        let (inputs, outputs) = (64, 24);
        let weight = Tensor::randn([outputs, inputs], CPU);
        let x = Tensor::randn([2, 5, inputs], CPU) * Tensor::randn([2, 5, 1], CPU).exp();
        // A row of zeros, whose result is the bias.
        let _ = x.get(1).get(4).zero_();
        let bias = Tensor::randn([outputs], CPU);
        let (rounded, scales) = round(&weight).unwrap();
        let rounded = rounded.to_kind(Kind::Int8);
        let exact = x.linear(&weight, Some(&bias));
        let of_rows = round(&x.reshape([-1, inputs])).unwrap().1.view([2, 5, 1]);
        // Each factor is off by half of its scale at most, and is as large as 127 scales at most.
        let bound = of_rows.abs() * scales.t_copy() * (127.0 + 0.25) * inputs as f64 + 1e-5;
        for kind in [Kind::Float, Kind::BFloat16] {
            let scales = scales.t_copy();
            let y = linear(&x, (&rounded, &scales), Some(&bias), kind).unwrap();
            assert_eq!((y.kind(), y.size()), (kind, vec![2, 5, outputs]));
            let off = (y.to_kind(Kind::Float) - &exact).abs();
            // Of bfloat16 a half of its last bit besides.
            let bound = match kind {
                Kind::Float => bound.shallow_clone(),
                _ => &bound + exact.abs() / 128.0,
            };
            assert!(bool::try_from(off.le_tensor(&bound).all()).unwrap());
            let share = (off.mean(Kind::Float) / exact.abs().mean(Kind::Float)).double_value(&[]);
            assert!((1e-4..0.02).contains(&share), "{kind:?}: {share}");
        }
        let zeros = linear(&x, (&rounded, &scales.t_copy()), Some(&bias), Kind::Float).unwrap();
        assert_eq!(zeros.get(1).get(4), bias);
    }

    #[test]
    fn rows_of_zeros_beside_a_few_change_nothing() {
        let _turn = crate::nn::draw_alone();
        tch::manual_seed(4);
        let whole =
            |shape: [i64; 2]| Tensor::randint_low(-127, 128, shape, (Kind::Int8, Device::Cpu));
        let (rows, weight) = (whole([3, 16]), whole([8, 16]));
        let exact = rows
            .to_kind(Kind::Float)
            .matmul(&weight.to_kind(Kind::Float).t_copy());
        for least in [1, ROWS_ON_GPU] {
            let sums = product(&rows, &weight, least).unwrap();
            assert_eq!(sums.kind(), Kind::Int);
            assert_eq!(sums.to_kind(Kind::Float), exact);
        }
    }
}
