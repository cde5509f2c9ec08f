//! What libtorch throws, as a type.

use std::{
    any::Any,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use crate::ffi;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device's memory ran out; on the CPU the host's.
    #[error("out of memory: {message}")]
    OutOfMemory {
        /// libtorch's words, without its stack trace.
        message: String,
    },
    /// No host memory is left to pin for what is offloaded.
    #[error("{message}")]
    HostOutOfMemory {
        /// How much was asked for, and how much is pinned.
        message: String,
    },
    /// libtorch threw something else.
    #[error("libtorch: {message}")]
    Libtorch {
        /// libtorch's words, without its stack trace.
        message: String,
    },
    /// Ranks could not exchange something.
    #[error(
        "the exchange between ranks failed: {message}; a rank that ended or hangs fails all \
         others, so check each rank's own error first; else check that the GPUs see each other \
         (`nvidia-smi topo -m`), that /dev/shm has room (`limits.shm`), and NCCL's log with \
         NCCL_DEBUG=INFO"
    )]
    Exchange {
        /// libtorch's words, without its stack trace.
        message: String,
    },
    /// A Rust body that libtorch called panicked with something that is no error of libtorch.
    #[error("the body panicked: {message}")]
    Panic { message: String },
    /// A CUDA function in a build without CUDA.
    #[error("this build has no CUDA; build with `--features cuda` against a CUDA libtorch")]
    NotBuiltWithCuda,
}

/// What every fallible function here returns.
pub type Result<T> = std::result::Result<T, Error>;

/// How libtorch, the CUDA runtime, cuBLAS and cuDNN say that memory ran out, where
/// they do not throw libtorch's own type for it.
const OUT_OF_MEMORY: [&str; 6] = [
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    // c10/core/impl/alloc_cpu.cpp
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
];

/// What stands in the words of c10d, Gloo and NCCL alone: the last two throw no type of their own.
const OF_EXCHANGE: [&str; 5] = ["/gloo/", "/c10d/", "NCCL", "TCPStore", "process group"];
/// How `shim/mover.cpp` says that no more can be pinned.
const HOST_OUT_OF_MEMORY: &str = "pinned host memory ran out";

impl Error {
    /// An error of libtorch from its message, which may carry a C++ stack trace.
    pub fn from_message(message: &str) -> Self {
        // c10::Error::what() puts the trace behind this line.
        let message = message
            .split("\nException raised from ")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned();
        if message.contains(HOST_OUT_OF_MEMORY) {
            Self::HostOutOfMemory { message }
        } else if OUT_OF_MEMORY.iter().any(|words| message.contains(words)) {
            Self::OutOfMemory { message }
        } else if OF_EXCHANGE.iter().any(|words| message.contains(words)) {
            Self::Exchange { message }
        } else {
            Self::Libtorch { message }
        }
    }

    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }

    /// What a caught panic says: an error of libtorch where tch unwrapped one.
    fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a message");
        match unwrapped_torch_message(message) {
            Some(words) => Self::from_message(&words),
            None => Self::Panic {
                message: message.to_owned(),
            },
        }
    }
}

impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        match error {
            tch::TchError::Torch(message) => Self::from_message(&message),
            other => Self::Libtorch {
                message: other.to_string(),
            },
        }
    }
}

/// Runs `body`; a panic becomes an [`Error`].
///
/// For code in tch's panicking style, so that `a.matmul(&b)` may stand where
/// `a.f_matmul(&b)?` would drown the mathematics.
pub fn catch<T>(body: impl FnOnce() -> T) -> Result<T> {
    // What a panic leaves half-done are tensors, which stay valid, and whatever the
    // caller captured, which the caller drops on an error.
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| Error::from_panic(payload.as_ref()))
}

/// The string in `called … on an `Err` value: Torch("…")`, unescaped; tch's way to panic.
fn unwrapped_torch_message(panic: &str) -> Option<String> {
    let start = panic.find("Torch(\"")? + "Torch(\"".len();
    let mut words = String::new();
    let mut characters = panic[start..].chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some(words),
            '\\' => match characters.next()? {
                'n' => words.push('\n'),
                't' => words.push('\t'),
                'r' => words.push('\r'),
                'u' => {
                    let code: String = characters
                        .by_ref()
                        .skip(1)
                        .take_while(|&digit| digit != '}')
                        .collect();
                    words.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                }
                other => words.push(other),
            },
            other => words.push(other),
        }
    }
    None
}

/// Calls across the border: `body` gets the out-parameter for the error.
pub(crate) fn call(body: impl FnOnce(*mut ffi::Failure)) -> Result<()> {
    let mut failure = ffi::Failure {
        code: ffi::CODE_FINE,
        message: ptr::null_mut(),
    };
    body(&raw mut failure);
    if failure.code == ffi::CODE_FINE {
        return Ok(());
    }
    let message = take_message(failure.message);
    Err(match failure.code {
        ffi::CODE_OUT_OF_MEMORY => Error::OutOfMemory { message },
        ffi::CODE_NOT_BUILT_WITH_CUDA => Error::NotBuiltWithCuda,
        ffi::CODE_PANIC => Error::Panic { message },
        _ => Error::from_message(&message),
    })
}

/// Tells C++ of an error of a Rust body, on its way through libtorch back to Rust.
///
/// # Safety
/// `failure` may be written.
pub(crate) unsafe fn pass_on(error: Error, failure: *mut ffi::Failure) {
    let (code, message) = match error {
        Error::OutOfMemory { message } => (ffi::CODE_OUT_OF_MEMORY, message),
        // Its words say what it is.
        Error::Libtorch { message }
        | Error::Exchange { message }
        | Error::HostOutOfMemory { message } => (ffi::CODE_LIBTORCH, message),
        Error::Panic { message } => (ffi::CODE_PANIC, message),
        Error::NotBuiltWithCuda => (ffi::CODE_NOT_BUILT_WITH_CUDA, String::new()),
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: `failure` may be written; the shim copies the message.
    unsafe { ffi::torchgauge_fill_failure(failure, code, message.as_ptr()) };
}

fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return "libtorch gave no message".to_owned();
    }
    // SAFETY: a message that is not null is a C string that the shim allocated for
    // us, and nothing else points to it.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        ffi::torchgauge_free_message(message);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(panic: &str, expect: &Error) {
        let payload: Box<dyn Any + Send> = Box::new(panic.to_owned());
        assert_eq!(Error::from_panic(payload.as_ref()), *expect);
    }

    #[test]
    fn a_panic_of_tch_is_an_error_of_libtorch() {
        check(
            r#"called `Result::unwrap()` on an `Err` value: Torch("The size of tensor \"a\" (2)\nException raised from infer_size at x.cpp:31")"#,
            &Error::Libtorch {
                message: "The size of tensor \"a\" (2)".to_owned(),
            },
        );
        check(
            r#"called `Result::unwrap()` on an `Err` value: Torch("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 \u{2026}")"#,
            &Error::OutOfMemory {
                message: "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 …".to_owned(),
            },
        );
    }

    #[test]
    fn any_other_panic_stays_one() {
        for message in ["index out of bounds", "Torch(\"never closed", "Torch(\"\\"] {
            check(
                message,
                &Error::Panic {
                    message: message.to_owned(),
                },
            );
        }
    }
}
