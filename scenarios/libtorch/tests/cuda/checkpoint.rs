//! Checkpoints on a GPU, whose backward runs in another thread.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use libtorch::{
    Error, Result,
    autocast::{self, DeviceType, Dtype},
    autograd, checkpoint,
    memory::{device_stats, reset_peak},
};
use tch::{Kind, Tensor};

use super::{GPU, turn};

struct Block {
    weight: Tensor,
    bias: Tensor,
}

impl Block {
    fn new() -> Self {
        Self {
            weight: (Tensor::randn([64, 64], GPU) * 0.2).set_requires_grad(true),
            bias: Tensor::randn([64], GPU).set_requires_grad(true),
        }
    }

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut hidden = input.f_linear(&self.weight, Some(&self.bias))?;
        hidden = hidden.f_gelu("none")?;
        Ok(hidden.f_dropout(0.3, true)?)
    }
}

/// Loss, gradients and the next random number of four blocks with dropout.
fn gradients(checkpointed: bool, dtype: Option<Dtype>) -> Vec<Tensor> {
    libtorch::seed(11).unwrap();
    let blocks: Vec<_> = (0..4).map(|_| Arc::new(Mutex::new(Block::new()))).collect();
    let input = Tensor::randn([128, 64], GPU).set_requires_grad(true);
    let output = autocast::with(DeviceType::Cuda, dtype, true, || {
        let mut hidden = input.shallow_clone();
        for block in &blocks {
            hidden = if checkpointed {
                let block = Arc::clone(block);
                checkpoint::run(&hidden, move |hidden| block.lock().unwrap().forward(hidden))
                    .unwrap()
            } else {
                block.lock().unwrap().forward(&hidden).unwrap()
            };
        }
        hidden
    })
    .unwrap();
    let loss = output.to_kind(Kind::Float).square().mean(Kind::Float);
    autograd::backward(&loss).unwrap();
    let mut result = vec![loss.detach(), input.grad()];
    for block in &blocks {
        let block = block.lock().unwrap();
        result.extend([block.weight.grad(), block.bias.grad()]);
    }
    result.push(Tensor::rand([4], GPU));
    result
}

#[test]
fn checkpointed_gradients_are_the_plain_ones_bit_for_bit() {
    let _turn = turn();
    for dtype in [None, Some(Dtype::BFloat16), Some(Dtype::Half)] {
        let (expect, got) = (gradients(false, dtype), gradients(true, dtype));
        for (position, (got, expect)) in got.iter().zip(&expect).enumerate() {
            assert!(
                got.equal(expect),
                "{dtype:?} {position}: {got} instead of {expect}"
            );
        }
    }
}

#[test]
fn checkpointing_saves_memory() {
    let _turn = turn();
    let peak = |checkpointed: bool| {
        let weights: Vec<_> = (0..8)
            .map(|_| (Tensor::randn([256, 256], GPU) * 0.05).set_requires_grad(true))
            .collect();
        let input = Tensor::randn([65536, 256], GPU);
        reset_peak(0).unwrap();
        let mut hidden = input.shallow_clone();
        for weight in &weights {
            let weight = weight.shallow_clone();
            let body = move |hidden: &Tensor| -> Result<Tensor> {
                let hidden = hidden.f_matmul(&weight)?.f_gelu("none")?;
                Ok(hidden.f_tanh()?)
            };
            hidden = if checkpointed {
                checkpoint::run(&hidden, body).unwrap()
            } else {
                body(&hidden).unwrap()
            };
        }
        autograd::backward(&hidden.sum(Kind::Float)).unwrap();
        device_stats(0).unwrap().peak_allocated_bytes
    };
    // A process that has checkpoints has one before its first backward.
    let checkpointed = peak(true);
    let plain = peak(false);
    assert!(checkpointed * 3 < plain * 2, "{checkpointed} of {plain}");
}

#[test]
fn backward_runs_in_another_thread_with_the_callers_autocast() {
    let _turn = turn();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let weight = Tensor::ones([8, 8], GPU).set_requires_grad(true);
    let input = Tensor::ones([2, 8], GPU);
    let (log, parameter) = (Arc::clone(&seen), weight.shallow_clone());
    let output = autocast::with(DeviceType::Cuda, Some(Dtype::BFloat16), true, || {
        checkpoint::run(&input, move |input| {
            let output = input.f_matmul(&parameter)?;
            log.lock()
                .unwrap()
                .push((output.kind(), thread::current().id()));
            // Saves its factors: the second computation must come this far.
            Ok(output.f_mul(&output)?)
        })
    })
    .unwrap()
    .unwrap();
    autograd::backward(&output.to_kind(Kind::Float).sum(Kind::Float)).unwrap();
    let seen = seen.lock().unwrap();
    let kinds: Vec<_> = seen.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [Kind::BFloat16, Kind::BFloat16]);
    assert_eq!(seen[0].1, thread::current().id());
    assert_ne!(
        seen[1].1,
        thread::current().id(),
        "libtorch's own thread runs backward on a GPU"
    );
    assert_eq!(weight.grad().kind(), Kind::Float);
}

#[test]
fn a_panic_in_backward_comes_back_from_the_other_thread() {
    let _turn = turn();
    let runs = AtomicUsize::new(0);
    let input = Tensor::ones([2], GPU).set_requires_grad(true);
    let output = checkpoint::run(&input, move |input| {
        assert_eq!(runs.fetch_add(1, Ordering::Relaxed), 0, "not a second time");
        Ok(input.f_mul(input)?)
    })
    .unwrap();
    let error = autograd::backward(&output.sum(Kind::Float)).unwrap_err();
    assert!(
        matches!(&error, Error::Panic { message } if message.contains("not a second time")),
        "{error}"
    );
}
