//! How many bytes tensors take, now and at most.

pub mod host;

use std::{ffi::CString, os::unix::ffi::OsStrExt as _, path::Path};

use protocol::Shortage;

use crate::{Error, Result, allocator, ffi};

/// Statistics of a GPU's caching allocator. `None` where its backend does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceStats {
    pub allocated_bytes: u64,
    /// Most bytes in tensors since the start or [`reset_peak`].
    pub peak_allocated_bytes: u64,
    pub reserved_bytes: u64,
    /// Most bytes that the allocator held since the start or [`reset_peak`].
    pub peak_reserved_bytes: u64,
    /// Times that a failed allocation was tried again after giving cached memory back.
    pub retries: u64,
    pub out_of_memory: u64,
    /// Allocations asked of the driver.
    pub device_allocations: Option<u64>,
    /// Blocks given back to the driver.
    pub device_frees: Option<u64>,
    /// Bytes that tensors asked for, before rounding up to whole blocks.
    pub requested_bytes: Option<u64>,
    /// Most of them since the start or [`reset_peak`].
    pub peak_requested_bytes: Option<u64>,
    /// Bytes in tensors, and in blocks that wait until a stream is done with them.
    pub active_bytes: Option<u64>,
    /// Most of them since the start or [`reset_peak`].
    pub peak_active_bytes: Option<u64>,
    /// Bytes in split blocks that nothing uses.
    pub inactive_split_bytes: Option<u64>,
    /// Most of them since the start or [`reset_peak`].
    pub peak_inactive_split_bytes: Option<u64>,
    /// Segments taken from the driver.
    pub segments: Option<u64>,
    /// Most of them since the start or [`reset_peak`].
    pub peak_segments: Option<u64>,
}

/// The statistics of the GPU with this index.
///
/// Under `cudaMallocAsync` the driver keeps the pool, so libtorch sees no segments, splits
/// or driver calls, and those fields are `None`.
pub fn device_stats(index: u32) -> Result<DeviceStats> {
    let mut raw = ffi::DeviceStats::default();
    let index = crate::cuda::raw_index(index);
    // SAFETY: both pointers are valid for the call.
    unsafe { ffi::cuda_device_stats(index, &raw mut raw)? };
    // The counters are signed in libtorch and never negative.
    let count = |value: i64| u64::try_from(value).unwrap_or_default();
    let blocks = |value: i64| raw.counts_blocks.then(|| count(value));
    Ok(DeviceStats {
        allocated_bytes: count(raw.allocated_bytes),
        peak_allocated_bytes: count(raw.peak_allocated_bytes),
        reserved_bytes: count(raw.reserved_bytes),
        peak_reserved_bytes: count(raw.peak_reserved_bytes),
        retries: count(raw.retries),
        out_of_memory: count(raw.out_of_memory),
        device_allocations: blocks(raw.device_allocations),
        device_frees: blocks(raw.device_frees),
        requested_bytes: blocks(raw.requested_bytes),
        peak_requested_bytes: blocks(raw.peak_requested_bytes),
        active_bytes: blocks(raw.active_bytes),
        peak_active_bytes: blocks(raw.peak_active_bytes),
        inactive_split_bytes: blocks(raw.inactive_split_bytes),
        peak_inactive_split_bytes: blocks(raw.peak_inactive_split_bytes),
        segments: blocks(raw.segments),
        peak_segments: blocks(raw.peak_segments),
    })
}

/// From now on [`last_shortage`] knows the last allocation that failed on any GPU. To be called
/// once the GPU is ready; without effect under `cudaMallocAsync`, which tells nobody of them.
pub fn watch_shortages(index: u32) -> Result<()> {
    let index = crate::cuda::raw_index(index);
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_watch_shortages(index) }
}

/// The last allocation that failed since [`watch_shortages`], where one did. Trials that go on
/// without it, such as those of cuDNN's algorithms, count too.
pub fn last_shortage() -> Option<Shortage> {
    let mut last = Shortage::default();
    // SAFETY: the pointer is valid for the call.
    let is_known = unsafe { ffi::torchgauge_cuda_last_shortage(&raw mut last) };
    is_known.then_some(last)
}

/// Lets the GPU's peaks start again from what is in use now.
pub fn reset_peak(index: u32) -> Result<()> {
    let index = crate::cuda::raw_index(index);
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_reset_peak(index) }
}

/// The largest block that the GPU's caching allocator holds and that nothing uses; 0 where there is
/// none, `None` where its backend has no blocks.
pub fn largest_free_block_bytes(index: u32) -> Result<Option<u64>> {
    if allocator::effective()?.backend != "native" {
        return Ok(None);
    }
    let (index, mut bytes) = (crate::cuda::raw_index(index), 0);
    // SAFETY: both pointers are valid for the call.
    unsafe { ffi::cuda_largest_free_block(index, &raw mut bytes)? };
    Ok(Some(bytes))
}

/// From now on the last so many allocations of all GPUs, and what freed them, are known.
pub fn record_history(entries: u32) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_record_history(entries.into()) }
}

/// Keeps what is known now for [`write_snapshot`]. Where an allocation fails after
/// [`watch_shortages`] this happens by itself.
pub fn keep_snapshot() -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_keep_snapshot() }
}

/// Writes what was kept last, as `torch.cuda._memory_viz` reads it; nothing where nothing was.
pub fn write_snapshot(path: &Path) -> Result<()> {
    // A path with a zero byte in it opens nothing.
    let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: both pointers are valid for the call.
    match unsafe { ffi::cuda_write_snapshot(path.as_ptr()) } {
        Err(Error::NotBuiltWithCuda) => Ok(()),
        written => written,
    }
}
