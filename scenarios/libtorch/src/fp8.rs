//! Linear layers whose products are in FP8: e4m3 forward, e5m2 for gradients, with scales found anew
//! in every product, and sums in single precision. On a CPU the values are the same, and their
//! products single precision's: a reference, and no faster.

use std::ptr;

use tch::Tensor;

use crate::{
    Result, ffi,
    tensors::{optional, take},
};

/// What both sides of a weight must be multiples of.
pub const MULTIPLE: i64 = 16;

/// How many values share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// All of a matrix.
    Tensor,
    /// Those that are summed into one value: a row of the left side, a column of the right one.
    Row,
}

/// `input · weightᵀ + bias`, in the type that autocast gives linear layers, else the input's; on a
/// GPU, of compute capability 8.9 at least, in bfloat16.
pub fn linear(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    scaling: Scaling,
) -> Result<Tensor> {
    let (each, mut output) = (scaling == Scaling::Row, ptr::null_mut());
    // SAFETY: the tensors are alive for the call, the bias may be null, the rest is valid.
    unsafe {
        ffi::fp8_linear(
            input.as_ptr(),
            weight.as_ptr(),
            optional(bias),
            each,
            &raw mut output,
        )?;
    }
    // SAFETY: a new tensor that is ours.
    Ok(unsafe { take(output) })
}

/// How many matrices this process has cast to FP8.
pub fn casts() -> u64 {
    // SAFETY: it takes nothing.
    unsafe { ffi::torchgauge_fp8_casts() }
}
