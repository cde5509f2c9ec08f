//! Ways to need less memory: what they change, and what they do not. What is offloaded to a host
//! goes, where the device is the CPU, to memory that libtorch does not count.

use protocol::{Model, Task};
use scenario::training::{StepLog, Unobserved, Work};
use tch::{Device, Tensor};

use crate::support::{alone, batches, gradients, variant, work};

/// A model that took so many steps, and their losses.
fn trained(model: Model, json: &str, steps: u32) -> (Work, Vec<f64>) {
    let variant = variant(json);
    let mut work = work(model, Task::Training, &variant, 5);
    let batches = batches(model, &variant, work.wanted_micro_batches());
    let log = StepLog::new(steps, Device::Cpu).unwrap();
    libtorch::seed(6).unwrap();
    for step in 0..steps {
        work.step(step, &batches, &log, &mut Unobserved).unwrap();
    }
    (work, log.losses().unwrap())
}

fn parameters(work: &Work) -> Vec<Tensor> {
    let all = work.parameters().trained().iter();
    all.map(|(_, tensor)| tensor.detach().copy()).collect()
}

#[test]
fn offloaded_activations_change_no_bit() {
    let _turn = alone();
    for (model, others) in [
        (Model::ResnetTiny, r#""batch":4"#),
        (
            Model::ResnetTiny,
            r#""batch":4,"memory_format":"channels-last""#,
        ),
        (Model::BertTiny, r#""batch":4,"accumulation":2"#),
        (Model::BertTiny, r#""batch":4,"checkpointing":"blocks""#),
        (Model::LlamaTiny, r#""batch":2,"lora_rank":4"#),
        (Model::LlamaTiny, r#""batch":2,"precision":"bf16""#),
        (Model::VitTiny, r#""batch":4,"precision":"amp-bf16""#),
        (
            Model::VitTiny,
            r#""batch":4,"precision":"amp-bf16","fp8":"row""#,
        ),
        (Model::Unet3dTiny, r#""batch":2"#),
        (Model::Unet3dTiny, r#""batch":2,"checkpointing":"blocks""#),
        (Model::VitTiny, r#""batch":4,"checkpointing":"every-2""#),
    ] {
        let plain = trained(model, &format!("{{{others}}}"), 3);
        let json = format!(r#"{{{others},"offload":"activations"}}"#);
        let offloaded = trained(model, &json, 3);
        assert_eq!(plain.1, offloaded.1, "{model} {others}");
        let pairs = gradients(&plain.0).into_iter();
        for ((name, one), (_, other)) in pairs.zip(gradients(&offloaded.0)) {
            assert!(one.equal(&other), "{model} {others}: {name}");
        }
        assert!(plain.0.moved().is_none());
        let (moved, pinned) = offloaded.0.moved().unwrap();
        // One group of blocks alone has nothing to offload: backward begins with it.
        let is_one_group = others.contains("every-2");
        assert_eq!(moved == 0, is_one_group, "{model} {others}");
        assert!(pinned <= moved, "{model} {others}");
    }
}

#[test]
fn an_optimizer_on_the_host_moves_the_parameters_alike() {
    let _turn = alone();
    for others in [
        r#""batch":4,"optimizer":"adamw""#,
        r#""batch":4,"optimizer":"sgd-momentum","accumulation":2"#,
        r#""batch":4,"optimizer":"adamw","precision":"amp-fp16""#,
    ] {
        let (plain, losses) = trained(Model::VitTiny, &format!("{{{others}}}"), 6);
        let json = format!(r#"{{{others},"offload":"both"}}"#);
        let (offloaded, on_host) = trained(Model::VitTiny, &json, 6);
        for (one, other) in losses.iter().zip(&on_host) {
            assert!((one - other).abs() <= 1e-5 * one, "{others}: {one} {other}");
        }
        for (one, other) in parameters(&plain).iter().zip(parameters(&offloaded)) {
            assert!(one.allclose(&other, 1e-4, 1e-6, false), "{others}");
        }
        // Neither gradients nor state are left on the device, and each parameter's bytes go both
        // ways in each step.
        let bytes = offloaded.parameters().bytes();
        assert_eq!(offloaded.gradient_bytes(), Some(0), "{others}");
        assert_eq!(offloaded.optimizer_bytes(), Some(0), "{others}");
        assert!(plain.optimizer_bytes() >= Some(bytes), "{others}");
        let (moved, pinned) = offloaded.moved().unwrap();
        assert!(moved >= 6 * 2 * bytes && pinned >= 2 * bytes, "{others}");
        assert_eq!(plain.loss_scale().unwrap(), offloaded.loss_scale().unwrap());
    }
}

#[test]
fn a_digest_of_gradients_on_the_host_is_theirs() {
    let _turn = alone();
    let digest = |json: &str| {
        let (work, _) = trained(Model::VitTiny, json, 1);
        work.gradient_digest().unwrap()
    };
    let plain = digest(r#"{"batch":4}"#);
    assert_eq!(plain, digest(r#"{"batch":4,"offload":"optimizer"}"#));
    assert_ne!(plain, digest(r#"{"batch":2,"offload":"optimizer"}"#));
}

/// Mean of the last ten losses, whose noise is the dropout's.
fn end(losses: &[f64]) -> f64 {
    losses[losses.len() - 10..].iter().sum::<f64>() / 10.0
}

#[test]
fn shorter_forms_learn_as_well() {
    const STEPS: u32 = 200;
    let _turn = alone();
    for model in [Model::BertTiny, Model::VitTiny] {
        let losses = |more: &str| {
            let json = format!(r#"{{"batch":4,"optimizer":"adamw"{more}}}"#);
            trained(model, &json, STEPS).1
        };
        let plain = losses("");
        for more in [
            r#","activations":"bf16","optimizer_state":"bf16""#,
            r#","activations":"int8""#,
            r#","optimizer_state":"int8""#,
            r#","activations":"int8","optimizer_state":"int8","offload":"both""#,
        ] {
            let short = losses(more);
            let (plain, short) = (end(&plain), end(&short));
            // An 8-bit state rounds moments that change by a thousandth a step.
            let most = [0.01, 0.02][usize::from(more.contains("state\":\"int8"))];
            let off = (short - plain) / plain;
            assert!(
                off != 0.0 && off.abs() < most,
                "{model}{more}: {plain} {short}"
            );
        }
        // Such a tolerance means something where there was something to learn.
        assert!(end(&plain) < 0.9 * plain[0], "{model}: {plain:?}");
    }
}

#[test]
fn a_shorter_state_takes_less_memory() {
    let _turn = alone();
    let bytes = |form: &str| {
        let json = format!(r#"{{"batch":2,"optimizer":"adamw","optimizer_state":"{form}"}}"#);
        let (work, _) = trained(Model::VitTiny, &json, 2);
        work.optimizer_bytes().unwrap() as f64
    };
    let plain = bytes("fp32");
    for (form, most) in [("bf16", 0.52), ("int8", 0.28)] {
        let share = bytes(form) / plain;
        assert!(share > 0.24 && share < most, "{form}: {share}");
    }
}
