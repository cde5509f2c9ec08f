//! Tensors on their way over the border.

use std::{borrow::Borrow, ptr};

use tch::Tensor;
use torch_sys::C_tensor;

/// The addresses that a list of tensors has in C++.
pub(crate) fn pointers<T: Borrow<Tensor>>(tensors: &[T]) -> Vec<*const C_tensor> {
    tensors
        .iter()
        .map(|tensor| tensor.borrow().as_ptr())
        .collect()
}

/// The address, or null for no tensor.
pub(crate) fn optional(tensor: Option<&Tensor>) -> *const C_tensor {
    tensor.map_or(ptr::null(), Tensor::as_ptr)
}

/// Takes over a tensor that C++ made.
///
/// # Safety
/// `raw` is not null, was made with `new at::Tensor`, and nobody else will free it.
pub(crate) unsafe fn take(raw: *mut C_tensor) -> Tensor {
    // SAFETY: as this function's.
    unsafe { Tensor::from_ptr(raw) }
}
