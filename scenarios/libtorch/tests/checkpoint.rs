//! Checkpointed gradients are those of the plain computation, bit for bit.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use libtorch::{Error, Result, autocast, autograd, checkpoint};
use tch::{Device, Kind, Tensor};

/// libtorch's generator belongs to the process, and every checkpoint winds it back in backward
/// to recompute and forward again: each test here takes its turn.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

/// A layer with dropout, as a transformer block has it.
struct Block {
    weight: Tensor,
    bias: Tensor,
}

impl Block {
    fn new(seed: i64) -> Self {
        tch::manual_seed(seed);
        Self {
            weight: (Tensor::randn([16, 16], CPU) * 0.3).set_requires_grad(true),
            bias: Tensor::randn([16], CPU).set_requires_grad(true),
        }
    }

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut hidden = input.f_linear(&self.weight, Some(&self.bias))?;
        hidden = hidden.f_gelu("none")?;
        Ok(hidden.f_dropout(0.5, true)?)
    }

    fn gradients(&self) -> Vec<Tensor> {
        [&self.weight, &self.bias]
            .into_iter()
            .map(|parameter| {
                autograd::gradient(parameter)
                    .unwrap()
                    .expect("a gradient")
                    .copy()
            })
            .collect()
    }

    fn zero_grad(&self) {
        autograd::zero_grad(&[&self.weight, &self.bias]).unwrap();
    }
}

/// How the blocks are put together.
type Assembly = fn(&[Arc<Mutex<Block>>], &Tensor) -> Result<Tensor>;

fn plain(blocks: &[Arc<Mutex<Block>>], input: &Tensor) -> Result<Tensor> {
    let mut hidden = input.shallow_clone();
    for block in blocks {
        hidden = block.lock().unwrap().forward(&hidden)?;
    }
    Ok(hidden)
}

fn each_block(blocks: &[Arc<Mutex<Block>>], input: &Tensor) -> Result<Tensor> {
    let mut hidden = input.shallow_clone();
    for block in blocks {
        let block = Arc::clone(block);
        hidden = checkpoint::run(&hidden, move |hidden| block.lock().unwrap().forward(hidden))?;
    }
    Ok(hidden)
}

fn all_in_one(blocks: &[Arc<Mutex<Block>>], input: &Tensor) -> Result<Tensor> {
    let blocks = blocks.to_vec();
    checkpoint::run(input, move |input| plain(&blocks, input))
}

fn nested(blocks: &[Arc<Mutex<Block>>], input: &Tensor) -> Result<Tensor> {
    let blocks = blocks.to_vec();
    checkpoint::run(input, move |input| {
        let hidden = each_block(&blocks[..1], input)?;
        let rest = blocks[1..].to_vec();
        checkpoint::run(&hidden, move |hidden| each_block(&rest, hidden))
    })
}

/// Loss, gradient of the input where it wants one, then those of all parameters, and the next
/// random number.
fn gradients(assembly: Assembly, input_requires_grad: bool) -> Vec<Tensor> {
    let blocks: Vec<_> = (0..4)
        .map(|seed| Arc::new(Mutex::new(Block::new(seed))))
        .collect();
    tch::manual_seed(7);
    let input = Tensor::randn([8, 16], CPU).set_requires_grad(input_requires_grad);
    let loss = assembly(&blocks, &input)
        .unwrap()
        .square()
        .mean(Kind::Float);
    autograd::backward(&loss).unwrap();
    let mut result = vec![loss.detach()];
    if input_requires_grad {
        result.push(autograd::gradient(&input).unwrap().expect("a gradient"));
    } else {
        assert!(autograd::gradient(&input).unwrap().is_none());
    }
    for block in &blocks {
        let block = block.lock().unwrap();
        result.extend(block.gradients());
        block.zero_grad();
    }
    result.push(Tensor::rand([4], CPU));
    result
}

#[track_caller]
fn check(assembly: Assembly) {
    let _turn = alone();
    for input_requires_grad in [true, false] {
        let expect = gradients(plain, input_requires_grad);
        let got = gradients(assembly, input_requires_grad);
        assert_eq!(got.len(), expect.len());
        for (position, (got, expect)) in got.iter().zip(&expect).enumerate() {
            assert!(got.equal(expect), "{position}: {got} instead of {expect}");
        }
    }
}

#[test]
fn each_block_by_itself() {
    check(each_block);
}

#[test]
fn all_blocks_in_one() {
    check(all_in_one);
}

#[test]
fn checkpoints_within_checkpoints() {
    check(nested);
}

#[test]
fn the_body_runs_again_in_backward_and_dies_with_the_graph() {
    let _turn = alone();
    let runs = Arc::new(AtomicUsize::new(0));
    let input = Tensor::ones([3], CPU).set_requires_grad(true);
    let counter = Arc::clone(&runs);
    let output = checkpoint::run(&input, move |input| {
        counter.fetch_add(1, Ordering::Relaxed);
        // Each product saves its factors for backward.
        Ok(input.f_mul(input)?.f_mul(input)?)
    })
    .unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    autograd::backward(&output.sum(Kind::Float)).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    drop(output);
    assert_eq!(
        Arc::strong_count(&runs),
        1,
        "the graph is gone, so its body must be"
    );
}

/// Autocast would keep its cast of a leaf, which it makes anew each time in forward.
#[test]
fn the_second_computation_gets_no_leaf_where_the_first_had_none() {
    let _turn = alone();
    let leaves = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&leaves);
    let middle = Tensor::ones([3], CPU).set_requires_grad(true) * 2.0;
    let output = checkpoint::run(&middle, move |input| {
        found.lock().unwrap().push(input.is_leaf());
        Ok(input.f_mul(input)?)
    })
    .unwrap();
    autograd::backward(&output.sum(Kind::Float)).unwrap();
    assert_eq!(*leaves.lock().unwrap(), [false, false]);
}

#[test]
fn without_gradients_the_body_runs_once_and_is_given_back() {
    let _turn = alone();
    let alive = Arc::new(2.0_f32.to_bits());
    let held = Arc::clone(&alive);
    let input = Tensor::ones([3], CPU).set_requires_grad(true);
    let output = tch::no_grad(|| {
        checkpoint::run(&input, move |input| {
            assert_eq!(*held, 2.0_f32.to_bits());
            Ok(input * f64::from(f32::from_bits(*held)))
        })
    })
    .unwrap();
    assert!(!output.requires_grad());
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_body_with_nothing_to_learn_needs_no_gradient() {
    let _turn = alone();
    let input = Tensor::ones([3], CPU);
    let output = checkpoint::run(&input, |input| Ok(input * 2.0)).unwrap();
    assert!(!output.requires_grad());
}

#[test]
fn a_body_that_is_another_one_the_second_time_is_an_error() {
    let _turn = alone();
    let check = |bodies: [fn(&Tensor) -> Result<Tensor>; 2], words: &str| {
        let runs = AtomicUsize::new(0);
        let input = Tensor::ones([3, 2], CPU).set_requires_grad(true);
        let output = checkpoint::run(&input, move |input| {
            bodies[runs.fetch_add(1, Ordering::Relaxed)](input)
        })
        .unwrap();
        let error = autograd::backward(&output.sum(Kind::Float)).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    check(
        [
            |input| Ok(input.f_mul(input)?),
            |input| Ok(input.f_add(input)?),
        ],
        "saves 0 tensors where the first saved 2",
    );
    check(
        [
            |input| Ok(input.f_mul(input)?),
            |input| {
                let turned = input.f_transpose(0, 1)?;
                Ok(turned.f_mul(&turned)?)
            },
        ],
        "saves a Float[2, 3] where the first saved a Float[3, 2]",
    );
}

#[test]
fn a_graph_that_is_kept_computes_again_for_each_backward() {
    let _turn = alone();
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let input = Tensor::full([3], 2.0, CPU).set_requires_grad(true);
    let output = checkpoint::run(&input, move |input| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(input.f_mul(input)?)
    })
    .unwrap();
    let loss = output.sum(Kind::Float);
    for expected in 1..=2 {
        let gradient = Tensor::run_backward(&[&loss], &[&input], true, false);
        assert!(gradient[0].equal(&Tensor::full([3], 4.0, CPU)));
        assert_eq!(runs.load(Ordering::Relaxed), 1 + expected);
    }
}

#[test]
fn several_inputs_and_a_captured_mask() {
    let _turn = alone();
    let run = |checkpointed: bool| {
        tch::manual_seed(3);
        let left = Tensor::randn([4, 4], CPU).set_requires_grad(true);
        let right = Tensor::randn([4, 4], CPU).set_requires_grad(true);
        let mask = Tensor::ones([4, 4], CPU).tril(0);
        let body = move |inputs: &[Tensor]| Ok((inputs[0].matmul(&inputs[1]) * &mask).tanh());
        let output = if checkpointed {
            checkpoint::run_many(&[&left, &right], body).unwrap()
        } else {
            body(&[left.shallow_clone(), right.shallow_clone()]).unwrap()
        };
        autograd::backward(&output.sum(Kind::Float)).unwrap();
        (left.grad(), right.grad())
    };
    let (expect, got) = (run(false), run(true));
    assert!(got.0.equal(&expect.0) && got.1.equal(&expect.1));
}

#[test]
fn backward_computes_in_the_type_that_forward_did() {
    let _turn = alone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let weight = Tensor::ones([8, 8], CPU).set_requires_grad(true);
    let input = Tensor::ones([2, 8], CPU);
    let (log, parameter) = (Arc::clone(&seen), weight.shallow_clone());
    let output = autocast::with(
        autocast::DeviceType::Cpu,
        Some(autocast::Dtype::BFloat16),
        true,
        || {
            checkpoint::run(&input, move |input| {
                let output = input.f_matmul(&parameter)?;
                log.lock().unwrap().push(output.kind());
                // Saves its factors: the second computation must come this far.
                Ok(output.f_mul(&output)?)
            })
        },
    )
    .unwrap()
    .unwrap();
    // Outside of the scope: backward must go back into it by itself, and out again.
    autograd::backward(&output.to_kind(Kind::Float).sum(Kind::Float)).unwrap();
    assert_eq!(*seen.lock().unwrap(), [Kind::BFloat16, Kind::BFloat16]);
    assert_eq!(weight.grad().kind(), Kind::Float);
    assert_eq!(
        autocast::state(autocast::DeviceType::Cpu).unwrap().dtype,
        None
    );
}

/// The weight cache must not hand out the first computation's copy, which has no gradient.
#[test]
fn a_parameter_used_inside_and_outside_learns_from_both() {
    let _turn = alone();
    let weight = Tensor::ones([4, 4], CPU).set_requires_grad(true);
    let input = Tensor::ones([1, 4], CPU);
    let parameter = weight.shallow_clone();
    let sum = autocast::with(
        autocast::DeviceType::Cpu,
        Some(autocast::Dtype::BFloat16),
        true,
        || {
            let inside =
                checkpoint::run(&input, move |input| Ok(input.f_matmul(&parameter)?)).unwrap();
            inside + input.matmul(&weight)
        },
    )
    .unwrap();
    autograd::backward(&sum.to_kind(Kind::Float).sum(Kind::Float)).unwrap();
    assert!(weight.grad().equal(&Tensor::full([4, 4], 2.0, CPU)));
}

#[test]
fn a_panic_in_forward_is_an_error() {
    let _turn = alone();
    let input = Tensor::ones([3], CPU).set_requires_grad(true);
    let error = checkpoint::run(&input, |_| panic!("no such block: {}", 12)).unwrap_err();
    assert_eq!(
        error,
        Error::Panic {
            message: "no such block: 12".to_owned()
        }
    );
}

#[test]
fn a_panic_in_backward_is_an_error_of_backward() {
    let _turn = alone();
    let input = Tensor::ones([3], CPU).set_requires_grad(true);
    let first = AtomicUsize::new(0);
    let body = move |input: &Tensor| -> Result<Tensor> {
        assert_eq!(
            first.fetch_add(1, Ordering::Relaxed),
            0,
            "not a second time"
        );
        Ok(input.f_mul(input)?)
    };
    let output = checkpoint::run(&input, body).unwrap();
    let error = autograd::backward(&output.sum(Kind::Float)).unwrap_err();
    assert!(
        matches!(&error, Error::Panic { message } if message.contains("not a second time")),
        "{error}"
    );
}

#[test]
fn what_libtorch_throws_in_the_body_keeps_its_words() {
    let _turn = alone();
    let input = Tensor::ones([3], CPU).set_requires_grad(true);
    let error = checkpoint::run(&input, |input| {
        Ok(input.f_matmul(&Tensor::ones([4, 4], CPU))?)
    })
    .unwrap_err();
    assert!(
        matches!(&error, Error::Libtorch { message } if message.starts_with("mat1 and mat2 shapes cannot be multiplied (1x3 and 4x4)")),
        "{error}"
    );
    let error = checkpoint::run_many(&[&input], |_| {
        Err(Error::OutOfMemory {
            message: "as if".to_owned(),
        })
    })
    .unwrap_err();
    assert_eq!(
        error,
        Error::OutOfMemory {
            message: "as if".to_owned()
        }
    );
    let error = checkpoint::run(&input, |_| Ok(Tensor::new())).unwrap_err();
    assert!(
        error.to_string().contains("returned an undefined tensor"),
        "{error}"
    );
}
