//! What runs in some steps, by libtorch's own profiler.

use std::{ffi::c_void, slice};

use crate::{Result, ffi};

/// One run of a kernel on a GPU, or of an operator or a call on the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiled {
    pub name: String,
    /// The thread that it ran in, on the CPU.
    pub thread: u64,
    /// When it began, in nanoseconds of one clock.
    pub began: u64,
    /// How long it took, in nanoseconds.
    pub took: u64,
    /// Whether a GPU ran it.
    pub is_on_gpu: bool,
}

/// A profiler that runs from its making on, in this thread and those that it starts for backward.
#[derive(Debug)]
#[must_use = "a profiler costs every operation time until it is ended"]
pub struct Profiler(());

impl Profiler {
    /// Begins to follow kernels (`cuda`), or the CPU's operators. There can be one at a time.
    pub fn begin(cuda: bool) -> Result<Self> {
        // SAFETY: the pointer is valid for the call.
        unsafe { ffi::profiler_begin(cuda)? };
        Ok(Self(()))
    }

    /// Ends it, and gives all that ran. The device has to be idle.
    pub fn end(self) -> Result<Vec<Profiled>> {
        let mut all: Vec<Profiled> = Vec::new();
        let into = (&raw mut all).cast::<c_void>();
        // SAFETY: `take` gets back the vector that is borrowed here for as long as the call lasts.
        unsafe { ffi::profiler_end(into, take)? };
        Ok(all)
    }
}

/// Takes one event over from the shim.
///
/// # Safety
/// `into` is a `Vec<Profiled>` that nothing else refers to, and `name` has `length` bytes.
unsafe extern "C" fn take(
    into: *mut c_void,
    name: *const u8,
    length: usize,
    thread: u64,
    began: u64,
    took: u64,
    is_on_gpu: bool,
) {
    // SAFETY: as the caller guarantees.
    let (all, name) = unsafe {
        let name = slice::from_raw_parts(name, length);
        (&mut *into.cast::<Vec<Profiled>>(), name)
    };
    all.push(Profiled {
        name: String::from_utf8_lossy(name).into_owned(),
        thread,
        began,
        took,
        is_on_gpu,
    });
}
