//! Copies between a device and pinned host memory, on a stream of their own: gradients that go over
//! as backward makes them, and parameters that come back.

use std::ptr;

use tch::Tensor;

use crate::{
    Error, Result, ffi,
    tensors::{pointers, take},
};

/// Where copies come from and go to, with the host memory that is pinned for them.
///
/// Made for the CPU, as tests do, it copies from the memory that libtorch counts to memory that it
/// does not.
#[derive(Debug)]
pub struct Mover(*mut ffi::Mover);

// SAFETY: the shim locks what several threads write to.
unsafe impl Send for Mover {}

impl Mover {
    /// Copies of the GPU of this index, or of the CPU. It pins at most `limit` bytes, beyond which
    /// it answers [`Error::HostOutOfMemory`], and activations of less than `least` bytes stay where
    /// they are.
    pub fn new(gpu: Option<u32>, limit: u64, least: u64) -> Result<Self> {
        let (gpu, mut raw) = (gpu.map_or(-1, crate::cuda::raw_index), ptr::null_mut());
        // SAFETY: the pointers are valid for the call.
        unsafe { ffi::mover_new(gpu, limit, least, &raw mut raw)? };
        Ok(Self(raw))
    }

    pub(crate) fn raw(&self) -> *const ffi::Mover {
        self.0
    }

    /// Bytes that were copied so far, both ways together, and bytes of host memory that are pinned.
    pub fn counts(&self) -> (u64, u64) {
        let (mut moved, mut pinned) = (0, 0);
        // SAFETY: `self.0` is alive, and the pointers are valid for the call.
        unsafe { ffi::torchgauge_mover_counts(self.0, &raw mut moved, &raw mut pinned) };
        (moved, pinned)
    }

    /// A tensor in pinned host memory of the same shape, strides, type and values.
    pub fn host_like(&self, tensor: &Tensor) -> Result<Tensor> {
        let mut host = ptr::null_mut();
        // SAFETY: everything is alive for the call.
        unsafe { ffi::mover_host_like(self.0, tensor.as_ptr(), &raw mut host)? };
        // SAFETY: the shim succeeded, so `host` is a new tensor that is ours.
        Ok(unsafe { take(host) })
    }

    /// From now on, while [`Self::send`] is on, backward hands each parameter's gradient over to its
    /// tensor in `hosts` and drops it. For the life of the parameters.
    pub fn watch(&self, parameters: &[Tensor], hosts: &[Tensor]) -> Result<()> {
        self.with_pairs(parameters, hosts, ffi::mover_watch)
    }

    /// Whether gradients go over as they are made, or gather on the device.
    pub fn send(&self, on: bool) {
        // SAFETY: `self.0` is alive.
        unsafe { ffi::torchgauge_mover_send(self.0, on) }
    }

    /// Waits for what was sent; for each of so many parameters, whether it was.
    pub fn finish(&self, parameters: usize) -> Result<Vec<bool>> {
        let mut sent = vec![false; parameters];
        // SAFETY: `sent` has room for as many as are asked for.
        unsafe { ffi::mover_finish(self.0, sent.as_mut_ptr(), parameters)? };
        Ok(sent)
    }

    /// Copies `hosts` to `parameters`. Returns at once; what the device does next waits for it.
    pub fn bring_back(&self, parameters: &[Tensor], hosts: &[Tensor]) -> Result<()> {
        self.with_pairs(parameters, hosts, ffi::mover_return)
    }

    fn with_pairs(
        &self,
        parameters: &[Tensor],
        hosts: &[Tensor],
        function: ffi::MoverPairs,
    ) -> Result<()> {
        if parameters.len() != hosts.len() {
            let (got, parameters) = (hosts.len(), parameters.len());
            let message = format!("expected {parameters} tensors on the host, got {got}");
            return Err(Error::Libtorch { message });
        }
        let (parameters, hosts) = (pointers(parameters), pointers(hosts));
        // SAFETY: both lists have the length given, and everything is alive for the call.
        unsafe { function(self.0, parameters.as_ptr(), hosts.as_ptr(), hosts.len()) }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        // SAFETY: `self.0` came from `new` and is given back once. What is still under way keeps
        // what it needs.
        let _ = unsafe { ffi::mover_free(self.0) };
    }
}
