//! Activation checkpointing: memory for time.
//!
//! What a body computes in between is not kept for backward but computed again there, so only
//! the body's inputs stay. The second computation sees the random state (dropout masks are the
//! same) and the autocast state of the first. Within it a checkpoint may hold others.
//!
//! This is Python's `torch.utils.checkpoint(…, use_reentrant=False)`: the graph is the plain one,
//! but what its nodes would save is computed when backward asks for it, up to the last tensor
//! that anything asks for. That end is an error that passes through the body, so a body uses
//! operations that return errors (`f_matmul`, not `matmul`): with others it ends in a panic, which
//! is caught, but prints its message and poisons locks.
//!
//! In older versions of libtorch, as in Python there, autocast's weight cache keeps the copies
//! of the first computation, which carry no gradient (`pytorch/pytorch`, pull request 165068;
//! 2.11 is mended). With such a version, a parameter used both inside a body and outside of any
//! within one autocast scope learns from the inside only, unless the cache is off.

use std::{ffi::c_void, ptr, slice};

use tch::Tensor;
use torch_sys::C_tensor;

use crate::{
    Result, catch,
    error::pass_on,
    ffi,
    tensors::{pointers, take},
};

type Body = Box<dyn Fn(&[Tensor]) -> Result<Tensor> + Send>;

/// Runs `body` on `input`, keeping nothing but `input` for backward.
///
/// On a GPU, backward calls the body from another thread: hence `Send`. To share a block's
/// parameters with the model, capture an `Arc<Mutex<Block>>`, or shallow clones.
///
/// A body must not change its inputs in place: the second computation would start from what the first
/// left, and change it again.
///
/// A panic in the body, in forward or in backward, becomes an [`Error`]: here, or in the
/// function that runs backward.
pub fn run(
    input: &Tensor,
    body: impl Fn(&Tensor) -> Result<Tensor> + Send + 'static,
) -> Result<Tensor> {
    run_many(&[input], move |inputs| body(&inputs[0]))
}

/// As [`run`], for a body with several inputs. Inputs that need no gradient, such
/// as a mask, may also be captured.
pub fn run_many(
    inputs: &[&Tensor],
    body: impl Fn(&[Tensor]) -> Result<Tensor> + Send + 'static,
) -> Result<Tensor> {
    let inputs = pointers(inputs);
    let body: Box<Body> = Box::new(Box::new(body));
    let mut output = ptr::null_mut();
    // SAFETY: the inputs are alive for the call. `body` passes to the shim, which calls it
    // through `call_body` from one thread at a time and gives it back once through `drop_body`.
    unsafe {
        ffi::checkpoint(
            inputs.as_ptr(),
            inputs.len(),
            Box::into_raw(body).cast(),
            call_body,
            drop_body,
            &raw mut output,
        )?;
    }
    // SAFETY: the shim succeeded, so `output` is a new tensor that is ours.
    Ok(unsafe { take(output) })
}

/// # Safety
/// As the shim calls it: `body` came from [`run_many`] and lives, `inputs` holds `n` tensors,
/// `output` and `failure` may be written.
unsafe extern "C" fn call_body(
    body: *mut c_void,
    inputs: *const *mut C_tensor,
    n: usize,
    output: *mut *mut C_tensor,
    failure: *mut ffi::Failure,
) {
    // Whatever unwinds must stop here: C++ frames are above.
    let result = catch(|| {
        // SAFETY: by this function's contract.
        let (body, inputs) = unsafe { (&*body.cast::<Body>(), slice::from_raw_parts(inputs, n)) };
        let inputs: Vec<Tensor> = inputs
            .iter()
            // SAFETY: each points to a tensor that lives for the call; the clone is our own
            // handle on it.
            .map(|&input| unsafe { Tensor::clone_from_ptr(input) })
            .collect();
        body(&inputs)
    })
    .flatten();
    match result {
        Ok(tensor) => {
            let mut tensor = std::mem::ManuallyDrop::new(tensor);
            // SAFETY: `output` may be written; the shim takes the tensor over.
            unsafe { *output = tensor.as_mut_ptr() };
        }
        Err(error) => {
            // SAFETY: `failure` may be written.
            unsafe { pass_on(error, failure) };
        }
    }
}

/// # Safety
/// As the shim calls it: once, with a `body` that came from [`run_many`].
unsafe extern "C" fn drop_body(body: *mut c_void) {
    // SAFETY: by this function's contract. A panic while dropping must not unwind into C++.
    let _ = catch(|| drop(unsafe { Box::from_raw(body.cast::<Body>()) }));
}
