//! What happens within one step: modules entered and left, nodes of backward, tensors allocated and
//! freed.

use std::ffi::c_void;

use crate::{Result, error::call, ffi};

/// One thing that happened, and when, in nanoseconds of one clock; on a GPU its stream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// A module was entered; nodes of backward that it makes have this number or a larger one.
    Entered {
        /// As given to [`enter`].
        module: u32,
        /// The number.
        next_node: u64,
        /// When.
        at: u64,
    },
    /// The module that was entered last was left.
    Left {
        /// The number that the next node will have.
        next_node: u64,
        /// When.
        at: u64,
    },
    /// Backward came to the node of this number.
    Node {
        /// The number.
        number: u64,
        /// When.
        at: u64,
    },
    /// As given to [`mark`].
    Marked {
        /// Which.
        mark: u32,
        /// When.
        at: u64,
    },
    /// A tensor was allocated.
    Allocated {
        /// Where.
        address: u64,
        /// Its size, as the allocator's statistics count it.
        bytes: u64,
        /// Bytes in tensors after that.
        total: u64,
    },
    /// A tensor was freed.
    Freed {
        /// Where.
        address: u64,
        /// Its size.
        bytes: u64,
        /// Bytes in tensors after that.
        total: u64,
    },
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
        call(|failure| unsafe {
            ffi::torchgauge_attribution_begin(gpu.is_some(), index, failure);
        })?;
        Ok(Self(()))
    }

    /// Ends it, and gives all that happened, in order. The device has to be idle.
    pub fn end(self) -> Result<Vec<Happened>> {
        let mut all: Vec<Happened> = Vec::new();
        let into = (&raw mut all).cast::<c_void>();
        // SAFETY: `take` gets back the vector that is borrowed here for as long as the call lasts.
        call(|failure| unsafe { ffi::torchgauge_attribution_end(into, Some(take), failure) })?;
        Ok(all)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: the pointers are valid for the call; without a visitor nothing is written to.
        let _ = call(|failure| unsafe {
            ffi::torchgauge_attribution_end(std::ptr::null_mut(), None, failure);
        });
    }
}

/// A module that is being computed, until it is dropped.
#[derive(Debug)]
#[must_use = "the module is left at once"]
pub struct Entered(bool);

/// A module is entered. Costs nothing to speak of while nothing is recorded.
pub fn enter(module: u32) -> Entered {
    Entered(add(ENTERED, module))
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0 {
            add(LEFT, 0);
        }
    }
}

/// Divides what is recorded.
pub fn mark(mark: u32) {
    add(MARKED, mark);
}

const ENTERED: i32 = 0;
const LEFT: i32 = 1;
const NODE: i32 = 2;
const MARKED: i32 = 3;
const ALLOCATED: i32 = 4;

/// Whether it is recorded.
fn add(kind: i32, what: u32) -> bool {
    let mut is_recorded = false;
    // SAFETY: the pointer is valid for the call.
    let added = call(|failure| unsafe {
        is_recorded = ffi::torchgauge_attribution_add(kind, what.into(), failure);
    });
    // What is missing shows where it does not add up.
    is_recorded && added.is_ok()
}

/// Takes one entry over from the shim.
///
/// # Safety
/// `into` is a `Vec<Happened>` that nothing else refers to.
unsafe extern "C" fn take(
    into: *mut c_void,
    kind: i32,
    what: u64,
    amount: u64,
    total: u64,
    at: u64,
) {
    // SAFETY: as the caller guarantees.
    let all = unsafe { &mut *into.cast::<Vec<Happened>>() };
    let small = u32::try_from(what).unwrap_or(u32::MAX);
    let (address, bytes, next_node) = (what, amount, amount);
    all.push(match kind {
        ENTERED => Happened::Entered {
            module: small,
            next_node,
            at,
        },
        LEFT => Happened::Left { next_node, at },
        NODE => Happened::Node { number: what, at },
        MARKED => Happened::Marked { mark: small, at },
        ALLOCATED => Happened::Allocated {
            address,
            bytes,
            total,
        },
        _ => Happened::Freed {
            address,
            bytes,
            total,
        },
    });
}
