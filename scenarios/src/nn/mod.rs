//! Parameters, their beginnings, and the layers that models share.

mod blocks;
mod init;
mod int8;
mod layers;
mod parameters;
mod rounding;
mod stage;
mod volumes;

pub use blocks::{Block, Blocks, Gate, Pass};
pub use init::Init;
pub use layers::{BatchNorm2d, Conv2d, ConvForm, Embedding, LayerNorm, Linear, RmsNorm};
pub use parameters::{Module, Parameters, Placement, Scope, bytes, in_format};
pub use rounding::Rounding;
pub use stage::{Stage, block_of};
pub use volumes::{Conv3d, InstanceNorm3d};

/// libtorch has one random generator for the whole process, so tests that draw from it take turns.
#[cfg(test)]
pub(crate) fn draw_alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
