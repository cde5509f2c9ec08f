//! The functions that need a card, on card 0. Without one they fail, loudly.
//!
//! The binary that `cargo test --features cuda --no-run` leaves runs by itself on a machine
//! with a card, once `LD_LIBRARY_PATH` names libtorch's library folder there.

mod card;
mod checkpoint;
mod memory;
mod optim;

use std::sync::{Mutex, MutexGuard, PoisonError};

use libtorch::cuda;
use tch::{Device, Kind, Tensor};

const CARD: (Kind, Device) = (Kind::Float, Device::Cuda(0));

/// Statistics, generators and settings belong to the process: tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(
        cuda::is_available(),
        "these tests need a card: libtorch {} sees none",
        libtorch::version()
    );
    cuda::start(0).unwrap();
    turn
}

fn double(tensor: &Tensor) -> f64 {
    tensor.double_value(&[])
}
