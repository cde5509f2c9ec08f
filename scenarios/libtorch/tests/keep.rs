//! What blocks keep, elsewhere or in another form. The device is the CPU, and the host's memory is
//! memory that libtorch does not count.

#![expect(clippy::float_cmp, reason = "what is copied and coded exactly")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use libtorch::{
    Error, autograd, checkpoint,
    keep::{self, Form, Keeper},
    memory::host,
    mover::Mover,
};
use tch::{Device, Kind, Tensor};

const ROWS: i64 = 512;
const WIDTH: i64 = 128;
/// Bytes of one activation.
const ACTIVATION: u64 = (ROWS * WIDTH * 4).cast_unsigned();

/// The counting allocator and the random generator belong to the process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    host::install().unwrap();
    tch::manual_seed(7);
    turn
}

fn mover(limit: u64) -> Mover {
    Mover::new(None, limit, 1024).unwrap()
}

fn weights(blocks: usize) -> Vec<Tensor> {
    let weight = || Tensor::randn([WIDTH, WIDTH], (Kind::Float, Device::Cpu)) / 8.0;
    (0..blocks)
        .map(|_| weight().set_requires_grad(true))
        .collect()
}

/// A block saves its input, which is the output of the one before it, twice, and what the first
/// product gives.
fn block(x: &Tensor, weight: &Tensor) -> libtorch::Result<Tensor> {
    let y = x.f_linear(weight, None::<&Tensor>)?.f_tanh()?;
    Ok(y.f_mul(x)?.f_add(x)?)
}

/// What one pass, forward and backward, gave.
struct Seen {
    gradients: Vec<Tensor>,
    /// Bytes that forward kept, and the most at once in backward, both beyond what was there.
    kept: u64,
    peak: u64,
}

fn pass(weights: &[Tensor], keeper: Option<&Keeper>, is_checkpointed: bool) -> Seen {
    let before = host::allocated_bytes();
    let input = Tensor::ones([ROWS, WIDTH], (Kind::Float, Device::Cpu));
    let mut x = input.set_requires_grad(true);
    {
        let _pass = keeper.map(|keeper| keeper.pass().unwrap());
        for (index, weight) in weights.iter().enumerate() {
            let _block = keep::block(index + 1 == weights.len()).unwrap();
            x = if is_checkpointed {
                let weight = weight.shallow_clone();
                checkpoint::run(&x, move |x| block(x, &weight)).unwrap()
            } else {
                block(&x, weight).unwrap()
            };
        }
    }
    let loss = x.square().mean(Kind::Float);
    drop(x);
    let kept = host::allocated_bytes() - before;
    host::reset_peak();
    autograd::backward(&loss).unwrap();
    let peak = host::peak_allocated_bytes() - before;
    let gradients = weights.iter().map(|weight| weight.grad().copy()).collect();
    autograd::zero_grad(weights).unwrap();
    Seen {
        gradients,
        kept,
        peak,
    }
}

fn equal(one: &Seen, other: &Seen) -> bool {
    let mut pairs = one.gradients.iter().zip(&other.gradients);
    pairs.all(|(one, other)| one.equal(other))
}

/// The largest difference of a gradient, as a share of its norm.
fn difference(one: &Seen, other: &Seen) -> f64 {
    let pairs = one.gradients.iter().zip(&other.gradients);
    let shares = pairs.map(|(one, other)| (one - other).norm() / one.norm());
    shares
        .map(|share| share.double_value(&[]))
        .fold(0.0, f64::max)
}

#[test]
fn what_was_moved_comes_back_bit_for_bit_and_takes_two_blocks_of_memory() {
    const BLOCKS: u64 = 8;
    let _turn = alone();
    let weights = weights(usize::try_from(BLOCKS).unwrap());
    let plain = pass(&weights, None, false);
    let mover = mover(u64::MAX);
    let all: Vec<&Tensor> = weights.iter().collect();
    let keeper = Keeper::new(Some(&mover), Form::Plain, &all).unwrap();
    let carried = pass(&weights, Some(&keeper), false);
    assert!(equal(&plain, &carried));

    // A block saves its input, the tanh and, through views of the same storages, nothing more. All
    // blocks but the last are copied there, and all but the last two back; weights are not.
    let one_way = ACTIVATION * 2 * (BLOCKS - 1);
    let (bytes, pinned) = mover.counts();
    assert_eq!(pinned, one_way);
    assert_eq!(bytes, one_way + ACTIVATION * 2 * (BLOCKS - 2));
    assert!(
        carried.kept + (BLOCKS - 3) * 2 * ACTIVATION <= plain.kept + ACTIVATION,
        "{} of {}",
        carried.kept,
        plain.kept
    );
    assert!(
        carried.peak * 4 < plain.peak * 3,
        "{} of {}",
        carried.peak,
        plain.peak
    );

    // The next steps pin nothing more, and the values are theirs.
    let again = pass(&weights, Some(&keeper), false);
    assert!(equal(&plain, &again));
    assert_eq!(mover.counts(), (2 * bytes, pinned));
}

#[test]
fn of_checkpointed_blocks_the_inputs_alone_move() {
    const BLOCKS: u64 = 6;
    let _turn = alone();
    let weights = weights(usize::try_from(BLOCKS).unwrap());
    let plain = pass(&weights, None, true);
    let mover = mover(u64::MAX);
    let keeper = Keeper::new(Some(&mover), Form::Plain, &[]).unwrap();
    let carried = pass(&weights, Some(&keeper), true);
    assert!(equal(&plain, &carried));
    assert_eq!(mover.counts().1, ACTIVATION * (BLOCKS - 1));
    assert!(carried.kept < plain.kept);
}

#[test]
fn a_graph_that_nobody_asks_gives_its_memory_back() {
    let _turn = alone();
    let weights = weights(5);
    let mover = mover(u64::MAX);
    let keeper = Keeper::new(Some(&mover), Form::Plain, &[]).unwrap();
    let before = host::allocated_bytes();
    for _ in 0..3 {
        let _pass = keeper.pass().unwrap();
        let mut x = Tensor::ones([ROWS, WIDTH], (Kind::Float, Device::Cpu));
        for weight in &weights {
            let _block = keep::block(false).unwrap();
            x = block(&x, weight).unwrap();
        }
    }
    assert_eq!(host::allocated_bytes(), before);
    let pinned = mover.counts().1;
    pass(&weights, Some(&keeper), false);
    assert_eq!(mover.counts().1, pinned);
}

#[test]
fn without_host_memory_both_sides_are_named() {
    let _turn = alone();
    let weights = weights(4);
    let mover = mover(2 * ACTIVATION);
    let keeper = Keeper::new(Some(&mover), Form::Plain, &[]).unwrap();
    let _pass = keeper.pass().unwrap();
    let mut x = Tensor::ones([ROWS, WIDTH], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let failed = weights.iter().find_map(|weight| {
        let _block = keep::block(false).unwrap();
        match block(&x, weight) {
            Ok(y) => {
                x = y;
                None
            }
            Err(error) => Some(error),
        }
    });
    let failed = failed.unwrap();
    assert!(matches!(failed, Error::HostOutOfMemory { .. }), "{failed}");
    let words = failed.to_string();
    assert!(words.contains(&ACTIVATION.to_string()), "{words}");
    assert!(words.contains(&format!("of {}", 2 * ACTIVATION)), "{words}");
}

#[test]
fn gradients_go_over_as_they_are_made_and_parameters_come_back() {
    let _turn = alone();
    let weights = weights(3);
    let expected = pass(&weights, None, false);
    let mover = mover(u64::MAX);
    let copies = || -> Vec<Tensor> {
        let copies = weights
            .iter()
            .map(|weight| mover.host_like(weight).unwrap());
        copies.collect()
    };
    let (parameters, gradients) = (copies(), copies());
    mover.watch(&weights, &gradients).unwrap();
    let backward = || {
        let mut x = Tensor::ones([ROWS, WIDTH], (Kind::Float, Device::Cpu));
        for weight in &weights[..2] {
            x = block(&x, weight).unwrap();
        }
        autograd::backward(&x.square().mean(Kind::Float)).unwrap();
    };
    // Gradients gather where they are until they are sent.
    backward();
    assert_eq!(mover.finish(3).unwrap(), [false; 3]);
    let half = weights[0].grad().copy();
    mover.send(true);
    backward();
    assert_eq!(mover.finish(3).unwrap(), [true, true, false]);
    assert!(!weights[0].grad().defined());
    assert!((&half * 2.0).allclose(&gradients[0], 1e-6, 1e-9, false));
    assert!(!half.equal(&expected.gradients[0]));

    let _untracked = tch::no_grad_guard();
    let _ = parameters[1].shallow_clone().fill_(3.0);
    mover.bring_back(&weights[1..2], &parameters[1..2]).unwrap();
    assert_eq!(weights[1].mean(Kind::Float).double_value(&[]), 3.0);
}

#[test]
fn shorter_forms_take_their_share_of_the_memory_and_hardly_change_gradients() {
    let _turn = alone();
    let weights = weights(6);
    let all: Vec<&Tensor> = weights.iter().collect();
    let plain = pass(&weights, None, false);
    // Of thirteen activations the graph's leaf and its last output stay as they are.
    for (form, kept, error) in [(Form::Bf16, 0.63, 0.01), (Form::Int8, 0.42, 0.03)] {
        let keeper = Keeper::new(None, form, &all).unwrap();
        let short = pass(&weights, Some(&keeper), false);
        let share = short.kept as f64 / plain.kept as f64;
        assert!(share < kept, "{form:?}: {share}");
        let difference = difference(&plain, &short);
        assert!(
            difference > 0.0 && difference < error,
            "{form:?}: {difference}"
        );
        // Shortened and then carried is the same to the bit as shortened.
        let mover = mover(u64::MAX);
        let keeper = Keeper::new(Some(&mover), form, &all).unwrap();
        let carried = pass(&weights, Some(&keeper), false);
        assert!(equal(&short, &carried), "{form:?}");
        assert!(mover.counts().1 < ACTIVATION * 6, "{form:?}");
    }
}

#[test]
fn rows_that_are_not_finite_or_nothing_stay_so() {
    let _turn = alone();
    let keeper = Keeper::new(None, Form::Int8, &[]).unwrap();
    let x = Tensor::zeros([3, 1024], (Kind::Float, Device::Cpu));
    let _ = x.get(1).get(5).fill_(f64::INFINITY);
    let _ = x.get(2).fill_(2.0);
    let x = x.set_requires_grad(true);
    let squared = {
        let _pass = keeper.pass().unwrap();
        let _block = keep::block(false).unwrap();
        x.square()
    };
    autograd::backward(&squared.sum(Kind::Float)).unwrap();
    let gradient = x.grad();
    assert_eq!(gradient.get(0).abs().max().double_value(&[]), 0.0);
    assert_eq!(gradient.get(1).isfinite().all().int64_value(&[]), 0);
    assert_eq!(gradient.get(2).max().double_value(&[]), 4.0);
}
