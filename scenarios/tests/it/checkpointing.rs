//! Recomputation changes memory and time, and nothing else.

use protocol::{Model, Task};
use scenario::training::{StepLog, Unobserved};
use tch::{Device, Tensor};

use crate::support::{alone, batches, gradients, variant, work};

/// Loss and gradients of the first pass, dropout on.
fn first_pass(model: Model, json: &str) -> (Vec<f64>, Vec<(String, Tensor)>) {
    let variant = variant(json);
    let mut work = work(model, Task::Training, &variant, 5);
    let log = StepLog::new(1, Device::Cpu).unwrap();
    libtorch::seed(6).unwrap();
    work.accumulate(
        0,
        &mut batches(model, &variant, 2).as_slice(),
        &log,
        &mut Unobserved,
    )
    .unwrap();
    (log.losses().unwrap(), gradients(&work))
}

/// Bit for bit the same as without checkpointing.
fn check(model: Model, checkpointing: &str) {
    check_with(model, r#""batch":4"#, checkpointing);
}

fn check_with(model: Model, others: &str, checkpointing: &str) {
    let _turn = alone();
    let plain = first_pass(model, &format!("{{{others}}}"));
    let json = format!(r#"{{{others},"checkpointing":"{checkpointing}"}}"#);
    let recomputed = first_pass(model, &json);
    assert_eq!(plain.0, recomputed.0);
    for ((name, plain), (_, recomputed)) in plain.1.iter().zip(&recomputed.1) {
        assert!(
            plain.equal(recomputed),
            "{model} {checkpointing}: the gradient of {name} differs"
        );
        assert!(plain.abs().max().double_value(&[]).is_finite());
    }
}

#[test]
fn blocks_of_a_resnet() {
    check(Model::ResnetTiny, "blocks");
}

#[test]
fn groups_of_a_resnet() {
    // Four blocks in threes: the last group is shorter.
    check(Model::ResnetTiny, "every-3");
}

#[test]
fn layers_of_a_bert_with_dropout() {
    check(Model::BertTiny, "blocks");
}

#[test]
fn groups_of_a_bert_with_dropout() {
    check(Model::BertTiny, "every-2");
}

#[test]
fn blocks_of_a_vit() {
    check(Model::VitTiny, "blocks");
}

#[test]
fn groups_of_a_vit() {
    check(Model::VitTiny, "every-2");
}

#[test]
fn layers_of_a_llama_with_and_without_adapters() {
    check(Model::LlamaTiny, "blocks");
    check(Model::LlamaTiny, "every-2");
    check_with(Model::LlamaTiny, r#""batch":4,"lora_rank":4"#, "blocks");
    check_with(
        Model::LlamaTiny,
        r#""batch":4,"precision":"bf16""#,
        "blocks",
    );
}

#[test]
fn blocks_of_a_unet() {
    check(Model::Unet3dTiny, "blocks");
}

#[test]
fn dropout_is_on_in_a_bert() {
    let _turn = alone();
    let json = variant(r#"{"batch":4}"#);
    let mut work = work(Model::BertTiny, Task::Training, &json, 5);
    let batches = batches(Model::BertTiny, &json, 1);
    let log = StepLog::new(2, Device::Cpu).unwrap();
    work.accumulate(0, &mut batches.as_slice(), &log, &mut Unobserved)
        .unwrap();
    work.accumulate(1, &mut batches.as_slice(), &log, &mut Unobserved)
        .unwrap();
    let losses = log.losses().unwrap();
    assert!((losses[0] - losses[1]).abs() > 0.0, "{losses:?}");
}

#[test]
fn checkpointing_takes_less_memory() {
    let _turn = alone();
    libtorch::memory::host::install().unwrap();
    let peak = |json: &str| {
        let variant = variant(json);
        let mut work = work(Model::VitTiny, Task::Training, &variant, 5);
        let batches = batches(Model::VitTiny, &variant, 1);
        let log = StepLog::new(1, Device::Cpu).unwrap();
        libtorch::memory::host::reset_peak();
        let before = libtorch::memory::host::allocated_bytes();
        work.accumulate(0, &mut batches.as_slice(), &log, &mut Unobserved)
            .unwrap();
        libtorch::memory::host::peak_allocated_bytes() - before
    };
    let plain = peak(r#"{"batch":32}"#);
    let recomputed = peak(r#"{"batch":32,"checkpointing":"blocks"}"#);
    assert!(
        recomputed * 10 < plain * 8,
        "{recomputed} bytes with, {plain} without"
    );
}
