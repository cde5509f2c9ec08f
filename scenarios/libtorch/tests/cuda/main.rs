//! The functions that need a GPU, on GPU 0. Without one they fail, loudly.
//!
//! The binary that `cargo test --features cuda --no-run` leaves runs by itself on a machine
//! with a GPU, once `LD_LIBRARY_PATH` names libtorch's library folder there.

mod checkpoint;
mod fp8;
mod gpu;
mod memory;
mod optim;

use std::sync::{Mutex, MutexGuard, PoisonError};

use libtorch::cuda;
use tch::{Device, Kind, Tensor};

const GPU: (Kind, Device) = (Kind::Float, Device::Cuda(0));

/// Statistics, generators and settings belong to the process: tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(
        cuda::is_available(),
        "these tests need a GPU: libtorch {} sees none",
        libtorch::version()
    );
    cuda::start(0).unwrap();
    turn
}

fn double(tensor: &Tensor) -> f64 {
    tensor.double_value(&[])
}
