//! The same function as `PyTorch`'s, against the golden data that `golden/make.py` writes.
//!
//! Everything goes through the library as the binary does: [`models::build`], [`Work`] and
//! its steps. Parameters and inputs come out of a rule that both sides compute bit for bit;
//! `golden/README.md` states it and what the fixtures hold. Both sides then compute in double
//! precision: in single precision rounding alone turns a `ReLU` over here and there, and later
//! losses differ from one CPU's kernels to another's, in `PyTorch` as here.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    sync::{Mutex, MutexGuard, PoisonError},
};

use protocol::{MemoryFormat, Model, Task, Variant};
use scenario::{
    data::Batch,
    models::{self, Built, IGNORED_LABEL, KeyValues, Network},
    nn::{Parameters, Pass, Placement, Rounding},
    run::generation::{Fixed, answer},
    training::{StepLog, Unobserved, Work},
};
use serde_json::{Value, from_value, json};
use tch::{Device, Kind, Tensor};

/// The most by which losses may differ from the reference's, as a share of it: they are kept in
/// single precision.
const LOSSES: f64 = 1e-6;
/// The same for logits.
const SCORES: f64 = 1e-9;
/// The same for gradients and running statistics.
const NORMS: f64 = 1e-9;
/// The same for how far parameters moved, which five steps of rounding have gone into.
const MOVED: f64 = 1e-8;
/// What counts as nothing, as a share of the norm of all gradients together: a key's bias
/// has no gradient but rounding, because softmax does not see what all its inputs share.
const ROUNDING: f64 = 1e-12;

/// Where the fixtures have the norms of the gradients of the first step.
const GRADIENTS: &str = "/first_step/gradient_norms";

const STEPS: u32 = 5;
const IMAGE: i64 = 224;
const CLASSES: u64 = 1000;
const TOKENS: u64 = 30_522;
const MASK_TOKEN: i64 = 103;
const LLAMA: &str = include_str!("../golden/llama-tiny.json");
const LLAMA_TOKENS: u64 = 1024;
/// The most by which anything of a Llama may differ: transformers normalises in single precision,
/// whatever the model's is.
const LLAMA_ROUNDING: f64 = 1e-5;

#[test]
fn resnet50_is_torchvisions() {
    let images = |golden: &Golden| images(golden.input("batch"));
    check(
        Model::Resnet50,
        include_str!("../golden/resnet50.json"),
        images,
    );
}

#[test]
fn bert_base_is_transformers() {
    let sequences = |golden: &Golden| {
        let shape = [golden.input("batch"), golden.input("sequence_length")];
        sequences(shape, golden.input("padded"))
    };
    check(
        Model::BertBase,
        include_str!("../golden/bert-base.json"),
        sequences,
    );
}

#[test]
fn llama_tiny_is_transformers() {
    let texts = |golden: &Golden| texts([golden.input("batch"), golden.input("sequence_length")]);
    check(Model::LlamaTiny, LLAMA, texts);
}

#[test]
fn llama_tiny_generates_what_transformers_generates() {
    let _turn = alone();
    let golden = Golden(serde_json::from_str(LLAMA).unwrap());
    let expected: Vec<Vec<i64>> = from_value(golden.at("/generation/tokens")).unwrap();
    let expected = Tensor::from_slice2(&expected);
    let new_tokens = u32::try_from(expected.size()[1]).unwrap();
    let length: u32 = from_value(golden.at("/generation/prompt")).unwrap();
    let texts = texts([golden.input("batch"), golden.input("sequence_length")]).input;
    let prompt = texts.narrow(1, 0, length.into());

    let built = build(Model::LlamaTiny);
    fill(&built.parameters);
    for (_, tensor) in built.parameters.trained() {
        let single = tensor.detach().to_kind(Kind::Float);
        tensor.shallow_clone().set_data(&single);
    }
    let mut comparison = Comparison {
        rounding: 1e-4,
        ..Comparison::default()
    };
    let forward = |tokens: &Tensor| built.network.forward(tokens, Pass::default()).unwrap();
    let _untracked = tch::no_grad_guard();
    comparison.logits(&golden, "/inference", &forward(&texts));

    // Without keys and values of before, everything is computed anew for each token.
    let mut tokens = prompt.shallow_clone();
    for _ in 0..new_tokens {
        let next = forward(&tokens).select(1, -1).argmax(-1, true);
        tokens = Tensor::cat(&[tokens, next], 1);
    }
    assert_eq!(tokens.narrow(1, length.into(), new_tokens.into()), expected);

    let variant = Variant::default();
    let work = Work::new(built, Task::Generation, &variant, Device::Cpu).unwrap();
    let mut seen = KeyValues::new(length + new_tokens);
    // The second way is what a CUDA graph replays.
    let mut fixed = Fixed::new(2, Device::Cpu).unwrap();
    for fixed in [None, Some(&mut fixed), None] {
        let device = protocol::Device::Cpu;
        let answer = answer(&work, &prompt, new_tokens, &mut seen, fixed, device).unwrap();
        assert_eq!(answer.tokens, expected);
    }
    comparison.finish(Model::LlamaTiny);
}

#[test]
fn vit_b16_is_timms() {
    let images = |golden: &Golden| images(golden.input("batch"));
    check(
        Model::VitB16,
        include_str!("../golden/vit-b16.json"),
        images,
    );
}

/// Compares a model in all that its fixture holds.
fn check(model: Model, fixture: &str, batch: impl Fn(&Golden) -> Batch) {
    let _turn = alone();
    let golden = Golden(serde_json::from_str(fixture).unwrap());
    let batch = batch(&golden);
    let mut comparison = Comparison {
        rounding: if model == Model::LlamaTiny {
            LLAMA_ROUNDING
        } else {
            0.0
        },
        ..Comparison::default()
    };

    let built = build(model);
    assert_eq!(
        shapes(built.parameters.trained()),
        golden.shapes("/parameters")
    );
    assert_eq!(
        shapes(built.parameters.buffers()),
        golden.shapes("/buffers")
    );
    let checksum = fill(&built.parameters);
    assert_eq!(
        Some(checksum),
        golden.0["fill_checksum"].as_u64(),
        "the rule differs"
    );
    let scores = tch::no_grad(|| built.network.forward(&batch.input, Pass::default()));
    comparison.logits(&golden, "/inference", &scores.unwrap());
    drop(built);

    for optimizer in ["sgd-momentum", "adamw"] {
        train(model, optimizer, &batch, &golden, &mut comparison);
    }
    comparison.finish(model);
}

/// All steps with one optimizer.
fn train(
    model: Model,
    optimizer: &str,
    batch: &Batch,
    golden: &Golden,
    comparison: &mut Comparison,
) {
    let variant: Variant = from_value(json!({ "batch": 2, "optimizer": optimizer })).unwrap();
    let Built {
        network,
        parameters,
    } = build(model);
    fill(&parameters);
    let first_scores = Rc::default();
    let watched = Watched {
        network,
        // BERT alone has dropout, and nothing else of it asks whether it is trained.
        dropout: model == Model::BertBase,
        first_scores: Rc::clone(&first_scores),
    };
    let built = Built {
        network: Box::new(watched),
        parameters,
    };
    let mut work = Work::new(built, Task::Training, &variant, Device::Cpu).unwrap();
    let log = StepLog::new(STEPS, Device::Cpu).unwrap();
    let batch = std::slice::from_ref(batch);

    work.step(0, batch, &log, &mut Unobserved).unwrap();
    let scores = first_scores.take().expect("the scores of the first step");
    comparison.logits(golden, "/first_step/logits", &scores);
    let gradients = work.parameters().trained().iter().map(|(name, tensor)| {
        let gradient = libtorch::autograd::gradient(tensor).unwrap();
        (name.as_str(), norm(&gradient.expect("a gradient")))
    });
    comparison.norms(golden, GRADIENTS, gradients);
    let buffers = work.parameters().buffers().iter();
    let buffers = buffers.map(|(name, tensor)| (name.as_str(), norm(tensor)));
    comparison.norms(golden, "/first_step/buffer_norms", buffers);

    for step in 1..STEPS {
        work.step(step, batch, &log, &mut Unobserved).unwrap();
    }
    let path = format!("/training/{optimizer}");
    let expected = golden.numbers(&format!("{path}/losses"));
    let losses = log.losses().unwrap();
    assert_eq!(losses.len(), expected.len());
    for (step, (loss, expected)) in losses.into_iter().zip(expected).enumerate() {
        let what = format!("{path}/losses/{step}");
        comparison.note(&what, (loss, expected), expected, LOSSES);
    }
    let moved = work.parameters().trained().iter().map(|(name, tensor)| {
        let first = by_rule(name, &tensor.size()).to_kind(Kind::Double);
        (name.as_str(), norm(&(tensor.to_kind(Kind::Double) - first)))
    });
    tch::no_grad(|| comparison.norms(golden, &format!("{path}/moved"), moved));
}

/// A model that keeps the scores of its first step, and leaves dropout out where told.
#[derive(Debug)]
struct Watched {
    network: Box<dyn Network>,
    dropout: bool,
    first_scores: Rc<RefCell<Option<Tensor>>>,
}

impl Network for Watched {
    fn forward(&self, input: &Tensor, pass: Pass) -> libtorch::Result<Tensor> {
        let training = pass.training && !self.dropout;
        self.network.forward(input, Pass { training, ..pass })
    }

    fn loss(&self, scores: Tensor, labels: &Tensor) -> libtorch::Result<Tensor> {
        self.first_scores
            .borrow_mut()
            .get_or_insert_with(|| scores.detach().copy());
        self.network.loss(scores, labels)
    }
}

/// Models of this size take turns, so that only one is in memory.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn build(model: Model) -> Built {
    let placement = Placement {
        device: Device::Cpu,
        memory_format: MemoryFormat::Contiguous,
        kind: Kind::Float,
        rounding: Rounding::None,
        fill: false,
    };
    models::build(model, placement).unwrap()
}

fn shapes(tensors: &[(String, Tensor)]) -> BTreeMap<String, Vec<i64>> {
    tensors
        .iter()
        .map(|(name, tensor)| (name.clone(), tensor.size()))
        .collect()
}

fn norm(tensor: &Tensor) -> f64 {
    let tensor = tensor.detach().to_kind(Kind::Double);
    tensor.norm().double_value(&[])
}

/// A fixture, read by paths such as `/training/adamw/losses`.
struct Golden(Value);

impl Golden {
    fn at(&self, path: &str) -> Value {
        let value = self.0.pointer(path);
        value
            .unwrap_or_else(|| panic!("no {path} in the fixture"))
            .clone()
    }

    fn input(&self, name: &str) -> usize {
        from_value(self.at(&format!("/input/{name}"))).unwrap()
    }

    fn number(&self, path: &str) -> f64 {
        from_value(self.at(path)).unwrap()
    }

    fn numbers(&self, path: &str) -> Vec<f64> {
        from_value(self.at(path)).unwrap()
    }

    fn norms(&self, path: &str) -> BTreeMap<String, f64> {
        from_value(self.at(path)).unwrap()
    }

    fn shapes(&self, path: &str) -> BTreeMap<String, Vec<i64>> {
        from_value(self.at(path)).unwrap()
    }
}

/// What was compared, and what differs too much.
#[derive(Default)]
struct Comparison {
    /// The largest deviation of each quantity, such as `/training/adamw/moved`.
    largest: BTreeMap<String, f64>,
    /// What every deviation may reach.
    rounding: f64,
    failures: String,
}

impl Comparison {
    /// Notes a deviation as a share of `scale`; `limit` is the most it may be.
    fn note(&mut self, what: &str, (got, expected): (f64, f64), scale: f64, limit: f64) {
        let deviation = (got - expected).abs() / scale.abs();
        if deviation.is_nan() || deviation > limit.max(self.rounding) {
            let line = format!("{what}: {got:e}, PyTorch has {expected:e}: {deviation:.1e}\n");
            self.failures.push_str(&line);
        }
        let quantity = what.rsplit_once('/').map_or("", |(quantity, _)| quantity);
        let largest = self.largest.entry(quantity.to_owned()).or_insert(0.0);
        *largest = largest.max(deviation);
    }

    /// Some scores one by one and all together. A score near zero is a difference of larger
    /// ones, so none is measured against less than their root mean square.
    fn logits(&mut self, golden: &Golden, path: &str, scores: &Tensor) {
        let shape: Vec<i64> = from_value(golden.at(&format!("{path}/shape"))).unwrap();
        assert_eq!(scores.size(), shape, "{path}");
        let scores = scores.to_kind(Kind::Double).flatten(0, -1);
        let count = scores.numel();
        let expected_norm = golden.number(&format!("{path}/norm"));
        let usual = expected_norm / (count as f64).sqrt();
        let samples = golden.numbers(&format!("{path}/samples"));
        let positions = below("samples", samples.len(), count as u64);
        for (position, expected) in positions.into_iter().zip(samples) {
            let got = scores.double_value(&[position]);
            let scale = expected.abs().max(usual);
            self.note(
                &format!("{path}/{position}"),
                (got, expected),
                scale,
                SCORES,
            );
        }
        let magnitudes = golden.number(&format!("{path}/sum_of_magnitudes"));
        for (what, got, scale) in [
            ("sum", scores.sum(None), magnitudes),
            ("sum_of_magnitudes", scores.abs().sum(None), magnitudes),
            ("norm", scores.norm(), expected_norm),
        ] {
            let what = format!("{path}/{what}");
            let expected = golden.number(&what);
            self.note(&what, (got.double_value(&[]), expected), scale, SCORES);
        }
    }

    /// Norms by name. All of them must be there, and no others.
    fn norms<'a>(
        &mut self,
        golden: &Golden,
        path: &str,
        norms: impl Iterator<Item = (&'a str, f64)>,
    ) {
        let mut expected = golden.norms(path);
        let gradients = golden.norms(GRADIENTS);
        let together = gradients.values().map(|norm| norm * norm).sum::<f64>();
        let nothing = ROUNDING * together.sqrt();
        let limit = if path.ends_with("/moved") {
            MOVED
        } else {
            NORMS
        };
        for (name, got) in norms {
            let expected = expected
                .remove(name)
                .unwrap_or_else(|| panic!("{path} has no {name}"));
            // Nor does it matter where an optimizer takes a parameter by rounding alone; that
            // this library's gradient is nothing as well is seen among the gradients.
            let gradient = match path {
                GRADIENTS => Some(if got.is_nan() {
                    f64::INFINITY
                } else {
                    got.max(expected)
                }),
                _ => gradients.get(name).copied(),
            };
            if gradient.is_none_or(|gradient| gradient > nothing) {
                self.note(&format!("{path}/{name}"), (got, expected), expected, limit);
            }
        }
        assert!(expected.is_empty(), "{path}: missing {expected:?}");
    }

    #[expect(clippy::print_stderr, reason = "seen with --nocapture alone")]
    fn finish(self, model: Model) {
        for (quantity, deviation) in &self.largest {
            eprintln!("{model}{quantity}: at most {deviation:.1e}");
        }
        assert!(
            self.failures.is_empty(),
            "{model} differs:\n{}",
            self.failures
        );
    }
}

/// Number `index` of a name: `SplitMix64` from the name's FNV-1a hash.
fn hashes(name: &str) -> impl Iterator<Item = u64> {
    let state = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |state: u64, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        });
    (1_u64..).map(move |index| {
        let mut z = index
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(state);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

/// Multiples of 2⁻²³ in -1..1, which single precision holds exactly.
fn uniform(name: &str) -> impl Iterator<Item = f32> {
    const HALF: i32 = 1 << 23;
    hashes(name).map(|hash| ((hash >> 40) as i32 - HALF) as f32 / HALF as f32)
}

fn below(name: &str, count: usize, bound: u64) -> Vec<i64> {
    hashes(name)
        .take(count)
        .map(|hash| i64::try_from(hash % bound).unwrap())
        .collect()
}

/// What a tensor's values lie around, and how far from it.
fn middle_and_bound(name: &str, shape: &[i64]) -> (f32, f32) {
    let last = name.rsplit('.').next().unwrap();
    // What keeps rounding from growing, in ResNet from block to block and in a ViT from step
    // to step.
    if name.ends_with("bn3.weight") {
        return (0.2, 0.1);
    }
    if name == "norm.weight" {
        return (0.1, 0.05);
    }
    let fan_in = match shape {
        [_] if last == "running_var" || last == "weight" => return (1.0, 0.1),
        [_] => return (0.0, 0.05),
        // Tables [1, rows, width] as any other table.
        &[_, _, width] => width,
        [_, rest @ ..] => rest.iter().product(),
        [] => unreachable!("{name} has no dimension"),
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounded, as the reference's is"
    )]
    let bound = (3.0 / fan_in as f64).sqrt() as f32;
    (0.0, bound)
}

fn by_rule(name: &str, shape: &[i64]) -> Tensor {
    let (middle, bound) = middle_and_bound(name, shape);
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
    let values: Vec<f32> = uniform(name)
        .take(count)
        .map(|share| middle + bound * share)
        .collect();
    Tensor::from_slice(&values).view(shape)
}

/// Fills everything but counters, and makes it double. The sum of all bit patterns before.
fn fill(parameters: &Parameters) -> u64 {
    let mut checksum = 0_u64;
    let tensors = parameters.trained().iter().chain(parameters.buffers());
    for (name, tensor) in tensors.filter(|(_, tensor)| tensor.kind() == Kind::Float) {
        let values = by_rule(name, &tensor.size());
        tensor
            .shallow_clone()
            .set_data(&values.to_kind(Kind::Double));
        let values: Vec<f32> = values.flatten(0, -1).try_into().unwrap();
        let bits = values.iter().map(|value| u64::from(value.to_bits()));
        checksum = checksum.wrapping_add(bits.sum());
    }
    checksum
}

fn images(batch: usize) -> Batch {
    let count = batch * usize::try_from(3 * IMAGE * IMAGE).unwrap();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounded, as the reference's is"
    )]
    let bound = 3.0_f64.sqrt() as f32;
    let pixels: Vec<f32> = uniform("images")
        .take(count)
        .map(|share| share * bound)
        .collect();
    Batch {
        input: Tensor::from_slice(&pixels)
            .view([-1, 3, IMAGE, IMAGE])
            .to_kind(Kind::Double),
        labels: Tensor::from_slice(&below("labels", batch, CLASSES)),
    }
}

/// The label of each token is the next one.
fn texts([batch, length]: [usize; 2]) -> Batch {
    let tokens = below("tokens", batch * (length + 1), LLAMA_TOKENS);
    let tokens = Tensor::from_slice(&tokens).view([i64::try_from(batch).unwrap(), -1]);
    let length = tokens.size()[1] - 1;
    Batch {
        input: tokens.narrow(1, 0, length),
        labels: tokens.narrow(1, 1, length),
    }
}

/// The last `padded` positions of the last sequence are `[PAD]`, whose row is not trained
/// as an input.
fn sequences([batch, length]: [usize; 2], padded: usize) -> Batch {
    let count = batch * length;
    let mut tokens = below("tokens", count, TOKENS);
    tokens[count - padded..].fill(0);
    let mut labels = vec![IGNORED_LABEL; count];
    for (position, draw) in below("masks", count, 100).into_iter().enumerate() {
        if draw < 15 {
            labels[position] = std::mem::replace(&mut tokens[position], MASK_TOKEN);
        }
    }
    let shape = [-1, i64::try_from(length).unwrap()];
    Batch {
        input: Tensor::from_slice(&tokens).view(shape),
        labels: Tensor::from_slice(&labels).view(shape),
    }
}
