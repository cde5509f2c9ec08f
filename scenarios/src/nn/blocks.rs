//! A row of equal blocks, with or without activation checkpointing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtorch::{Result, checkpoint};
use protocol::Checkpointing;
use tch::Tensor;

use crate::models::Pass;

/// One step of the way through a model: a residual block, a transformer layer.
pub trait Block: std::fmt::Debug + Send + 'static {
    /// Takes the activation, so that nobody keeps it longer than the block needs it.
    fn forward(&self, x: Tensor, training: bool) -> Result<Tensor>;
}

/// Blocks one after the other.
///
/// Each lies behind a mutex that nobody ever waits for: tensors may move between threads
/// but not be shared, and libtorch recomputes on the device's autograd thread while the
/// one that called backward waits.
#[derive(Debug)]
pub struct Blocks<B>(Vec<Arc<Mutex<B>>>);

impl<B: Block> Blocks<B> {
    /// A row of these.
    #[must_use]
    pub fn new(blocks: Vec<B>) -> Self {
        Self(
            blocks
                .into_iter()
                .map(|block| Arc::new(Mutex::new(block)))
                .collect(),
        )
    }

    /// Applies them in order. With checkpointing, each group of blocks keeps its input
    /// alone and is computed again in backward.
    pub fn forward(&self, mut x: Tensor, pass: Pass) -> Result<Tensor> {
        let group = match pass.checkpointing {
            Checkpointing::None => {
                for block in &self.0 {
                    x = lock(block).forward(x, pass.training)?;
                }
                return Ok(x);
            }
            Checkpointing::Blocks => 1,
            Checkpointing::Every(k) => k as usize,
        };
        for blocks in self.0.chunks(group) {
            let blocks = blocks.to_vec();
            let training = pass.training;
            x = checkpoint::run_many(&[&x], move |inputs| {
                let mut x = inputs[0].shallow_clone();
                for block in &blocks {
                    x = lock(block).forward(x, training)?;
                }
                Ok(x)
            })?;
        }
        Ok(x)
    }
}

/// The block, whatever became of an earlier holder: a block has no state to break.
fn lock<B>(block: &Mutex<B>) -> MutexGuard<'_, B> {
    block.lock().unwrap_or_else(PoisonError::into_inner)
}
