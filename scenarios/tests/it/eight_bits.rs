//! Models whose products are in 8 bits.

use protocol::{Model, Task};
use scenario::{
    models,
    nn::{Pass, bytes},
    training::{StepLog, Unobserved},
};
use tch::{Device, Kind, Tensor};

use crate::{
    binary::{finished, run_file},
    support::{alone, batches, placement, variant, work},
};

/// The losses of so many steps, and the casts to FP8 of the last.
fn trained(model: Model, more: &str, steps: u32) -> (Vec<f64>, u64) {
    let variant = variant(&format!(r#"{{"batch":4,"optimizer":"adamw"{more}}}"#));
    let mut work = work(model, Task::Training, &variant, 5);
    let batches = batches(model, &variant, work.wanted_micro_batches());
    let log = StepLog::new(steps, Device::Cpu).unwrap();
    libtorch::seed(6).unwrap();
    let mut before = 0;
    for step in 0..steps {
        before = libtorch::fp8::casts();
        work.step(step, &batches, &log, &mut Unobserved).unwrap();
    }
    (log.losses().unwrap(), libtorch::fp8::casts() - before)
}

#[test]
fn losses_in_fp8_are_near_those_of_bf16_and_products_are_cast() {
    let _turn = alone();
    // Forward casts an input for all that read it, and each weight, and backward each gradient. A layer
    // of BERT: 4 inputs, 6 weights, 6 gradients, and the head's transform; of ViT 4, 4 and 4, its head
    // of 10 classes is not in FP8; of Llama 4, 7 and 7.
    for (model, casts) in [
        (Model::BertTiny, 2 * 16 + 3),
        (Model::VitTiny, 2 * 12),
        (Model::LlamaTiny, 2 * 18),
    ] {
        let (exact, none) = trained(model, r#","precision":"amp-bf16""#, 30);
        assert_eq!(none, 0, "{model}");
        for scaling in ["tensor", "row"] {
            let more = format!(r#","precision":"amp-bf16","fp8":"{scaling}""#);
            let (losses, made) = trained(model, &more, 30);
            assert_eq!(made, casts, "{model} {scaling}");
            assert_ne!(losses, exact, "{model} {scaling}");
            assert!(
                losses[29] < 0.98 * losses[0],
                "{model} {scaling}: {losses:?}"
            );
            for (loss, exact) in losses.iter().zip(&exact) {
                let off = (loss / exact - 1.0).abs();
                assert!(off < 0.05, "{model} {scaling}: {loss} for {exact}");
            }
        }
    }
}

#[test]
fn what_is_computed_again_is_cast_again_and_gives_the_same_losses() {
    let _turn = alone();
    for precision in ["bf16", "amp-bf16"] {
        let more = format!(r#","precision":"{precision}","fp8":"row""#);
        let (plain, casts) = trained(Model::LlamaTiny, &more, 3);
        let more = format!(r#"{more},"checkpointing":"blocks""#);
        let (again, more_casts) = trained(Model::LlamaTiny, &more, 3);
        assert_eq!(plain, again);
        assert!(more_casts > casts, "{more_casts} {casts}");
    }
}

#[test]
fn adapters_are_trained_beside_weights_in_fp8() {
    let _turn = alone();
    let more = r#","precision":"bf16","fp8":"tensor","lora_rank":4,"lora_targets":"q+down""#;
    let (losses, casts) = trained(Model::LlamaTiny, more, 12);
    // Inputs and weights, and the gradients of inputs alone: of the first layer's query, key and value
    // nobody asks for one.
    assert_eq!(casts, 2 * 18 - 3);
    assert!(losses[11] < losses[0], "{losses:?}");
}

#[test]
fn inference_is_in_fp8_too() {
    let _turn = alone();
    for model in [Model::VitTiny, Model::LlamaTiny] {
        let json = variant(r#"{"batch":2,"precision":"amp-bf16","fp8":"row"}"#);
        let mut work = work(model, Task::Inference, &json, 5);
        let log = StepLog::new(0, Device::Cpu).unwrap();
        let before = libtorch::fp8::casts();
        let all = batches(model, &json, 1);
        work.step(0, &all, &log, &mut Unobserved).unwrap();
        let layer = if model == Model::VitTiny {
            4 + 4
        } else {
            4 + 7
        };
        assert_eq!(libtorch::fp8::casts() - before, 2 * layer, "{model}");
    }
}

#[test]
fn rounded_to_whole_numbers_models_learn() {
    let _turn = alone();
    for model in [Model::ResnetTiny, Model::BertTiny] {
        let (exact, _) = trained(model, "", 20);
        for precision in ["fp32", "amp-bf16"] {
            let more = format!(r#","precision":"{precision}","qat":"int8""#);
            let (losses, _) = trained(model, &more, 20);
            assert_ne!(losses, exact, "{model}");
            assert!(losses[19] < 0.98 * losses[0], "{model}: {losses:?}");
            for (loss, exact) in losses.iter().zip(&exact) {
                let off = (loss / exact - 1.0).abs();
                assert!(off < 0.2, "{model} {precision}: {loss} for {exact}");
            }
        }
    }
}

#[test]
fn what_is_rounded_takes_256_values_at_most() {
    let _turn = alone();
    let variant = variant(r#"{"batch":2,"qat":"int8"}"#);
    let mut work = work(Model::ResnetTiny, Task::Training, &variant, 5);
    let batches = batches(Model::ResnetTiny, &variant, 1);
    let log = StepLog::new(1, Device::Cpu).unwrap();
    work.step(0, &batches, &log, &mut Unobserved).unwrap();
    let buffer = |name: &str| {
        let all = work.parameters().buffers().iter();
        let found = all.clone().find(|(of, _)| of == name);
        found
            .unwrap_or_else(|| panic!("no {name}"))
            .1
            .shallow_clone()
    };
    // Of the stem: one range for the images, one for each filter, about the extremes of the first step.
    let input = &batches[0].input;
    for (name, expected) in [("min_val", input.min()), ("max_val", input.max())] {
        let got = buffer(&format!("conv1.activation_post_process.{name}"));
        assert!(
            (got - expected).abs().max().double_value(&[]) < 1e-6,
            "{name}"
        );
    }
    let scale = buffer("conv1.weight_fake_quant.scale");
    assert_eq!(scale.size(), [16]);
    // 127 steps up and 128 down.
    let up = buffer("conv1.weight_fake_quant.max_val") / 127.0;
    let expected = up.maximum(&(buffer("conv1.weight_fake_quant.min_val") / -128.0));
    let off = (scale - expected).abs().max().double_value(&[]);
    assert!(off < 1e-6, "{off}");
}

#[test]
fn weights_of_whole_numbers_take_a_byte_and_give_nearly_the_same_scores() {
    let _turn = alone();
    // Of a layer of BERT 6, and the head's transform; of ViT 4, of Llama 7. Scores, embeddings and
    // attention stay as they are.
    for (model, layers) in [
        (Model::BertTiny, 2 * 6 + 1),
        (Model::VitTiny, 2 * 4),
        (Model::LlamaTiny, 2 * 7),
    ] {
        let variants = ["none", "dynamic"].map(|of| variant(&format!(r#"{{"int8":"{of}"}}"#)));
        let [plain, rounded] = variants.each_ref().map(|variant| {
            libtorch::seed(5).unwrap();
            models::build(model, placement(variant, true)).unwrap()
        });
        assert_eq!(plain.parameters.count(), rounded.parameters.count());
        let all = rounded
            .parameters
            .trained()
            .iter()
            .map(|(_, tensor)| tensor);
        let whole: Vec<&Tensor> = all.filter(|tensor| tensor.kind() == Kind::Int8).collect();
        assert_eq!(whole.len(), layers, "{model}");
        // A byte in place of four, and a scale of four for each row.
        let values: u64 = whole.iter().map(|tensor| bytes(tensor)).sum();
        let rows: i64 = whole.iter().map(|tensor| tensor.size()[0]).sum();
        let saved = plain.parameters.bytes() - rounded.parameters.bytes();
        assert_eq!(saved, 3 * values - 4 * u64::try_from(rows).unwrap());
        let input = &batches(model, &variants[0], 1)[0].input;
        let scores = [&plain, &rounded].map(|built| {
            let forward = || built.network.forward(input, Pass::default()).unwrap();
            tch::no_grad(forward)
        });
        let off = (&scores[1] - &scores[0]).norm() / scores[0].norm();
        let off = off.double_value(&[]);
        assert!((1e-4..0.05).contains(&off), "{model}: {off}");
    }
}

#[test]
fn whole_numbers_infer_generate_and_serve() {
    let _turn = alone();
    for precision in ["fp32", "amp-bf16", "bf16"] {
        for (task, more) in [
            (Task::Inference, ""),
            (Task::Generation, r#","new_tokens":4"#),
            (Task::Serving, r#","new_tokens":4,"arrival_rate":400"#),
        ] {
            let run = |int8: &str| {
                let of = format!(
                    r#"{{"precision":"{precision}","int8":"{int8}","batch":2,"sequence_length":16{more}}}"#
                );
                finished(&run_file(Model::LlamaTiny, task, &of)).0
            };
            let [plain, rounded] = ["none", "dynamic"].map(run);
            let of = |name: &str| (plain[name], rounded[name]);
            let (count, same) = of("parameters_count");
            assert!((count - same).abs() < 1e-9, "{task}: {count} {same}");
            let (most, least) = of("parameter_bytes");
            // Some half of the tiny model's values are its words.
            assert!(least < 0.85 * most, "{precision} {task}: {least} {most}");
        }
    }
}
