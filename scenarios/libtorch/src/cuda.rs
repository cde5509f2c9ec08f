//! GPUs: facts, context, settings, events, side streams, graphs and copies.
//!
//! All of it answers [`crate::Error::NotBuiltWithCuda`] in a build without the feature `cuda`,
//! except [`built`], [`is_available`] and [`device_count`], which say that there is nothing.

mod copier;
mod event;
mod facts;
mod graph;

use std::ffi::c_char;

pub use copier::{Copied, Copier};
pub use event::Event;
pub use facts::facts;
pub use graph::{Graph, on_side_stream};

use crate::{Error, Result, ffi};

/// Whether this build has the CUDA half at all.
pub fn built() -> bool {
    // SAFETY: no arguments, no state.
    unsafe { ffi::torchgauge_cuda_built() }
}

/// GPUs that libtorch can use; 0 also where there is no driver. Makes no context.
pub fn device_count() -> Result<u32> {
    let mut count = 0;
    // SAFETY: both pointers are valid for the call.
    match unsafe { ffi::cuda_device_count(&raw mut count) } {
        Ok(()) => Ok(u32::try_from(count).unwrap_or_default()),
        Err(Error::NotBuiltWithCuda) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Whether there is a GPU that libtorch can use.
pub fn is_available() -> bool {
    device_count().is_ok_and(|count| count > 0)
}

/// Makes the GPU current for this thread, and its context real.
pub fn start(index: u32) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_start(raw_index(index)) }
}

/// Waits until the current GPU has nothing left to do.
pub fn synchronize() -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_synchronize() }
}

/// Memory of a GPU over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that nobody uses.
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// Memory of the GPU, as the driver says. Makes the GPU's context.
pub fn memory_info(index: u32) -> Result<MemoryInfo> {
    let mut info = MemoryInfo {
        free_bytes: 0,
        total_bytes: 0,
    };
    // SAFETY: the pointers are valid for the call.
    unsafe {
        ffi::cuda_memory_info(
            raw_index(index),
            &raw mut info.free_bytes,
            &raw mut info.total_bytes,
        )?;
    }
    Ok(info)
}

/// Where single-precision work may use the 19-bit tf32 units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tf32 {
    /// Matrix products (cuBLAS). libtorch's default is no.
    pub matmul: bool,
    /// Convolutions (cuDNN). libtorch's default is yes.
    pub cudnn: bool,
}

/// Sets where single-precision work may use tf32.
pub fn set_tf32(tf32: Tf32) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_set_tf32(tf32.matmul, tf32.cudnn) }
}

/// Where single-precision work may use tf32, as libtorch says.
pub fn tf32() -> Result<Tf32> {
    let mut tf32 = Tf32 {
        matmul: false,
        cudnn: false,
    };
    // SAFETY: the pointers are valid for the call.
    unsafe { ffi::cuda_tf32(&raw mut tf32.matmul, &raw mut tf32.cudnn)? };
    Ok(tf32)
}

/// Whether cuDNN tries all its algorithms for a new shape and keeps the fastest.
pub fn set_cudnn_benchmark(on: bool) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_set_cudnn_benchmark(on) }
}

/// Gives cached memory that no tensor uses back to the driver.
pub fn empty_cache() -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_empty_cache() }
}

/// Limits the allocator to a share of the GPU's memory, in 0 to 1.
pub fn set_memory_fraction(index: u32, fraction: f64) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_set_memory_fraction(raw_index(index), fraction) }
}

/// Whether this binary can have the allocator's segments in unified memory.
pub fn can_manage() -> bool {
    // SAFETY: no arguments.
    unsafe { ffi::torchgauge_cuda_can_manage() }
}

/// From now on the allocator's segments are unified memory, so many bytes of it at most.
///
/// # Errors
///
/// Where the driver gives CPU and GPU no access to it at the same time.
pub fn manage(index: u32, bytes: u64) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::cuda_manage(raw_index(index), bytes) }
}

/// What C++ takes an index as; too large a one is refused there like any that is not a GPU's.
pub(crate) fn raw_index(index: u32) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// The C string in a buffer of fixed size.
pub(crate) fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer
        .iter()
        .take_while(|&&byte| byte != 0)
        .map(|byte| byte.to_ne_bytes()[0])
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
