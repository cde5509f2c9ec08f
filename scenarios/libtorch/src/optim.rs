//! Fused optimizer steps in place, and the parts of a dynamic loss scaler.
//!
//! One kernel for all parameters, as Python's optimizers with `fused=True`. All lists have one
//! entry for each parameter, in the same order, all tensors of one device; parameters without a
//! gradient are left out by the caller.

use std::{borrow::Borrow, ptr};

use tch::Tensor;
use torch_sys::C_tensor;

use crate::{
    Error, Result, ffi,
    tensors::{optional, pointers},
};

/// Stochastic gradient descent, as `torch.optim.SGD`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Sgd {
    pub learning_rate: f64,
    /// Share of the last step that goes on; 0 needs no buffers.
    pub momentum: f64,
    pub weight_decay: f64,
}

/// Adam with decoupled weight decay, as `torch.optim.AdamW`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct AdamW {
    pub learning_rate: f64,
    /// Decay rates of the two running means.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub epsilon: f64,
    pub weight_decay: f64,
}

fn same_length(what: &str, got: usize, parameters: usize) -> Result<()> {
    if got == parameters {
        return Ok(());
    }
    Err(Error::Libtorch {
        message: format!(
            "expected one of the {what} for each of {parameters} parameters, got {got}"
        ),
    })
}

/// One step of SGD. Does nothing where `found_inf`, a single float on the parameters' device, is 1,
/// without synchronisation with the device.
///
/// `momentum_buffers` is empty where momentum is 0, else has the parameters' shapes and begins as
/// zeros.
pub fn fused_sgd_<P: Borrow<Tensor>, G: Borrow<Tensor>, M: Borrow<Tensor>>(
    options: &Sgd,
    parameters: &[P],
    gradients: &[G],
    momentum_buffers: &[M],
    found_inf: Option<&Tensor>,
) -> Result<()> {
    same_length("gradients", gradients.len(), parameters.len())?;
    if options.momentum != 0.0 || !momentum_buffers.is_empty() {
        same_length("momentum buffers", momentum_buffers.len(), parameters.len())?;
    }
    let (parameters, gradients) = (pointers(parameters), pointers(gradients));
    let buffers = pointers(momentum_buffers);
    let buffers_or_null: *const *const C_tensor = if buffers.is_empty() {
        ptr::null()
    } else {
        buffers.as_ptr()
    };
    // SAFETY: the lists have the length given or are null, and everything is alive for the call.
    unsafe {
        ffi::fused_sgd(
            parameters.as_ptr(),
            gradients.as_ptr(),
            buffers_or_null,
            parameters.len(),
            options,
            optional(found_inf),
        )
    }
}

/// One step of `AdamW`; nothing where `found_inf` is 1, as [`fused_sgd_`].
///
/// `exp_avgs` and `exp_avg_sqs` have the parameters' shapes and begin as zeros. `steps` are
/// single floats that begin as 0; the function counts them on, except where `found_inf` is 1.
pub fn fused_adamw_<P, G, A, S, N>(
    options: &AdamW,
    parameters: &[P],
    gradients: &[G],
    exp_avgs: &[A],
    exp_avg_sqs: &[S],
    steps: &[N],
    found_inf: Option<&Tensor>,
) -> Result<()>
where
    P: Borrow<Tensor>,
    G: Borrow<Tensor>,
    A: Borrow<Tensor>,
    S: Borrow<Tensor>,
    N: Borrow<Tensor>,
{
    same_length("gradients", gradients.len(), parameters.len())?;
    same_length("first moments", exp_avgs.len(), parameters.len())?;
    same_length("second moments", exp_avg_sqs.len(), parameters.len())?;
    same_length("step counters", steps.len(), parameters.len())?;
    let (parameters, gradients) = (pointers(parameters), pointers(gradients));
    let (exp_avgs, exp_avg_sqs) = (pointers(exp_avgs), pointers(exp_avg_sqs));
    let steps = pointers(steps);
    // SAFETY: the lists have the length given, and everything is alive for the call.
    unsafe {
        ffi::fused_adamw(
            parameters.as_ptr(),
            gradients.as_ptr(),
            exp_avgs.as_ptr(),
            exp_avg_sqs.as_ptr(),
            steps.as_ptr(),
            parameters.len(),
            options,
            optional(found_inf),
        )
    }
}

/// Multiplies the gradients by `inverse_scale` in place, and sets `found_inf` to 1 where any
/// value is infinite or NaN. Both are single floats on the gradients' device; `found_inf` is
/// never set back to 0 here.
pub fn unscale_and_check_<G: Borrow<Tensor>>(
    gradients: &[G],
    found_inf: &Tensor,
    inverse_scale: &Tensor,
) -> Result<()> {
    let gradients = pointers(gradients);
    // SAFETY: everything is alive for the call.
    unsafe {
        ffi::unscale(
            gradients.as_ptr(),
            gradients.len(),
            found_inf.as_ptr(),
            inverse_scale.as_ptr(),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScaleUpdate {
    /// Factor after `growth_interval` finite steps in a row.
    pub growth_factor: f64,
    /// Factor after a step that was not finite.
    pub backoff_factor: f64,
    /// Finite steps in a row before the scale grows.
    pub growth_interval: u32,
}

impl Default for ScaleUpdate {
    /// As `torch.amp.GradScaler`.
    fn default() -> Self {
        Self {
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
        }
    }
}

/// Moves `scale` (a single float) after a step, and counts finite steps in `growth_tracker` (a
/// single 32-bit integer), both in place, without synchronisation with the device.
pub fn update_scale_(
    update: &ScaleUpdate,
    scale: &Tensor,
    growth_tracker: &Tensor,
    found_inf: &Tensor,
) -> Result<()> {
    // SAFETY: everything is alive for the call.
    unsafe {
        ffi::update_scale(
            scale.as_ptr(),
            growth_tracker.as_ptr(),
            found_inf.as_ptr(),
            update.growth_factor,
            update.backoff_factor,
            i64::from(update.growth_interval),
        )
    }
}
