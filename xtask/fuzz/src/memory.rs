//! How much memory a thread takes: an allocator that counts.

#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; every call goes to the system's own unchanged"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use crate::MOST_BYTES;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is refused while counting: far above the limit, far below what a machine has.
const REFUSED_BYTES: usize = 8 * MOST_BYTES;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static NOW: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// Runs something; also the most bytes that this thread held meanwhile, beyond those before.
pub(crate) fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    NOW.set(0);
    PEAK.set(0);
    COUNTING.set(true);
    let done = work();
    COUNTING.set(false);
    (done, PEAK.get())
}

/// Whether this many bytes more may be had.
fn take(bytes: usize) -> bool {
    // A thread that ends has no counters any more.
    COUNTING
        .try_with(|counting| {
            if !counting.get() {
                return true;
            }
            let now = NOW.get().saturating_add(bytes);
            if now > REFUSED_BYTES {
                return false;
            }
            NOW.set(now);
            PEAK.set(PEAK.get().max(now));
            true
        })
        .unwrap_or(true)
}

fn give(bytes: usize) {
    let _ = NOW.try_with(|now| now.set(now.get().saturating_sub(bytes)));
}

// SAFETY: every block comes from the system's allocator and goes back to it with the layout that it
// was asked with; a null pointer is how an allocator says no.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout is the one that is asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the block came from the system's allocator with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size.saturating_sub(layout.size())) {
            return std::ptr::null_mut();
        }
        give(layout.size().saturating_sub(size));
        // SAFETY: as above, and the caller promises that the size is fit for the layout.
        unsafe { System.realloc(block, layout, size) }
    }
}
