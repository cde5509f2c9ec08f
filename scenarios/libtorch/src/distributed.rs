//! Ranks that work together: process groups, collectives, the averaging of gradients.
//!
//! Gloo serves on the CPU and NCCL on GPUs. A collective is begun by all ranks in the same order and
//! is over, on the CPU, once [`Work::wait`] returns; on a GPU what is launched after that runs after
//! it. What goes wrong between ranks is an [`Error::Exchange`]. NCCL says it from a thread of its
//! own while this one waits for the GPU, and ends the process: [`on_terminate`] is told before.

use std::{
    borrow::Borrow,
    ffi::{CStr, CString, c_char, c_void},
    ptr,
    sync::OnceLock,
    time::Duration,
};

use tch::Tensor;

use crate::{
    Error, Result, catch,
    error::pass_on,
    ffi,
    tensors::{optional, pointers},
};

/// Where ranks meet, and which one this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// Where rank 0 listens.
    pub host: String,
    pub port: u16,
    /// From 0.
    pub rank: u32,
    pub world: u32,
    /// Longest wait for the others, at the meeting and in each collective.
    pub timeout: Duration,
}

/// What ranks do together. `n` is the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// The sum over all ranks, in place.
    AllReduce,
    /// The inputs of all ranks one after the other: the output is `n` times as long.
    AllGather,
    /// This rank's part of the sum: the input is `n` times as long.
    ReduceScatter,
    /// This rank's values to all, in place.
    Broadcast(u32),
    /// The values to this rank.
    Send(u32),
    /// The values of this rank, in place.
    Receive(u32),
}

/// A group of all ranks. It lives as long as the process: NCCL's end waits for all ranks'.
#[derive(Debug, Clone, Copy)]
pub struct ProcessGroup {
    group: *mut ffi::ProcessGroup,
    world: u32,
}

// SAFETY: c10d's process groups may be used from any thread, and nobody frees this one. Backward
// begins collectives on the device's thread while the one that called it waits.
unsafe impl Send for ProcessGroup {}

/// A collective on its way. Dropped before its end, it goes on.
#[derive(Debug)]
#[must_use = "what it writes is there once it was waited for"]
pub struct Work(*mut ffi::CollectiveWork);

// SAFETY: as of the group.
unsafe impl Send for Work {}

/// Averages gradients over all ranks during backward, with the buckets and in the order of
/// Python's `DistributedDataParallel`.
#[derive(Debug)]
pub struct Reducer(*mut ffi::GradientReducer);

impl ProcessGroup {
    /// Meets the other ranks; on the CPU where `gpu` is `None`, else each with a GPU of its own.
    pub fn join(at: &Rendezvous, gpu: Option<u32>) -> Result<Self> {
        let host = CString::new(at.host.as_str()).unwrap_or_default();
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let timeout = u64::try_from(at.timeout.as_millis()).unwrap_or(u64::MAX);
        let mut group = ptr::null_mut();
        // SAFETY: the pointers are valid for the call.
        exchange(unsafe {
            ffi::group_new(
                host.as_ptr(),
                at.port,
                number(at.rank),
                number(at.world),
                gpu.map_or(-1, number),
                timeout,
                &raw mut group,
            )
        })?;
        Ok(Self {
            group,
            world: at.world,
        })
    }

    /// How many ranks there are.
    pub fn world(self) -> u32 {
        self.world
    }

    /// Begins a collective on tensors that are contiguous: `output` is written, and `input` read
    /// where the collective is not in place.
    pub fn start(
        self,
        collective: Collective,
        output: &Tensor,
        input: Option<&Tensor>,
    ) -> Result<Work> {
        self.begin(collective, output, input, false)
    }

    fn begin(
        self,
        collective: Collective,
        output: &Tensor,
        input: Option<&Tensor>,
        is_waited_for: bool,
    ) -> Result<Work> {
        let (kind, peer) = match collective {
            Collective::AllReduce => (0, 0),
            Collective::AllGather => (1, 0),
            Collective::ReduceScatter => (2, 0),
            Collective::Broadcast(root) => (3, root),
            Collective::Send(to) => (4, to),
            Collective::Receive(from) => (5, from),
        };
        let peer = i32::try_from(peer).unwrap_or(i32::MAX);
        let mut work = ptr::null_mut();
        // SAFETY: the tensors are alive for the call and the work keeps them; the other pointers
        // are valid.
        exchange(unsafe {
            ffi::collective(
                self.group,
                kind,
                output.as_ptr(),
                optional(input),
                peer,
                is_waited_for,
                &raw mut work,
            )
        })?;
        Ok(Work(work))
    }

    /// As [`Self::start`], and waits for it.
    pub fn run(
        self,
        collective: Collective,
        output: &Tensor,
        input: Option<&Tensor>,
    ) -> Result<()> {
        self.begin(collective, output, input, true)?.wait()
    }

    /// Gives all ranks rank 0's values of these tensors, in place.
    pub fn broadcast<T: Borrow<Tensor>>(self, tensors: &[T]) -> Result<()> {
        let tensors = pointers(tensors);
        // SAFETY: the tensors are alive for the call, `failure` is valid.
        exchange(unsafe { ffi::group_broadcast(self.group, tensors.as_ptr(), tensors.len()) })
    }
}

/// Has NCCL write to a file what it chooses for each collective from here on; `false` where it has
/// no way to be asked so late.
pub fn explain(file: &CStr) -> Result<bool> {
    let mut explains = false;
    // SAFETY: the pointers are valid for the call.
    unsafe { ffi::nccl_explain(file.as_ptr(), &raw mut explains) }?;
    Ok(explains)
}

impl Work {
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the work is ours and alive, `failure` is valid.
        exchange(unsafe { ffi::collective_wait(self.0) })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: the work is ours, and deleted once.
        unsafe { ffi::torchgauge_collective_free(self.0) }
    }
}

impl Reducer {
    /// For these trained tensors, in the same order on all ranks.
    pub fn new<T: Borrow<Tensor>>(group: ProcessGroup, parameters: &[T]) -> Result<Self> {
        let parameters = pointers(parameters);
        let mut reducer = ptr::null_mut();
        // SAFETY: the tensors are alive for the call and the reducer keeps them; the other
        // pointers are valid.
        exchange(unsafe {
            ffi::reducer_new(
                group.group,
                parameters.as_ptr(),
                parameters.len(),
                &raw mut reducer,
            )
        })?;
        Ok(Self(reducer))
    }

    /// A forward begins, after whose backward gradients are exchanged, or are not.
    pub fn before_forward(&mut self, exchanges: bool) -> Result<()> {
        // SAFETY: the reducer is ours and alive, `failure` is valid.
        exchange(unsafe { ffi::reducer_before_forward(self.0, exchanges) })
    }

    /// The next backward exchanges gradients; one without this call adds to them alone.
    pub fn before_backward(&mut self) -> Result<()> {
        // SAFETY: as above.
        exchange(unsafe { ffi::reducer_before_backward(self.0) })
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        // SAFETY: the reducer is ours, and deleted once.
        unsafe { ffi::torchgauge_reducer_free(self.0) }
    }
}

/// Gives the memory of a tensor back where `bytes` is 0, or takes so much of it anew, with no values
/// yet. Views of the tensor stay views of it.
pub fn resize_storage(tensor: &Tensor, bytes: usize) -> Result<()> {
    // SAFETY: the tensor is alive for the call, `failure` is valid.
    unsafe { ffi::resize_storage(tensor.as_ptr(), bytes) }
}

type Body = Box<dyn Fn() -> Result<()> + Send>;

/// Runs `body` when backward has the whole gradient of `tensor`, which is no leaf, and before it
/// goes on; on a GPU from another thread. An error or a panic in it ends backward.
pub fn on_gradient(tensor: &Tensor, body: impl Fn() -> Result<()> + Send + 'static) -> Result<()> {
    let body: Box<Body> = Box::new(Box::new(body));
    // SAFETY: the tensor is alive for the call. `body` passes to the shim, which calls it through
    // `call_body` and gives it back once through `drop_body`.
    unsafe {
        ffi::on_gradient(
            tensor.as_ptr(),
            Box::into_raw(body).cast(),
            call_body,
            drop_body,
        )
    }
}

/// # Safety
/// As the shim calls it: `body` came from [`on_gradient`] and lives, `failure` may be written.
unsafe extern "C" fn call_body(body: *mut c_void, failure: *mut ffi::Failure) {
    // Whatever unwinds must stop here: C++ frames are above.
    // SAFETY: by this function's contract.
    let result = catch(|| unsafe { (*body.cast::<Body>())() }).flatten();
    if let Err(error) = result {
        // SAFETY: by this function's contract.
        unsafe { pass_on(error, failure) };
    }
}

/// # Safety
/// As the shim calls it: once, with a `body` that came from [`on_gradient`].
unsafe extern "C" fn drop_body(body: *mut c_void) {
    // SAFETY: by this function's contract. A panic while dropping must not unwind into C++.
    let _ = catch(|| drop(unsafe { Box::from_raw(body.cast::<Body>()) }));
}

type LastWords = Box<dyn Fn(Error) + Send + Sync>;

static LAST_WORDS: OnceLock<LastWords> = OnceLock::new();

/// Tells why a thread of libtorch's ends the process, which then ends with code 1. The first
/// listener of a process stays.
pub fn on_terminate(told: impl Fn(Error) + Send + Sync + 'static) {
    if LAST_WORDS.set(Box::new(told)).is_ok() {
        // SAFETY: the function is there for as long as the program is.
        unsafe { ffi::torchgauge_on_terminate(terminated) };
    }
}

/// # Safety
/// As the shim calls it: with a C string.
unsafe extern "C" fn terminated(message: *const c_char) {
    // SAFETY: by this function's contract.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    // The process ends whatever becomes of this.
    let _ = catch(|| {
        LAST_WORDS
            .get()
            .map(|told| told(Error::from_message(&message)))
    });
}

/// What libtorch threw is of an exchange.
fn exchange(result: Result<()>) -> Result<()> {
    result.map_err(|error| match error {
        Error::Libtorch { message } => Error::Exchange { message },
        other => other,
    })
}
