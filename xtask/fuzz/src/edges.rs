//! How much code the inputs reached: the compiler sets a flag for every edge that is taken, where
//! `rustc-with-edges` compiled it. `docs/fuzzing.md` says how such a binary is built.

#![expect(
    unsafe_code,
    reason = "the compiler hands over the flags as two pointers, through a symbol with its name"
)]

use std::sync::{Mutex, PoisonError};

/// The ranges that hold the flags, each once, as addresses.
static RANGES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Called before `main`, once for each object file, mostly with the same range: the linker puts all
/// flags beside each other.
// SAFETY: the name is the compiler's own for this call, and nothing else in the program has it.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_bool_flag_init(start: *mut u8, end: *mut u8) {
    let range = (start.addr(), end.addr());
    let mut ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
    if range.0 < range.1 && !ranges.contains(&range) {
        start.expose_provenance();
        ranges.push(range);
    }
}

/// How many edges were taken since the start, and how many there are; `None` where the binary was
/// compiled without flags.
pub(crate) fn reached() -> Option<(usize, usize)> {
    let ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut taken, mut all) = (0, 0);
    for &(start, end) in ranges.iter() {
        for address in start..end {
            let flag: *const u8 = std::ptr::with_exposed_provenance(address);
            // SAFETY: the range is a static of this program, one byte a flag. Other threads may set
            // flags meanwhile; a byte is read whole, before or after.
            taken += usize::from(unsafe { flag.read_volatile() } != 0);
        }
        all += end - start;
    }
    (all > 0).then_some((taken, all))
}
