//! Work recorded once and replayed without the CPU's part.

use std::ptr;

use crate::{Result, catch, ffi};

/// A stream of its own, current for this thread while it lives.
struct SideStream {
    raw: *mut ffi::SideStream,
}

impl SideStream {
    fn enter() -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: both pointers are valid for the call.
        unsafe { ffi::cuda_side_stream_enter(&raw mut raw)? };
        Ok(Self { raw })
    }

    /// Waits for the GPU and goes back to the stream before.
    fn leave(mut self) -> Result<()> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        // SAFETY: `raw` came from `enter` on this thread and is given back once.
        unsafe { ffi::cuda_side_stream_leave(raw) }
    }
}

impl Drop for SideStream {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: as in `leave`. The error that led here is the one to report.
            let _ = unsafe { ffi::cuda_side_stream_leave(self.raw) };
        }
    }
}

/// Runs `body` on a stream of its own, after all work before and ended before the return: the
/// way to warm up what a [`Graph`] will capture.
pub fn on_side_stream<T>(body: impl FnOnce() -> T) -> Result<T> {
    let stream = SideStream::enter()?;
    let result = catch(body)?;
    stream.leave()?;
    Ok(result)
}

/// Work of a GPU, recorded once and replayed with the same addresses: inputs are copied into
/// the tensors that the capture read, results stand in those it wrote.
#[derive(Debug)]
pub struct Graph {
    raw: *mut ffi::CudaGraph,
}

impl Graph {
    /// Records what `body` queues on the current GPU; nothing of it runs yet.
    ///
    /// Warm up with [`on_side_stream`] first. Within, nothing may wait for the GPU, and
    /// [`crate::checkpoint`] is refused: it reads and sets the random state. Tensors that
    /// `body` makes live in the graph's own memory.
    pub fn capture<T>(body: impl FnOnce() -> T) -> Result<(Self, T)> {
        let mut raw = ptr::null_mut();
        // SAFETY: both pointers are valid for the call.
        unsafe { ffi::cuda_graph_new(&raw mut raw)? };
        let graph = Self { raw };
        let stream = SideStream::enter()?;
        // SAFETY: `raw` is alive.
        unsafe { ffi::cuda_graph_begin(graph.raw)? };
        let result = catch(body);
        // SAFETY: `raw` is alive. Ended also after a failure, which would else go on.
        let ended = unsafe { ffi::cuda_graph_end(graph.raw) };
        let result = result?;
        ended?;
        stream.leave()?;
        Ok((graph, result))
    }

    /// Queues the recorded work on the current stream. Returns at once.
    pub fn replay(&mut self) -> Result<()> {
        // SAFETY: `raw` is alive, and `&mut` keeps others away.
        unsafe { ffi::cuda_graph_replay(self.raw) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `capture` and is given back once. Destroying a graph cannot
        // fail in a way that anybody could act upon.
        let _ = unsafe { ffi::cuda_graph_free(self.raw) };
    }
}
