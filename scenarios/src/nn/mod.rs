//! Parameters, their beginnings, and the layers that models share.

mod blocks;
mod init;
mod layers;
mod parameters;

pub use blocks::{Block, Blocks};
pub use init::Init;
pub use layers::{BatchNorm2d, Conv2d, ConvForm, Embedding, LayerNorm, Linear};
pub use parameters::{Parameters, Placement, Scope, bytes, in_format};
