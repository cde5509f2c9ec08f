//! A counting allocator for tensors on the CPU.
//!
//! libtorch keeps no statistics there. [`install`] puts an allocator in front of its own that
//! counts the bytes asked for: exact, and the same on every machine. Scratch memory that oneDNN
//! and other libraries take for themselves does not pass through it.

use crate::{Result, ffi};

/// Puts the counting allocator in place, once for the process.
///
/// Tensors made before are not counted, neither now nor when they are freed.
pub fn install() -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::host_memory_install() }
}

pub fn allocated_bytes() -> u64 {
    // SAFETY: no arguments, no state but the shim's own.
    u64::try_from(unsafe { ffi::torchgauge_host_memory_live() }).unwrap_or_default()
}

/// Most bytes in tensors since [`install`] or [`reset_peak`].
pub fn peak_allocated_bytes() -> u64 {
    // SAFETY: no arguments, no state but the shim's own.
    u64::try_from(unsafe { ffi::torchgauge_host_memory_peak() }).unwrap_or_default()
}

/// Lets the peak start again from what is in use now.
pub fn reset_peak() {
    // SAFETY: no arguments, no state but the shim's own.
    unsafe { ffi::torchgauge_host_memory_reset_peak() }
}
