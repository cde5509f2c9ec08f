//! Fused steps and the loss scaler on a GPU.

use libtorch::{
    autograd,
    optim::{AdamW, ScaleUpdate, Sgd, fused_adamw_, fused_sgd_, unscale_and_check_, update_scale_},
};
use tch::{Device, Kind, Tensor};

use super::{GPU, double, turn};

const NONE: [Tensor; 0] = [];

/// As `torch.optim`'s defaults.
const SGD: Sgd = Sgd {
    learning_rate: 1e-3,
    momentum: 0.0,
    weight_decay: 0.0,
};

const ADAMW: AdamW = AdamW {
    learning_rate: 1e-3,
    betas: [0.9, 0.999],
    epsilon: 1e-8,
    weight_decay: 1e-2,
};

fn single(value: f32) -> Tensor {
    Tensor::from_slice(&[value])
        .squeeze()
        .to_device(Device::Cuda(0))
}

#[test]
fn fused_steps_agree_with_the_cpu() {
    let _turn = turn();
    let values = [0.5_f32, -1.25, 3.0, 0.0];
    let tensors = |device: Device, value: f32| {
        [Tensor::from_slice(&values.map(|v| v * value)).to_device(device)]
    };
    let run = |device: Device| {
        let step = [Tensor::from_slice(&[0.0_f32]).squeeze().to_device(device)];
        let (sgd, buffers) = (tensors(device, 1.0), tensors(device, 0.0));
        let (adamw, means, squares) = (
            tensors(device, 1.0),
            tensors(device, 0.0),
            tensors(device, 0.0),
        );
        for t in 1..4_i16 {
            let gradients = tensors(device, 0.1 * f32::from(t));
            let options = Sgd {
                learning_rate: 0.1,
                momentum: 0.9,
                weight_decay: 0.01,
            };
            fused_sgd_(&options, &sgd, &gradients, &buffers, None).unwrap();
            fused_adamw_(&ADAMW, &adamw, &gradients, &means, &squares, &step, None).unwrap();
        }
        assert_eq!(double(&step[0]).to_bits(), 3.0_f64.to_bits());
        [sgd, buffers, adamw, means, squares].map(|[tensor]| tensor.to_device(Device::Cpu))
    };
    for (got, expect) in run(Device::Cuda(0)).iter().zip(run(Device::Cpu)) {
        assert!(
            got.allclose(&expect, 1e-6, 1e-7, false),
            "{got} instead of {expect}"
        );
    }
}

/// The gradients of 1 × 1 and depthwise convolutions in channels-last have strides of their own.
#[test]
fn fused_steps_take_channels_last_gradients() {
    let _turn = turn();
    for (out, input, kernel) in [(16, 8, 1), (16, 8, 3), (8, 1, 3)] {
        let groups = if input == 1 { 8 } else { 1 };
        let images = Tensor::randn([4, 8, 12, 12], GPU).contiguous_format(true);
        let weight = Tensor::randn([out, input, kernel, kernel], GPU)
            .contiguous_format(true)
            .set_requires_grad(true);
        let output = images.conv2d(&weight, None::<Tensor>, [1, 1], [0, 0], [1, 1], groups);
        autograd::backward(&output.square().sum(Kind::Float)).unwrap();
        let gradient = autograd::gradient(&weight).unwrap().unwrap();
        let expect = weight.detach() - &gradient * 0.5;
        let options = Sgd {
            learning_rate: 0.5,
            ..SGD
        };
        fused_sgd_(&options, &[&weight], &[&gradient], &NONE, None).unwrap();
        assert!(
            weight.detach().allclose(&expect, 1e-5, 1e-6, false),
            "{out} {input} {kernel}"
        );
    }
}

trait ChannelsLast {
    fn contiguous_format(self, channels_last: bool) -> Tensor;
}

impl ChannelsLast for Tensor {
    /// tch has no memory formats: the dimensions are turned there and back.
    fn contiguous_format(self, channels_last: bool) -> Tensor {
        if channels_last {
            self.permute([0, 2, 3, 1])
                .contiguous()
                .permute([0, 3, 1, 2])
        } else {
            self.contiguous()
        }
    }
}

#[test]
fn the_scaler_skips_and_backs_off_on_the_gpu() {
    let _turn = turn();
    let (scale, found) = (single(1024.0), single(0.0));
    let tracker = Tensor::from_slice(&[0_i32])
        .squeeze()
        .to_device(Device::Cuda(0));
    let parameters = [Tensor::ones([3], GPU)];
    let gradients =
        [Tensor::from_slice(&[1024.0_f32, f32::INFINITY, 0.0]).to_device(Device::Cuda(0))];
    unscale_and_check_(&gradients, &found, &scale.reciprocal()).unwrap();
    assert_eq!(double(&found).to_bits(), 1.0_f64.to_bits());
    let found_inf = Some(&found);
    fused_sgd_(&SGD, &parameters, &gradients, &NONE, found_inf).unwrap();
    assert!(parameters[0].equal(&Tensor::ones([3], GPU)));
    update_scale_(&ScaleUpdate::default(), &scale, &tracker, &found).unwrap();
    assert_eq!(double(&scale).to_bits(), 512.0_f64.to_bits());
    // Host and GPU do not mix.
    let host = Tensor::from_slice(&[0.0_f32]).squeeze();
    let found_inf = Some(&host);
    let error = fused_sgd_(&SGD, &parameters, &gradients, &NONE, found_inf).unwrap_err();
    assert!(error.to_string().contains("found_inf is on cpu"), "{error}");
}
