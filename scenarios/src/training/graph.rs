//! A step captured once as a CUDA graph and replayed: the CPU's part of a step becomes one
//! call, whatever the number of kernels.

use libtorch::{autograd, cuda};
use tch::Device;

use super::{StepLog, Unobserved, Work};
use crate::{Error, data::Batch};

/// Eager steps before a capture, on a stream of their own: lazily made states (gradients, cuBLAS
/// workspaces, cuDNN's choices) must be there. Three, as in `PyTorch`'s documentation of CUDA
/// graphs.
pub const EAGER_STEPS: u32 = 3;

/// A captured step. It reads the batches and writes the parameters that it was captured with.
#[derive(Debug)]
pub struct Captured {
    graph: cuda::Graph,
    /// Where every replay notes its loss.
    last: StepLog,
}

impl Captured {
    /// Captures a step of `work` on `batches`. Run [`EAGER_STEPS`] of them before.
    pub fn new(work: &mut Work, batches: &[Batch], device: Device) -> Result<Self, Error> {
        // Gradients and everything else that a step makes shall lie in the graph's own memory;
        // what eager steps left behind in the cache nobody will use again.
        autograd::zero_grad(work.trained())?;
        cuda::synchronize()?;
        cuda::empty_cache()?;
        let last = StepLog::new(1, device)?;
        let (graph, outcome) = cuda::Graph::capture(|| {
            last.clear()?;
            work.step(0, batches, &last, &mut Unobserved)
        })
        .map_err(Error::NotCapturable)?;
        outcome.map_err(Error::not_capturable)?;
        Ok(Self { graph, last })
    }

    /// Replays the step, and notes its loss as that of step `number`.
    pub fn step(&mut self, number: u32, log: &StepLog) -> Result<(), Error> {
        self.graph.replay()?;
        Ok(log.take(number, &self.last)?)
    }
}
