//! A row of equal blocks, with or without activation checkpointing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtorch::{Result, checkpoint, keep};
use protocol::Checkpointing;
use tch::Tensor;

use super::Stage;

/// How one pass through a model is to be done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pass<'a> {
    /// Dropout on, statistics of the batch; else as for inference.
    pub training: bool,
    /// What is recomputed in backward.
    pub checkpointing: Checkpointing,
    /// What brings the blocks' parameters, where they are not always there.
    pub gate: Option<&'a dyn Gate>,
    /// The part of the model that is computed, where that is not all of it.
    pub stage: Option<Stage>,
}

impl Pass<'_> {
    /// Whether it begins with the model's input, and not with what the blocks before made of it.
    pub fn is_first(&self) -> bool {
        self.stage.is_none_or(Stage::is_first)
    }

    /// Whether it ends with the model's scores, and not with what goes to the blocks after.
    pub fn is_last(&self) -> bool {
        self.stage.is_none_or(Stage::is_last)
    }
}

/// Brings the parameters of blocks when they are used, in forward and in backward.
pub trait Gate: std::fmt::Debug {
    /// Block `block` is about to read `x`, in this form.
    fn before(&self, block: usize, x: Tensor) -> Result<Tensor>;
    /// It has gone forward.
    fn after(&self, block: usize) -> Result<()>;
    /// All have, and `x` is what came of it.
    fn at_end(&self, x: &Tensor) -> Result<()>;
}

/// One step of the way through a model: a residual block, a transformer layer.
pub trait Block: std::fmt::Debug + Send + 'static {
    /// Takes the activation, so that nobody keeps it longer than the block needs it. `beside` is
    /// what all blocks read besides.
    fn forward(&self, x: Tensor, beside: &[Tensor], training: bool) -> Result<Tensor>;
}

/// Blocks one after the other.
///
/// Each lies behind a mutex that nobody ever waits for: tensors may move between threads
/// but not be shared, and libtorch recomputes on the device's autograd thread while the
/// one that called backward waits.
#[derive(Debug)]
pub struct Blocks<B>(Vec<Arc<Mutex<B>>>);

impl<B: Block> Blocks<B> {
    pub fn new(blocks: Vec<B>) -> Self {
        Self(
            blocks
                .into_iter()
                .map(|block| Arc::new(Mutex::new(block)))
                .collect(),
        )
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn at(&self, index: usize) -> MutexGuard<'_, B> {
        lock(&self.0[index])
    }

    /// Applies those of the pass in order. With checkpointing, each group of blocks keeps its inputs
    /// alone and is computed again in backward.
    pub fn forward(&self, mut x: Tensor, beside: &[Tensor], pass: Pass) -> Result<Tensor> {
        let all = match pass.stage {
            Some(stage) => &self.0[stage.blocks()],
            None => &self.0,
        };
        let group = match pass.checkpointing {
            Checkpointing::None => {
                for index in 0..all.len() {
                    if let Some(gate) = pass.gate {
                        x = gate.before(index, x)?;
                    }
                    x = one(all, index, x, beside, pass)?;
                    if let Some(gate) = pass.gate {
                        gate.after(index)?;
                    }
                }
                if let Some(gate) = pass.gate {
                    gate.at_end(&x)?;
                }
                return Ok(x);
            }
            Checkpointing::Blocks => 1,
            Checkpointing::Every(k) => k as usize,
        };
        let groups = all.chunks(group);
        let last = groups.len() - 1;
        for (index, blocks) in groups.enumerate() {
            let _kept = keep::block(index == last)?;
            x = recomputed(blocks, &x, beside, pass.training)?;
        }
        Ok(x)
    }

    /// Applies one of them, which keeps its inputs alone where there is any checkpointing.
    pub fn one(&self, index: usize, x: Tensor, beside: &[Tensor], pass: Pass) -> Result<Tensor> {
        one(&self.0, index, x, beside, pass)
    }
}

fn one<B: Block>(
    all: &[Arc<Mutex<B>>],
    index: usize,
    x: Tensor,
    beside: &[Tensor],
    pass: Pass,
) -> Result<Tensor> {
    let _kept = keep::block(index + 1 == all.len())?;
    match pass.checkpointing {
        Checkpointing::None => lock(&all[index]).forward(x, beside, pass.training),
        _ => recomputed(&all[index..=index], &x, beside, pass.training),
    }
}

fn recomputed<B: Block>(
    blocks: &[Arc<Mutex<B>>],
    x: &Tensor,
    beside: &[Tensor],
    training: bool,
) -> Result<Tensor> {
    let blocks = blocks.to_vec();
    let inputs: Vec<&Tensor> = std::iter::once(x).chain(beside).collect();
    checkpoint::run_many(&inputs, move |inputs| {
        let mut x = inputs[0].shallow_clone();
        for block in &blocks {
            x = lock(block).forward(x, &inputs[1..], training)?;
        }
        Ok(x)
    })
}

/// The block, whatever became of an earlier holder: a block has no state to break.
fn lock<B>(block: &Mutex<B>) -> MutexGuard<'_, B> {
    block.lock().unwrap_or_else(PoisonError::into_inner)
}
