//! FP8 products on a GPU beside those of the CPU, which are taken of the same values.

use libtorch::{
    autograd,
    fp8::{self, Scaling},
};
use tch::{Device, Kind, Tensor};

use crate::{GPU, double, turn};

/// Output and gradients of the three sides.
fn pass(device: Device, kind: Kind, rows: i64, scaling: Scaling) -> Vec<Tensor> {
    let sides = [[rows, 320].as_slice(), &[144, 320], &[144]].map(|shape| {
        let count: i64 = shape.iter().product();
        let values = Tensor::arange(count, (Kind::Float, Device::Cpu)) * 0.37;
        let values = values.sin().view(shape).to_kind(kind).to_device(device);
        values.detach().set_requires_grad(true)
    });
    let [x, weight, bias] = &sides;
    let y = fp8::linear(x, weight, Some(bias), scaling).unwrap();
    autograd::backward(&y.to_kind(Kind::Float).square().sum(Kind::Float)).unwrap();
    let gradients = sides.iter().map(Tensor::grad);
    let all = std::iter::once(y.detach()).chain(gradients);
    all.map(|one| one.to_device(Device::Cpu).to_kind(Kind::Double))
        .collect()
}

#[test]
fn products_are_those_of_the_reference() {
    let _turn = turn();
    for scaling in [Scaling::Tensor, Scaling::Row] {
        // A whole number of tiles, and not even a multiple of 16.
        for rows in [128, 77, 1] {
            let there = pass(GPU.1, Kind::BFloat16, rows, scaling);
            let here = pass(Device::Cpu, Kind::BFloat16, rows, scaling);
            for (index, (there, here)) in there.iter().zip(&here).enumerate() {
                assert_eq!(there.size(), here.size());
                // What differs is the last bit of bfloat16, and with it a rounding to FP8 here and
                // there.
                let off = double(&((there - here).norm() / here.norm()));
                assert!(off < 0.02, "{scaling:?} {rows} {index}: {off}");
            }
        }
    }
}
