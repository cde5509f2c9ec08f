//! Times on the GPU itself.

use std::{ptr, time::Duration};

use crate::{Result, ffi};

/// A mark in the current stream of a GPU: the time at which the work before it was done.
#[derive(Debug)]
pub struct Event {
    pub(super) raw: *mut ffi::CudaEvent,
}

// SAFETY: an event belongs to a GPU, not to a thread. It is not `Sync`: recording changes it.
unsafe impl Send for Event {}

impl Event {
    /// An event that marks nothing yet.
    pub fn new() -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: both pointers are valid for the call.
        unsafe { ffi::cuda_event_new(&raw mut raw)? };
        Ok(Self { raw })
    }

    /// A new event that marks the end of all work so far, as [`Self::record`] does.
    pub fn marked() -> Result<Self> {
        let mut event = Self::new()?;
        event.record()?;
        Ok(event)
    }

    /// Marks the end of all work queued so far on the current stream of the current GPU.
    /// Returns at once.
    pub fn record(&mut self) -> Result<()> {
        // SAFETY: `raw` is alive, and `&mut` keeps others away.
        unsafe { ffi::cuda_event_record(self.raw) }
    }

    /// Time on the GPU between two marks; waits for both. The resolution is about half a
    /// microsecond (CUDA runtime reference, `cudaEventElapsedTime`).
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive, the other pointers valid for the call.
        unsafe { ffi::cuda_event_elapsed(earlier.raw, self.raw, &raw mut milliseconds)? };
        Ok(Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `new` and is given back once. Destroying an event cannot
        // fail in a way that anybody could act upon.
        let _ = unsafe { ffi::cuda_event_free(self.raw) };
    }
}
