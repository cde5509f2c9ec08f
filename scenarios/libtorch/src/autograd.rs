//! Backward and gradients.

use std::{borrow::Borrow, ptr};

use tch::Tensor;

use crate::{
    Result, ffi,
    tensors::{optional, pointers, take},
};

/// Does the work in inference mode, as `torch.inference_mode()`: its tensors have neither a graph
/// nor version counters.
pub fn inference_mode<T>(work: impl FnOnce() -> T) -> Result<T> {
    let mut guard = ptr::null_mut();
    // SAFETY: the pointers are valid for the call.
    unsafe { ffi::inference_enter(&raw mut guard)? };
    let guard = Inference(guard);
    let done = work();
    drop(guard);
    Ok(done)
}

/// Ends the mode on the thread that began it: the pointer does not leave [`inference_mode`].
struct Inference(*mut ffi::Inference);

impl Drop for Inference {
    fn drop(&mut self) {
        // SAFETY: the guard is ours, and deleted once.
        unsafe { ffi::torchgauge_inference_leave(self.0) }
    }
}

/// Adds the gradients of `loss`, a single value, to the `grad` of every leaf it depends on.
pub fn backward(loss: &Tensor) -> Result<()> {
    backward_from(loss, None)
}

/// As [`backward`], from a tensor whose own gradient is known.
pub fn backward_from(output: &Tensor, gradient: Option<&Tensor>) -> Result<()> {
    let gradient = optional(gradient);
    // SAFETY: the tensors are alive for the call, `failure` is valid.
    unsafe { ffi::backward(output.as_ptr(), gradient) }
}

/// Sets the gradients to none, as Python's `zero_grad(set_to_none=True)`: their memory is
/// given back, and the next backward writes instead of adding.
pub fn zero_grad<T: Borrow<Tensor>>(parameters: &[T]) -> Result<()> {
    let parameters = pointers(parameters);
    // SAFETY: the tensors are alive for the call, `failure` is valid.
    unsafe { ffi::zero_grad(parameters.as_ptr(), parameters.len()) }
}

/// The gradient, sharing its memory; `None` where there is none.
pub fn gradient(tensor: &Tensor) -> Result<Option<Tensor>> {
    let mut raw = ptr::null_mut();
    // SAFETY: the tensor is alive for the call, the other pointers are valid.
    unsafe { ffi::gradient(tensor.as_ptr(), &raw mut raw)? };
    // SAFETY: null, or a new tensor that is ours.
    Ok((!raw.is_null()).then(|| unsafe { take(raw) }))
}
