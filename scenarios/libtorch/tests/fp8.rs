//! FP8 products, whose values are the same on every device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use libtorch::{
    autocast::{self, DeviceType, Dtype},
    autograd, checkpoint,
    fp8::{self, Scaling},
};
use tch::{Device, Kind, Tensor};

const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

/// Casts are counted, and the last one is remembered, for the whole process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn largest_off(got: &Tensor, expected: &Tensor) -> f64 {
    let off = (got.detach() - expected.detach()).norm() / expected.detach().norm();
    off.double_value(&[])
}

/// An input, a weight and a bias that are trained.
fn sides(rows: i64) -> [Tensor; 3] {
    libtorch::seed(3).unwrap();
    [[rows, 64].as_slice(), &[48, 64], &[48]]
        .map(|shape| Tensor::randn(shape, CPU).set_requires_grad(true))
}

#[test]
fn values_are_rounded_to_eight_bits() {
    let _turn = turn();
    // Each row by its own largest, 448: the halves of e4m3's steps go to the even one.
    let x = Tensor::from_slice(&[448.0_f32, 17.0, 19.0, 1.0, -3.3, 0.0]);
    let x = x.view([1, 6]).constant_pad_nd([0, 10, 0, 15]);
    let eye = Tensor::eye(16, CPU) * 448.0;
    let y = fp8::linear(&x, &eye, None, Scaling::Row).unwrap() / 448.0;
    let y: Vec<f32> = Vec::try_from(y.get(0).narrow(0, 0, 6)).unwrap();
    assert_eq!(y, [448.0, 16.0, 20.0, 1.0, -3.25, 0.0]);
}

#[test]
fn products_and_gradients_are_near_those_of_single_precision() {
    let _turn = turn();
    for scaling in [Scaling::Tensor, Scaling::Row] {
        let [x, weight, bias] = sides(7);
        let y = x.linear(&weight, Some(&bias));
        autograd::backward(&y.square().sum(Kind::Float)).unwrap();
        let exact: Vec<Tensor> = [&x, &weight, &bias].map(Tensor::grad).into();
        let [x, weight, bias] = sides(7);
        let rounded = fp8::linear(&x, &weight, Some(&bias), scaling).unwrap();
        autograd::backward(&rounded.square().sum(Kind::Float)).unwrap();
        // Three bits of fraction are off by 2.6 % a value, two by twice as much.
        let off = largest_off(&rounded, &y);
        assert!(off > 0.005 && off < 0.05, "{scaling:?}: {off}");
        for (leaf, exact) in [&x, &weight, &bias].iter().zip(&exact) {
            let off = largest_off(&leaf.grad(), exact);
            assert!(off > 0.005 && off < 0.08, "{scaling:?}: {off}");
        }
    }
}

#[test]
fn a_row_with_its_own_scale_keeps_what_one_scale_loses() {
    let _turn = turn();
    let [x, weight, _] = sides(16);
    let _ = x.detach().get(0).fill_(1e6);
    let exact = x.linear(&weight, None::<&Tensor>);
    let off = |scaling| {
        let y = fp8::linear(&x, &weight, None, scaling).unwrap();
        largest_off(&y.narrow(0, 1, 15), &exact.narrow(0, 1, 15))
    };
    assert!(off(Scaling::Row) < 0.05 && off(Scaling::Tensor) > 0.5);
}

#[test]
fn layers_that_read_one_input_cast_it_once() {
    let _turn = turn();
    let [x, weight, _] = sides(4);
    let before = fp8::casts();
    let layer = |x: &Tensor| fp8::linear(x, &weight, None, Scaling::Tensor).unwrap();
    let (first, second) = (layer(&x), layer(&x));
    assert_eq!(fp8::casts() - before, 3);
    assert!(first.equal(&second));
    // Written to since.
    let _ = tch::no_grad(|| x.shallow_clone().fill_(1.0));
    let third = layer(&x);
    assert_eq!(fp8::casts() - before, 5);
    assert!(!third.equal(&first));
    autograd::backward(&(first + second + third).sum(Kind::Float)).unwrap();
    assert_eq!(fp8::casts() - before, 8);
}

#[test]
fn frozen_weights_and_shapes_and_types_stay() {
    let _turn = turn();
    let [x, weight, bias] = sides(6);
    let frozen = weight.detach();
    let y = autocast::with(DeviceType::Cpu, Some(Dtype::BFloat16), true, || {
        fp8::linear(&x.view([2, 3, 64]), &frozen, Some(&bias), Scaling::Row)
    });
    let y = y.flatten().unwrap();
    assert_eq!((y.size(), y.kind()), (vec![2, 3, 48], Kind::BFloat16));
    autograd::backward(&y.sum(Kind::Float)).unwrap();
    assert_eq!(
        (x.grad().size(), x.grad().kind()),
        (vec![6, 64], Kind::Float)
    );
    assert!(autograd::gradient(&frozen).unwrap().is_none());
    assert!((bias.grad() - 6.0).abs().max().double_value(&[]) < 1e-6);
    let odd = Tensor::ones([8, 64], CPU);
    let error = fp8::linear(&x, &odd, None, Scaling::Row)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("multiples of 16, got a weight of [8, 64]"),
        "{error}"
    );
}

#[test]
fn what_is_computed_again_has_the_same_bits() {
    let _turn = turn();
    let pass = |again: bool| {
        let [x, weight, bias] = sides(5);
        let (inner, own) = (weight.shallow_clone(), bias.shallow_clone());
        let layer = move |x: &Tensor| fp8::linear(&x.relu(), &inner, Some(&own), Scaling::Tensor);
        let y = if again {
            checkpoint::run(&x, layer)
        } else {
            layer(&x)
        };
        autograd::backward(&y.unwrap().square().sum(Kind::Float)).unwrap();
        [x, weight, bias].map(|leaf| leaf.grad())
    };
    for (plain, again) in pass(false).iter().zip(&pass(true)) {
        assert!(plain.equal(again));
    }
}
