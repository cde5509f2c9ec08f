//! Settings of the whole process.

use std::ffi::CStr;

use crate::{Error, Result, ffi};

/// libtorch's version, such as `2.11.0`: of the headers that the shim was compiled with.
pub fn version() -> &'static str {
    // SAFETY: the shim returns a string literal.
    let version = unsafe { CStr::from_ptr(ffi::torchgauge_version()) };
    version.to_str().unwrap_or("unknown")
}

/// Sets the threads that one operation on the CPU may use.
pub fn set_threads(threads: u32) -> Result<()> {
    let threads = i32::try_from(threads)
        .ok()
        .filter(|&threads| threads > 0)
        .ok_or_else(|| Error::Libtorch {
            message: format!("expected at least one thread and less than 2^31, got {threads}"),
        })?;
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::set_threads(threads) }
}

/// Seeds the random generators of the CPU and of every GPU.
pub fn seed(seed: u64) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::seed(seed) }
}

/// Whether libtorch must take deterministic algorithms only, and refuse operations that
/// have none.
///
/// On a GPU cuBLAS also wants `CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment.
pub fn set_deterministic(on: bool) -> Result<()> {
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::set_deterministic(on) }
}

/// Which kernels `scaled_dot_product_attention` may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each kind, each on or off"
)]
pub struct AttentionKernels {
    /// Those of `FlashAttention`.
    pub flash: bool,
    pub efficient: bool,
    /// cuDNN's.
    pub cudnn: bool,
    /// Matrix products and a softmax.
    pub math: bool,
}

/// Attention is computed by these kernels alone from now on.
pub fn set_attention(kernels: AttentionKernels) -> Result<()> {
    let AttentionKernels {
        flash,
        efficient,
        cudnn,
        math,
    } = kernels;
    // SAFETY: the pointer is valid for the call.
    unsafe { ffi::set_attention(flash, efficient, cudnn, math) }
}

/// Ends the process without the exit handlers of libtorch and CUDA: they give back what the
/// kernel takes back anyway, which takes a while, and may hang where a GPU is lost.
///
/// Nothing that is buffered in the process is written any more.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: it takes nothing and does not return.
    unsafe { ffi::torchgauge_exit_now(code.into()) }
}
