//! What only decoders do: adapters, and half precision throughout.

use protocol::{Model, Task};
use scenario::{
    models::{self, KeyValues},
    nn::Pass,
    training::{StepLog, Unobserved},
};
use tch::{Device, Kind, Tensor};

use crate::support::{alone, batches, placement, variant, work};

#[test]
fn only_adapters_have_gradients_and_state() {
    let _turn = alone();
    let variant = variant(r#"{"batch":2,"optimizer":"adamw","lora_rank":4}"#);
    let mut work = work(Model::LlamaTiny, Task::Training, &variant, 1);
    let batches = batches(Model::LlamaTiny, &variant, 1);
    let log = StepLog::new(20, Device::Cpu).unwrap();
    // Two layers: 64 to 64 of queries, 64 to 32 of values.
    let count = 2 * 4 * ((64 + 64) + (64 + 32));
    assert_eq!(work.parameters().count(), count);
    assert_eq!(work.parameters().bytes(), 4 * (139_584 + count));
    let trained = work.parameters().trained();
    assert_eq!(
        trained[1].0,
        "model.layers.0.self_attn.q_proj.lora_B.weight"
    );
    assert_eq!(trained.len(), 8);
    for step in 0..20 {
        work.step(step, &batches, &log, &mut Unobserved).unwrap();
    }
    assert_eq!(work.gradient_bytes(), Some(4 * count));
    // Two averages of each value, and one counter of each tensor.
    assert_eq!(work.optimizer_bytes(), Some(4 * (2 * count + 8)));
    let losses = log.losses().unwrap();
    assert!(losses[19] < losses[0], "{losses:?}");
}

#[test]
fn merged_adapters_compute_the_same() {
    let _turn = alone();
    let adapted = |targets: &str| {
        let json = format!(r#"{{"batch":2,"lora_rank":4,"lora_targets":"{targets}"}}"#);
        let variant = variant(&json);
        libtorch::seed(3).unwrap();
        let placement = placement(&variant, true);
        let mut built = models::build(Model::LlamaTiny, placement).unwrap();
        let tokens = &batches(Model::LlamaTiny, &variant, 1)[0].input;
        let _untracked = tch::no_grad_guard();
        let plain = built.network.forward(tokens, Pass::default()).unwrap();
        models::adapt(&mut built, &variant).unwrap();
        let fresh = built.network.forward(tokens, Pass::default()).unwrap();
        assert_eq!(fresh, plain, "an adapter begins as nothing");
        for (_, tensor) in built.parameters.trained() {
            let _ = tensor.shallow_clone().normal_(0.0, 0.05);
        }
        let apart = built.network.forward(tokens, Pass::default()).unwrap();
        built.network.merge().unwrap();
        let merged = built.network.forward(tokens, Pass::default()).unwrap();
        let difference = |one: &Tensor, other: &Tensor| (one - other).abs().max().double_value(&[]);
        assert!(difference(&apart, &plain) > 1e-3, "{targets}");
        assert!(difference(&apart, &merged) < 1e-5, "{targets}");
        built.parameters.trained().len()
    };
    assert_eq!(adapted("q+v"), 2 * 2 * 2);
    assert_eq!(adapted("q+k+v+o+gate+up+down"), 2 * 2 * 7);
}

#[test]
fn merging_leaves_the_model_s_own_parameters() {
    let _turn = alone();
    let variant = variant(r#"{"lora_rank":4,"lora_merged":true}"#);
    let work = work(Model::LlamaTiny, Task::Inference, &variant, 1);
    assert_eq!(work.parameters().count(), 139_584);
    assert_eq!(work.parameters().bytes(), 4 * 139_584);
}

#[test]
fn no_more_tokens_come_in_than_there_is_room_for() {
    let _turn = alone();
    let variant = variant(r#"{"batch":2}"#);
    let work = work(Model::LlamaTiny, Task::Generation, &variant, 1);
    let tokens = &batches(Model::LlamaTiny, &variant, 1)[0].input;
    let mut seen = KeyValues::new(33);
    let _ = work.next_scores(tokens, &mut seen).unwrap();
    // Attention would have the first of two see the second.
    let two = tokens.narrow(1, 0, 2);
    assert!(work.next_scores(&two, &mut seen).is_err());
    let one = tokens.narrow(1, 0, 1);
    let _ = work.next_scores(&one, &mut seen).unwrap();
    let error = work.next_scores(&one, &mut seen).unwrap_err().to_string();
    assert!(
        error.contains("1 tokens cannot come after 33 in 33 positions"),
        "{error}"
    );
}

#[test]
fn sequences_of_several_lengths_go_on_beside_each_other_as_alone() {
    let _turn = alone();
    let variant = variant(r#"{"batch":2}"#);
    let work = work(Model::LlamaTiny, Task::Serving, &variant, 1);
    let tokens = &batches(Model::LlamaTiny, &variant, 1)[0].input;
    // The second one comes in when the first one has gone on for two tokens.
    let prompts = [
        tokens.narrow(0, 0, 1).narrow(1, 0, 5),
        tokens.narrow(0, 1, 1).narrow(1, 0, 9),
    ];
    let of = |token: i64| Tensor::from_slice(&[token]).view([1, 1]);
    let likeliest = |scores: &Tensor| scores.argmax(-1, false).int64_value(&[0, 0]);
    let expected = prompts.each_ref().map(|prompt| {
        let mut seen = KeyValues::new(20);
        let mut scores = vec![work.next_scores(prompt, &mut seen).unwrap()];
        for step in 0..4 {
            let token = of(likeliest(&scores[step]));
            scores.push(work.next_scores(&token, &mut seen).unwrap());
        }
        scores
    });

    let position = Tensor::zeros([2], (Kind::Int64, Device::Cpu));
    let mut seen = KeyValues::new(20);
    seen.follow(&position);
    let mut last = Tensor::zeros([2, 1], (Kind::Int64, Device::Cpu));
    let _ = work.next_scores(&last, &mut seen).unwrap();
    let mut got = [Vec::new(), Vec::new()];
    for (place, steps) in [(0, 2), (1, 2)] {
        let index = i64::try_from(place).unwrap();
        let mut own = seen.of_sequence(place).unwrap();
        got[place].push(work.next_scores(&prompts[place], &mut own).unwrap());
        let token = of(likeliest(&got[place][0]));
        last.narrow(0, index, 1).copy_(&token);
        let length = prompts[place].size()[1];
        let _ = position.narrow(0, index, 1).fill_(length);
        for _ in 0..steps {
            let scores = work.next_scores(&last, &mut seen).unwrap();
            last = scores.argmax(-1, false);
            for (one, got) in (0..).zip(got.iter_mut()).take(place + 1) {
                got.push(scores.narrow(0, one, 1));
                let _ = position.narrow(0, one, 1).g_add_scalar_(1);
            }
        }
    }
    assert_eq!([got[0].len(), got[1].len()], [5, 3]);
    for (got, expected) in got.iter().zip(&expected) {
        for (step, (got, expected)) in got.iter().zip(expected).enumerate() {
            let far = (got - expected).abs().max().double_value(&[]);
            assert!(far < 1e-5, "{step}: {far}");
        }
    }
}

#[test]
fn half_precision_halves_parameters_gradients_and_state() {
    let _turn = alone();
    let variant = variant(r#"{"batch":4,"optimizer":"adamw","precision":"bf16"}"#);
    for model in [Model::LlamaTiny, Model::BertTiny] {
        let mut work = work(model, Task::Training, &variant, 1);
        let batches = batches(model, &variant, 1);
        let log = StepLog::new(20, Device::Cpu).unwrap();
        for step in 0..20 {
            work.step(step, &batches, &log, &mut Unobserved).unwrap();
        }
        let parameters = work.parameters();
        let is_half = |tensor: &Tensor| tensor.kind() == Kind::BFloat16;
        assert!(
            parameters
                .trained()
                .iter()
                .all(|(_, tensor)| is_half(tensor))
        );
        assert_eq!(work.gradient_bytes(), Some(2 * parameters.count()));
        let losses = log.losses().unwrap();
        assert!(losses[19] < 0.98 * losses[0], "{model}: {losses:?}");
    }
}
