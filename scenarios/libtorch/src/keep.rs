//! In which form blocks keep what backward needs: shorter, or in the host's memory.
//!
//! What autograd saves between [`block`] and the drop of what it returns goes through hooks, within
//! a [`Keeper::pass`]; of a checkpointed block these are its inputs. Weights stay as they are. What
//! is only moved comes back bit for bit.

use std::{marker::PhantomData, ptr};

use tch::Tensor;

use crate::{Result, error::call, ffi, mover::Mover, tensors::pointers};

/// The form of values that need a gradient. The shim has the same numbers.
#[repr(i32)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// As they are.
    #[default]
    Plain,
    /// Single precision in bfloat16.
    Bf16,
    /// Whole numbers of 8 bits, with a scale for each row: 127 stands for its largest value. A row is
    /// the last dimension, or the last two where that has less than 32 values.
    Int8,
}

/// How the blocks of a model keep tensors.
#[derive(Debug)]
pub struct Keeper(*mut ffi::Keeper);

impl Keeper {
    /// Keeps values in this form, in the host's memory where there is a mover. `weights` are the
    /// model's parameters and buffers, which stay.
    pub fn new(mover: Option<&Mover>, form: Form, weights: &[&Tensor]) -> Result<Self> {
        let (weights, mut raw) = (pointers(weights), ptr::null_mut());
        let mover = mover.map_or(ptr::null(), Mover::raw);
        let (list, n) = (weights.as_ptr(), weights.len());
        // SAFETY: the list has the length given, and everything is alive for the call.
        unsafe { ffi::keep_new(mover, form as i32, list, n, &raw mut raw)? };
        Ok(Self(raw))
    }

    /// This thread's next blocks are those of one forward, until what is returned is dropped.
    pub fn pass(&self) -> Result<Pass<'_>> {
        // SAFETY: `self.0` is alive.
        unsafe { ffi::keep_begin(self.0)? };
        Ok(Pass(PhantomData))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: `self.0` came from `new` and is given back once; graphs keep what they need of it.
        let _ = unsafe { ffi::keep_free(self.0) };
    }
}

/// One forward.
#[derive(Debug)]
#[must_use = "the pass ends at once"]
pub struct Pass<'a>(PhantomData<(&'a Keeper, *const ())>);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // SAFETY: it takes nothing.
        unsafe { ffi::torchgauge_keep_end() }
    }
}

/// A block that goes forward, until it is dropped.
#[derive(Debug)]
#[must_use = "the block is left at once"]
pub struct Block {
    is_hooked: bool,
    _of_this_thread: PhantomData<*const ()>,
}

/// A block goes forward; `is_last` where backward begins with it, so that moving pays nothing. Does
/// nothing outside of a pass.
pub fn block(is_last: bool) -> Result<Block> {
    let mut is_hooked = false;
    // SAFETY: the pointer is valid for the call.
    call(|failure| unsafe { is_hooked = ffi::torchgauge_keep_enter(is_last, failure) })?;
    Ok(Block {
        is_hooked,
        _of_this_thread: PhantomData,
    })
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_hooked {
            // SAFETY: this thread entered it, and blocks are left in the order of their scopes.
            unsafe { ffi::torchgauge_keep_leave() }
        }
    }
}
