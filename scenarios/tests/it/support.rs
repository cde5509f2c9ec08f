//! What the tests share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::{Event, Model, Task, Variant};
use scenario::{
    data::{Batch, Source},
    models,
    nn::{Placement, Rounding},
    training::{Arithmetic, Work},
};
use tch::{Device, Tensor};

/// libtorch's random generator belongs to the process, and so do its threads: tests that need
/// them as they left them take turns.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    libtorch::set_threads(1).unwrap();
    turn
}

/// A variant from its JSON.
pub(crate) fn variant(json: &str) -> Variant {
    serde_json::from_str(json).unwrap()
}

/// Where models of the tests are made.
pub(crate) fn placement(variant: &Variant, fill: bool) -> Placement {
    Placement {
        device: Device::Cpu,
        memory_format: variant.memory_format,
        kind: Arithmetic::kind(variant.precision),
        rounding: Rounding::of(variant),
        fill,
    }
}

/// A model at work, the same for the same seed.
pub(crate) fn work(model: Model, task: Task, variant: &Variant, seed: u64) -> Work {
    libtorch::seed(seed).unwrap();
    let built = models::build(model, placement(variant, true)).unwrap();
    Work::new(built, task, variant, Device::Cpu).unwrap()
}

/// The first micro-batches of seed 3.
pub(crate) fn batches(model: Model, variant: &Variant, count: usize) -> Vec<Batch> {
    let source = Source::new(model, variant, 3);
    (0..count)
        .map(|index| source.micro_batch(index, Device::Cpu).unwrap())
        .collect()
}

/// The gradients with their parameters' names.
pub(crate) fn gradients(work: &Work) -> Vec<(String, Tensor)> {
    work.parameters()
        .trained()
        .iter()
        .map(|(name, tensor)| {
            let gradient = libtorch::autograd::gradient(tensor).unwrap();
            (name.clone(), gradient.expect("a gradient").copy())
        })
        .collect()
}

/// The events in a results file.
pub(crate) fn events(text: &str) -> Vec<Event> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
