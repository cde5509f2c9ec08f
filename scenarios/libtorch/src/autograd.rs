//! Backward and gradients.

use std::{borrow::Borrow, ptr};

use tch::Tensor;

use crate::{
    Result,
    error::call,
    ffi,
    tensors::{optional, pointers, take},
};

/// Adds the gradients of `loss`, a single value, to the `grad` of every leaf it depends on.
pub fn backward(loss: &Tensor) -> Result<()> {
    run(loss, None, false)
}

/// As [`backward`], for a tensor of any shape, from the gradient of something later with
/// respect to it; of the same shape.
pub fn backward_with(output: &Tensor, gradient: &Tensor) -> Result<()> {
    run(output, Some(gradient), false)
}

/// As [`backward`], and keeps the graph for another time.
pub fn backward_retaining(loss: &Tensor) -> Result<()> {
    run(loss, None, true)
}

fn run(root: &Tensor, gradient: Option<&Tensor>, retain_graph: bool) -> Result<()> {
    // SAFETY: the tensors are alive for the call, `failure` is valid.
    call(|failure| unsafe {
        ffi::torchgauge_backward(root.as_ptr(), optional(gradient), retain_graph, failure);
    })
}

/// Sets the gradients to none, as Python's `zero_grad(set_to_none=True)`: their memory is
/// given back, and the next backward writes instead of adding.
pub fn zero_grad<T: Borrow<Tensor>>(parameters: &[T]) -> Result<()> {
    let parameters = pointers(parameters);
    // SAFETY: the tensors are alive for the call, `failure` is valid.
    call(|failure| unsafe {
        ffi::torchgauge_zero_grad(parameters.as_ptr(), parameters.len(), failure);
    })
}

/// The gradient, sharing its memory; `None` where there is none.
pub fn gradient(tensor: &Tensor) -> Result<Option<Tensor>> {
    let mut raw = ptr::null_mut();
    // SAFETY: the tensor is alive for the call, the other pointers are valid.
    call(|failure| unsafe { ffi::torchgauge_gradient(tensor.as_ptr(), &raw mut raw, failure) })?;
    // SAFETY: null, or a new tensor that is ours.
    Ok((!raw.is_null()).then(|| unsafe { take(raw) }))
}

/// Whether a backward has given the tensor a gradient.
pub fn grad_defined(tensor: &Tensor) -> Result<bool> {
    gradient(tensor).map(|gradient| gradient.is_some())
}
