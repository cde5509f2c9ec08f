//! Copies to a GPU that leave its computing alone.

use std::ptr;

use tch::Tensor;

use super::Event;
use crate::{Result, ffi, tensors::take};

/// A stream of its own, on which tensors go to the GPU that was current when this was made.
#[derive(Debug)]
pub struct Copier {
    raw: *mut ffi::Copier,
}

// SAFETY: a stream belongs to a GPU, not to a thread.
unsafe impl Send for Copier {}

/// A tensor on its way to a GPU.
#[derive(Debug)]
pub struct Copied {
    pub tensor: Tensor,
    /// When it set out from pinned memory.
    pub began: Event,
    /// When it was there.
    pub ended: Event,
}

impl Copier {
    pub fn new() -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: both pointers are valid for the call.
        unsafe { ffi::cuda_copier_new(&raw mut raw)? };
        Ok(Self { raw })
    }

    /// Copies a tensor of the host to pinned memory, then queues its copy to the GPU.
    pub fn copy(&self, tensor: &Tensor) -> Result<Copied> {
        let (began, ended) = (Event::new()?, Event::new()?);
        let mut there = ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and nobody else has the events.
        unsafe {
            ffi::cuda_copier_copy(
                self.raw,
                tensor.as_ptr(),
                began.raw,
                ended.raw,
                &raw mut there,
            )?;
        }
        Ok(Copied {
            // SAFETY: the call succeeded, so it is a tensor made for us.
            tensor: unsafe { take(there) },
            began,
            ended,
        })
    }
}

impl Copied {
    /// Has the current stream wait until the tensor is there, and keeps the tensor's memory until
    /// what is queued on that stream when it is dropped is done. Returns at once.
    pub fn receive(&self) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { ffi::cuda_receive(self.tensor.as_ptr(), self.ended.raw) }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `new` and is given back once.
        unsafe { ffi::torchgauge_cuda_copier_free(self.raw) }
    }
}
