//! Training steps: that they learn, and what the axes mean.

use protocol::{Model, Task, Variant};
use scenario::training::{StepLog, Unobserved, Work};
use tch::{Device, Tensor};

use crate::support::{alone, batches, gradients, variant, work};

const TINY: [Model; 5] = [
    Model::ResnetTiny,
    Model::BertTiny,
    Model::LlamaTiny,
    Model::Unet3dTiny,
    Model::VitTiny,
];

/// The losses of this many steps.
fn losses(model: Model, variant: &Variant, seed: u64, steps: u32) -> Vec<f64> {
    let mut work = work(model, Task::Training, variant, seed);
    let batches = batches(model, variant, work.wanted_micro_batches());
    let log = StepLog::new(steps, Device::Cpu).unwrap();
    for step in 0..steps {
        work.step(step, &batches, &log, &mut Unobserved).unwrap();
    }
    log.losses().unwrap()
}

#[test]
fn the_loss_falls() {
    let _turn = alone();
    // What a U-Net learns takes it more steps: `volumes.rs`.
    let others = TINY.into_iter().filter(|&of| of != Model::Unet3dTiny);
    for model in others {
        for optimizer in ["sgd-momentum", "adamw"] {
            let json = format!(r#"{{"batch":4,"optimizer":"{optimizer}"}}"#);
            let losses = losses(model, &variant(&json), 1, 20);
            assert!(
                losses[19] < 0.98 * losses[0],
                "{model} {optimizer}: {losses:?}"
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_losses_bit_for_bit() {
    let _turn = alone();
    for model in TINY {
        let variant = variant(r#"{"batch":4}"#);
        let first = losses(model, &variant, 1, 3);
        assert_eq!(first, losses(model, &variant, 1, 3), "{model}");
        assert_ne!(first, losses(model, &variant, 2, 3), "{model}");
    }
}

#[test]
fn accumulated_micro_batches_are_one_large_batch() {
    let _turn = alone();
    // A ViT has neither batch statistics nor dropout, which would rightly differ.
    let log = StepLog::new(1, Device::Cpu).unwrap();
    let pass = |json: &str, micro_batches: usize| {
        let variant = variant(json);
        let mut work = work(Model::VitTiny, Task::Training, &variant, 4);
        let batches = batches(Model::VitTiny, &variant, micro_batches);
        work.accumulate(0, &mut batches.as_slice(), &log, &mut Unobserved)
            .unwrap();
        gradients(&work)
    };
    let whole = pass(r#"{"batch":8}"#, 1);
    let sum_of_losses = log.losses().unwrap()[0];
    let pieces = pass(r#"{"batch":2,"accumulation":4}"#, 4);
    // The log adds up, so that the second pass has doubled it.
    assert!((log.losses().unwrap()[0] - 2.0 * sum_of_losses).abs() < 1e-5);
    for ((name, whole), (_, pieces)) in whole.iter().zip(&pieces) {
        let difference = (whole - pieces).norm().double_value(&[]);
        assert!(
            difference <= 1e-5 * whole.norm().double_value(&[]).max(1e-6),
            "{name}: {difference}"
        );
    }
}

#[test]
fn accumulation_takes_different_micro_batches() {
    let _turn = alone();
    for (json, wanted) in [
        ("{}", 1),
        (r#"{"accumulation":2}"#, 2),
        (r#"{"accumulation":7}"#, 2),
    ] {
        let work = work(Model::VitTiny, Task::Training, &variant(json), 1);
        assert_eq!(work.wanted_micro_batches(), wanted, "{json}");
    }
}

#[test]
fn bfloat16_differs_a_little() {
    let _turn = alone();
    for model in TINY {
        let first = |json: &str| losses(model, &variant(json), 1, 1)[0];
        let single = first(r#"{"batch":4}"#);
        let short = first(r#"{"batch":4,"precision":"amp-bf16"}"#);
        let difference = (single - short).abs() / single;
        assert!(
            difference > 0.0 && difference < 0.05,
            "{model}: {single} {short}"
        );
    }
}

#[test]
fn channels_last_computes_the_same() {
    let _turn = alone();
    let first = |json: &str| losses(Model::ResnetTiny, &variant(json), 1, 2);
    let contiguous = first(r#"{"batch":4}"#);
    let channels_last = first(r#"{"batch":4,"memory_format":"channels-last"}"#);
    for (one, other) in contiguous.iter().zip(&channels_last) {
        assert!((one - other).abs() < 1e-3 * one, "{one} {other}");
    }
}

fn values(work: &Work) -> Vec<Tensor> {
    work.parameters()
        .trained()
        .iter()
        .map(|(_, tensor)| tensor.detach().copy())
        .collect()
}

#[test]
fn a_step_whose_gradients_are_not_finite_is_skipped() {
    let _turn = alone();
    for optimizer in ["sgd-momentum", "adamw"] {
        let json = format!(r#"{{"batch":4,"precision":"amp-fp16","optimizer":"{optimizer}"}}"#);
        let variant = variant(&json);
        let mut work = work(Model::VitTiny, Task::Training, &variant, 1);
        let good = batches(Model::VitTiny, &variant, 1);
        let bad = batches(Model::VitTiny, &variant, 1);
        let _ = bad[0].input.view([-1]).narrow(0, 0, 1).fill_(f64::INFINITY);
        let log = StepLog::new(3, Device::Cpu).unwrap();

        let before = values(&work);
        work.step(0, &bad, &log, &mut Unobserved).unwrap();
        assert!(
            before == values(&work),
            "{optimizer}: a bad step changed something"
        );
        assert_eq!(work.loss_scale().unwrap(), Some(32_768.0));
        work.step(1, &good, &log, &mut Unobserved).unwrap();
        work.step(2, &good, &log, &mut Unobserved).unwrap();
        let after = values(&work);
        assert!(before != after, "{optimizer}: good steps changed nothing");
        for tensor in &after {
            assert!(tensor.isfinite().all().int64_value(&[]) == 1, "{optimizer}");
        }
        assert_eq!(log.skips().unwrap(), [1.0, 0.0, 0.0], "{optimizer}");
        assert_eq!(work.loss_scale().unwrap(), Some(32_768.0));
    }
}

#[test]
fn a_resnet50_holds_its_parameters_as_often_as_it_should() {
    const PARAMETERS: u64 = 4 * 25_557_032;
    let _turn = alone();
    libtorch::memory::host::install().unwrap();
    for (optimizer, state) in [
        ("sgd-momentum", PARAMETERS),
        // Two moments, and one counter for each of the 161 tensors.
        ("adamw", 2 * PARAMETERS + 161 * 4),
    ] {
        let json = format!(r#"{{"batch":1,"image_size":64,"optimizer":"{optimizer}"}}"#);
        let variant = variant(&json);
        let before = libtorch::memory::host::allocated_bytes();
        let mut work = work(Model::Resnet50, Task::Training, &variant, 1);
        let batches = batches(Model::Resnet50, &variant, 1);
        let log = StepLog::new(1, Device::Cpu).unwrap();
        work.step(0, &batches, &log, &mut Unobserved).unwrap();
        assert_eq!(work.parameters().bytes(), PARAMETERS);
        assert_eq!(work.gradient_bytes(), Some(PARAMETERS));
        assert_eq!(work.optimizer_bytes(), Some(state));

        // Besides: batch statistics and counters of 53 normalisations over 26560 channels,
        // the batch with its label, and the log.
        let besides = 2 * 4 * 26_560 + 53 * 8 + 3 * 64 * 64 * 4 + 8 + 2 * 4;
        let held = libtorch::memory::host::allocated_bytes() - before;
        assert_eq!(held, 2 * PARAMETERS + state + besides, "{optimizer}");
    }
}

#[test]
fn inference_keeps_nothing() {
    let _turn = alone();
    libtorch::memory::host::install().unwrap();
    for model in TINY {
        let variant = variant(r#"{"batch":4}"#);
        let mut work = work(model, Task::Inference, &variant, 1);
        let batches = batches(model, &variant, 1);
        let log = StepLog::new(0, Device::Cpu).unwrap();
        let before = libtorch::memory::host::allocated_bytes();
        work.step(0, &batches, &log, &mut Unobserved).unwrap();
        assert_eq!(libtorch::memory::host::allocated_bytes(), before, "{model}");
        assert!(log.losses().unwrap().is_empty());
    }
}
