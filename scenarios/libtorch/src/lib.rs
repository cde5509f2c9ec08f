//! A C++ shim over libtorch and its safe Rust face, for what tch lacks.
//!
//! | module | what it adds |
//! |---|---|
//! | [`allocator`] | what the CUDA allocator says about its own settings |
//! | [`attribution`] | what each module of a step allocates and how long it takes |
//! | [`autocast`] | mixed precision with a chosen type, on the CPU and on a GPU |
//! | [`autograd`] | backward, gradients set to none |
//! | [`checkpoint`] | activations computed again in backward instead of kept |
//! | [`cuda`] | facts, context, settings, events, side streams, graphs, copies |
//! | [`distributed`] | process groups, collectives, the averaging of gradients |
//! | [`fp8`] | linear layers whose products are in FP8 |
//! | [`keep`] | activations that blocks keep in a shorter form, or in the host's memory |
//! | [`memory`] | peaks of a GPU's allocator, and a counting allocator for the CPU |
//! | [`mover`] | copies between a device and pinned host memory |
//! | [`profiler`] | the kernels and operators that ran |
//! | [`optim`] | fused SGD and `AdamW` steps, and the parts of a loss scaler |
//!
//! Tensors are [`tch::Tensor`] throughout. Nothing here panics on what libtorch throws:
//! every C++ exception ends at the border and becomes an [`Error`]. tch itself panics in
//! the functions whose names do not begin with `f_`; [`catch`] turns those panics into
//! the same [`Error`].
//!
//! # Linking
//!
//! `LIBTORCH` names a folder with `include/` and `lib/`, as for torch-sys. The feature
//! `cuda` builds against the CUDA half; without it every CUDA function answers
//! [`Error::NotBuiltWithCuda`].
//!
//! torch-sys asks the linker for `libtorch.so`, which holds nothing of its own and needs
//! the CUDA half. In a CPU-only folder a linker script of that name stands in for it:
//!
//! ```text
//! INPUT ( libtorch_cpu.so libc10.so )
//! ```
//!
//! Only the linker reads it; nothing looks for `libtorch.so` at run time.
//!
//! Link arguments of a library's build script do not reach the binary. A package that
//! makes one with the feature `cuda` says in its own `build.rs` what this crate found:
//!
//! ```ignore
//! if std::env::var("DEP_TORCHGAUGE_LIBTORCH_CUDA").is_ok_and(|cuda| cuda == "true") {
//!     // Nothing refers to libtorch_cuda.so by name; it registers itself when loaded.
//!     for argument in std::env::var("DEP_TORCHGAUGE_LIBTORCH_LINK_ARGUMENTS").unwrap().split(' ') {
//!         println!("cargo::rustc-link-arg={argument}");
//!     }
//! }
//! ```

#![expect(
    unsafe_code,
    reason = "this crate is the border to C++; every unsafe block says why it is sound"
)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod allocator;
pub mod attribution;
pub mod autocast;
pub mod autograd;
pub mod checkpoint;
mod context;
pub mod cuda;
pub mod distributed;
mod error;
mod ffi;
pub mod fp8;
pub mod keep;
pub mod memory;
pub mod mover;
pub mod optim;
pub mod profiler;
mod tensors;

pub use context::{
    AttentionKernels, exit_now, seed, set_attention, set_deterministic, set_threads, version,
};
pub use error::{Error, Result, catch};
