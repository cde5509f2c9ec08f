//! Automatic mixed precision: operations that gain from it run in a shorter type.

use std::{marker::PhantomData, ptr};

use crate::{Result, ffi};

/// The shorter type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE half precision: 10 bits of fraction, small range; wants loss scaling.
    Half,
    /// bfloat16: 7 bits of fraction, the range of single precision.
    BFloat16,
}

impl Dtype {
    /// libtorch's number of the type: `c10/core/ScalarType.h`.
    fn number(self) -> i32 {
        match self {
            Self::Half => 5,
            Self::BFloat16 => 15,
        }
    }

    fn from_number(number: i32) -> Option<Self> {
        [Self::Half, Self::BFloat16]
            .into_iter()
            .find(|dtype| dtype.number() == number)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceType {
    Cpu,
    /// Every GPU.
    Cuda,
}

/// Autocast as it stands on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The shorter type; `None` where autocast is off.
    pub dtype: Option<Dtype>,
    /// Whether shortened weights are kept until the outermost scope ends.
    pub cache_enabled: bool,
}

/// Autocast on this thread, for this kind of device.
pub fn state(device: DeviceType) -> Result<State> {
    let (mut number, mut cache_enabled) = (-1, false);
    // SAFETY: the pointers are valid for the call.
    unsafe {
        ffi::autocast_read(
            device == DeviceType::Cuda,
            &raw mut number,
            &raw mut cache_enabled,
        )?;
    }
    Ok(State {
        dtype: Dtype::from_number(number),
        cache_enabled,
    })
}

/// Autocast within a scope. Dropping it restores what was before, and forgets the shortened
/// weights where it is the thread's outermost one.
///
/// Scopes of a thread end in the opposite order of their beginning; [`with`] sees to it.
#[derive(Debug)]
#[must_use = "autocast ends when this is dropped"]
pub struct Scope {
    raw: *mut ffi::AutocastScope,
    /// The state is the thread's own: the scope must end where it began.
    not_send: PhantomData<*mut ()>,
}

impl Scope {
    /// Begins a scope with this shorter type; `None` switches autocast off within.
    ///
    /// With the cache, a weight is shortened once and kept until the outermost scope ends: one
    /// cast instead of one for each use, for half the weights' memory.
    pub fn enter(device: DeviceType, dtype: Option<Dtype>, cache_enabled: bool) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: both pointers are valid for the call.
        unsafe {
            ffi::autocast_enter(
                device == DeviceType::Cuda,
                dtype.map_or(-1, Dtype::number),
                cache_enabled,
                &raw mut raw,
            )?;
        }
        Ok(Self {
            raw,
            not_send: PhantomData,
        })
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `enter` on this thread and is given back once.
        // Restoring a state that was there before does not fail.
        let _ = unsafe { ffi::autocast_leave(self.raw) };
    }
}

/// Runs `body` with autocast to `dtype` (`None`: switched off), and restores what was before,
/// also where `body` panics. See [`Scope::enter`] for `cache_enabled`.
pub fn with<T>(
    device: DeviceType,
    dtype: Option<Dtype>,
    cache_enabled: bool,
    body: impl FnOnce() -> T,
) -> Result<T> {
    let _scope = Scope::enter(device, dtype, cache_enabled)?;
    Ok(body())
}
