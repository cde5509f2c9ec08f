//! One model on every rank, whose gradients are averaged during backward.

use libtorch::{
    Result,
    distributed::{ProcessGroup, Reducer},
};
use tch::Tensor;

use crate::nn::{self, Parameters};

/// As Python's `DistributedDataParallel` with its defaults: rank 0's parameters to begin with, its
/// buffers before each forward after which gradients were exchanged, gradients in buckets of 25 MiB,
/// the first of 1 MiB, each on its way as soon as it is full.
#[derive(Debug)]
pub struct Ddp {
    group: ProcessGroup,
    reducer: Reducer,
    buffers: Vec<Tensor>,
    /// Whether gradients are exchanged at all.
    exchanges: bool,
    /// Whether the last forward was one whose gradients were exchanged.
    was_exchanged: bool,
    bytes: u64,
}

impl Ddp {
    pub fn new(group: ProcessGroup, parameters: &Parameters) -> Result<Self> {
        let of = |named: &[(String, Tensor)]| -> Vec<Tensor> {
            let all = named.iter().map(|(_, tensor)| tensor.shallow_clone());
            all.collect()
        };
        let trained = of(parameters.trained());
        let buffers = of(parameters.buffers());
        let mut all = of(parameters.frozen());
        all.extend(trained.iter().chain(&buffers).map(Tensor::shallow_clone));
        group.broadcast(&all)?;
        Ok(Self {
            group,
            reducer: Reducer::new(group, &trained)?,
            buffers,
            exchanges: true,
            was_exchanged: true,
            bytes: trained.iter().map(nn::bytes).sum(),
        })
    }

    /// Whether steps from now on exchange gradients.
    pub fn set_exchanges(&mut self, exchanges: bool) {
        self.exchanges = exchanges;
    }

    /// A micro-batch begins, the last of its step or another.
    pub fn before_forward(&mut self, is_last: bool) -> Result<()> {
        let exchanges = is_last && self.exchanges;
        self.reducer.before_forward(exchanges)?;
        if self.was_exchanged && !self.buffers.is_empty() {
            self.group.broadcast(&self.buffers)?;
        }
        self.was_exchanged = exchanges;
        Ok(())
    }

    /// Its backward begins.
    pub fn before_backward(&mut self) -> Result<()> {
        if self.was_exchanged {
            self.reducer.before_backward()?;
        }
        Ok(())
    }

    /// Bytes that a rank must send at least in a step: an all-reduce of the gradients, of which each
    /// rank sends `2 (n - 1) / n`.
    pub fn sent_bytes(&self) -> f64 {
        let world = f64::from(self.group.world());
        self.bytes as f64 * 2.0 * (world - 1.0) / world
    }
}
