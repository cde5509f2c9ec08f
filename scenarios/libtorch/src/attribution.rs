//! What happens within one step: modules entered and left, nodes of backward, tensors allocated and
//! freed.

use std::{ffi::c_void, slice};

use crate::{Result, error::call, ffi};

/// What happened. The shim has the same numbers.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The module `what` was entered; the next node of the graph has the number `amount`.
    Entered,
    /// The module that was entered last was left; the next node has the number `amount`.
    Left,
    /// Backward came to the node of the number `what`.
    Node,
    /// [`mark`] was called with `what`.
    Marked,
    /// A tensor of `amount` bytes was allocated at the address `what`.
    Allocated,
    /// It was freed.
    Freed,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// Which says what the numbers are.
    pub kind: Kind,
    /// A module, a node, a mark or an address.
    pub what: u64,
    /// Bytes, as the allocator's statistics count them, or the number of a node.
    pub amount: u64,
    /// Bytes in tensors after it, where it is about memory.
    pub total: u64,
    /// When, in nanoseconds of one clock, on a GPU its stream's; 0 where it is about memory.
    pub at: u64,
}

/// A recording of the process's only step; there can be one at a time.
#[derive(Debug)]
#[must_use = "a recording costs every operation time until it is ended"]
pub struct Recording(());

impl Recording {
    /// Begins, in this thread and those that it starts for backward; on the GPU of this index, or on
    /// the CPU, whose counting allocator has to be in place.
    pub fn begin(gpu: Option<u32>) -> Result<Self> {
        let index = crate::cuda::raw_index(gpu.unwrap_or_default());
        // SAFETY: the pointer is valid for the call.
        unsafe { ffi::attribution_begin(gpu.is_some(), index)? };
        Ok(Self(()))
    }

    /// Ends it, and gives all that happened, in order. The device has to be idle.
    pub fn end(self) -> Result<Vec<Happened>> {
        let mut all: Vec<Happened> = Vec::new();
        let into = (&raw mut all).cast::<c_void>();
        // SAFETY: `take` gets back the vector that is borrowed here for as long as the call lasts.
        unsafe { ffi::attribution_end(into, Some(take))? };
        Ok(all)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: the pointers are valid for the call; without a visitor nothing is written to.
        let _ = unsafe { ffi::attribution_end(std::ptr::null_mut(), None) };
    }
}

/// A module that is being computed, until it is dropped.
#[derive(Debug)]
#[must_use = "the module is left at once"]
pub struct Entered(bool);

/// A module is entered. Costs nothing to speak of while nothing is recorded.
pub fn enter(module: u32) -> Entered {
    Entered(add(Kind::Entered, module))
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0 {
            add(Kind::Left, 0);
        }
    }
}

/// Divides what is recorded.
pub fn mark(mark: u32) {
    add(Kind::Marked, mark);
}

fn add(kind: Kind, what: u32) -> bool {
    let mut is_recorded = false;
    // SAFETY: the pointer is valid for the call.
    let added = call(|failure| unsafe {
        is_recorded = ffi::torchgauge_attribution_add(kind as i32, what.into(), failure);
    });
    // What is missing shows where it does not add up.
    is_recorded && added.is_ok()
}

/// Takes what happened over from the shim.
///
/// # Safety
/// `into` is a `Vec<Happened>` that nothing else refers to, and `all` has `n` entries.
unsafe extern "C" fn take(into: *mut c_void, all: *const Happened, n: usize) {
    if n > 0 {
        // SAFETY: as the caller guarantees.
        unsafe { (*into.cast::<Vec<Happened>>()).extend_from_slice(slice::from_raw_parts(all, n)) };
    }
}
