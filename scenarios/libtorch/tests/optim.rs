//! Fused steps against steps worked out by hand, and the parts of the loss scaler.

use libtorch::optim::{
    AdamW, ScaleUpdate, Sgd, fused_adamw_, fused_sgd_, unscale_and_check_, update_scale_,
};
use tch::{Device, Kind, Tensor};

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
    Tensor::from_slice(&[value]).squeeze()
}

#[track_caller]
fn check(got: &Tensor, expect: &[f64]) {
    let got = Vec::<f64>::try_from(got.flatten(0, -1).to_kind(Kind::Double)).unwrap();
    assert_eq!(got.len(), expect.len());
    for (got, expect) in got.iter().zip(expect) {
        assert!(
            (got - expect).abs() <= 1e-6 * expect.abs().max(1.0),
            "{got} instead of {expect}"
        );
    }
}

#[test]
fn sgd_with_momentum_by_hand() {
    let parameters = [
        Tensor::from_slice(&[1.0_f32, 2.0]),
        Tensor::from_slice(&[-1.0_f32]),
    ];
    let gradients = [
        Tensor::from_slice(&[0.5_f32, -1.0]),
        Tensor::from_slice(&[4.0_f32]),
    ];
    let buffers = parameters.each_ref().map(Tensor::zeros_like);
    let options = Sgd {
        learning_rate: 0.1,
        momentum: 0.9,
        weight_decay: 0.01,
    };

    // g' = g + 0.01 p; buffer = 0.9 buffer + g'; p -= 0.1 buffer.
    fused_sgd_(&options, &parameters, &gradients, &buffers, None).unwrap();
    check(&buffers[0], &[0.51, -0.98]);
    check(&buffers[1], &[3.99]);
    check(&parameters[0], &[0.949, 2.098]);
    check(&parameters[1], &[-1.399]);

    fused_sgd_(&options, &parameters, &gradients, &buffers, None).unwrap();
    check(
        &buffers[0],
        &[0.9 * 0.51 + 0.509_49, 0.9 * -0.98 - 0.979_02],
    );
    check(
        &parameters[0],
        &[0.949 - 0.1 * 0.968_49, 2.098 + 0.1 * 1.861_02],
    );
}

#[test]
fn sgd_without_momentum_needs_no_buffers() {
    let parameter = [Tensor::from_slice(&[1.0_f32]).set_requires_grad(true)];
    let gradient = [Tensor::from_slice(&[2.0_f32])];
    let options = Sgd {
        learning_rate: 0.25,
        ..SGD
    };
    fused_sgd_(&options, &parameter, &gradient, &NONE, None).unwrap();
    check(&parameter[0].detach(), &[0.5]);
}

/// One step of `AdamW` by hand: Loshchilov and Hutter, «Decoupled weight decay
/// regularization», algorithm 2.
#[expect(clippy::many_single_char_names, reason = "the paper's names")]
fn adamw_by_hand(p: f64, g: f64, m: &mut f64, v: &mut f64, t: i32, options: &AdamW) -> f64 {
    let [beta1, beta2] = options.betas;
    *m = beta1 * *m + (1.0 - beta1) * g;
    *v = beta2 * *v + (1.0 - beta2) * g * g;
    let m_hat = *m / (1.0 - beta1.powi(t));
    let v_hat = *v / (1.0 - beta2.powi(t));
    let decayed = p - options.learning_rate * options.weight_decay * p;
    decayed - options.learning_rate * m_hat / (v_hat.sqrt() + options.epsilon)
}

#[test]
fn adamw_by_hand_over_three_steps() {
    let options = AdamW {
        learning_rate: 0.05,
        weight_decay: 0.1,
        ..ADAMW
    };
    let parameters = [
        Tensor::from_slice(&[1.5_f32]),
        Tensor::from_slice(&[-0.75_f32]),
    ];
    let (means, squares) = (
        [single(0.0).view([1]), single(0.0).view([1])],
        [single(0.0).view([1]), single(0.0).view([1])],
    );
    let steps = [single(0.0), single(0.0)];
    let (mut p, mut m, mut v) = ([1.5, -0.75], [0.0; 2], [0.0; 2]);
    for (t, gradient) in [(1, 0.3), (2, -0.8), (3, 0.05)] {
        let gradients = [
            single(gradient).view([1]),
            single(-2.0 * gradient).view([1]),
        ];
        fused_adamw_(
            &options,
            &parameters,
            &gradients,
            &means,
            &squares,
            &steps,
            None,
        )
        .unwrap();
        for i in 0..2 {
            let g = f64::from(gradient) * [1.0, -2.0][i];
            p[i] = adamw_by_hand(p[i], g, &mut m[i], &mut v[i], t, &options);
            check(&parameters[i], &[p[i]]);
            check(&means[i], &[m[i]]);
            check(&squares[i], &[v[i]]);
            check(&steps[i], &[f64::from(t)]);
        }
    }
}

#[test]
fn a_step_with_found_inf_does_nothing() {
    let parameters = [Tensor::from_slice(&[1.0_f32, 2.0])];
    let gradients = [Tensor::from_slice(&[f32::INFINITY, 1.0])];
    let state = || [Tensor::from_slice(&[0.25_f32, 0.25])];
    let (buffers, means, squares, steps) = (state(), state(), state(), [single(3.0)]);
    let found = single(1.0);
    let found_inf = Some(&found);

    let sgd = Sgd {
        momentum: 0.9,
        ..SGD
    };
    fused_sgd_(&sgd, &parameters, &gradients, &buffers, found_inf).unwrap();
    fused_adamw_(
        &ADAMW,
        &parameters,
        &gradients,
        &means,
        &squares,
        &steps,
        found_inf,
    )
    .unwrap();
    check(&parameters[0], &[1.0, 2.0]);
    for state in [&buffers[0], &means[0], &squares[0]] {
        check(state, &[0.25, 0.25]);
    }
    check(&steps[0], &[3.0]);

    // And with 0 it steps, and counts.
    let (gradients, found) = ([Tensor::from_slice(&[1.0_f32, 1.0])], single(0.0));
    let found_inf = Some(&found);
    fused_adamw_(
        &ADAMW,
        &parameters,
        &gradients,
        &means,
        &squares,
        &steps,
        found_inf,
    )
    .unwrap();
    check(&steps[0], &[4.0]);
    assert!(parameters[0].double_value(&[0]) < 1.0);
}

#[test]
fn gradients_are_unscaled_and_checked() {
    #[track_caller]
    fn check_found(values: &[f32], expect: f64) {
        let gradients = [Tensor::from_slice(&[2.0_f32]), Tensor::from_slice(values)];
        let (found, inverse) = (single(0.0), single(0.5));
        unscale_and_check_(&gradients, &found, &inverse).unwrap();
        assert_eq!(
            found.double_value(&[]).to_bits(),
            expect.to_bits(),
            "{values:?}"
        );
        check(&gradients[0], &[1.0]);
    }
    check_found(&[4.0, -8.0], 0.0);
    check_found(&[4.0, f32::INFINITY], 1.0);
    check_found(&[f32::NEG_INFINITY, 4.0], 1.0);
    check_found(&[f32::NAN], 1.0);
}

#[test]
fn the_scale_grows_and_backs_off() {
    let update = ScaleUpdate {
        growth_interval: 3,
        ..ScaleUpdate::default()
    };
    let scale = single(1024.0);
    let tracker = Tensor::from_slice(&[0_i32]).squeeze();
    let step = |found: f32| {
        update_scale_(&update, &scale, &tracker, &single(found)).unwrap();
        (scale.double_value(&[]), tracker.int64_value(&[]))
    };
    let mut seen = Vec::new();
    for found in [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0] {
        seen.push(step(found));
    }
    assert_eq!(
        seen,
        [
            (1024.0, 1),
            (1024.0, 2),
            (512.0, 0),
            (512.0, 1),
            (512.0, 2),
            (1024.0, 0),
            (1024.0, 1)
        ]
    );
}

#[test]
fn lists_of_unequal_length_are_refused() {
    let two = [single(1.0), single(2.0)];
    let one = [single(1.0)];
    let refused = |result: libtorch::Result<()>| result.unwrap_err().to_string();
    let sgd = Sgd {
        momentum: 0.9,
        ..SGD
    };
    let message = refused(fused_sgd_(&sgd, &two, &one, &two, None));
    assert!(
        message.contains("2 parameters") && message.contains("gradients"),
        "{message}"
    );
    let message = refused(fused_sgd_(&sgd, &two, &two, &NONE, None));
    assert!(message.contains("momentum buffers"), "{message}");
    let adamw = ADAMW;
    let message = refused(fused_adamw_(&adamw, &two, &two, &two, &two, &one, None));
    assert!(message.contains("step counters"), "{message}");
}

/// The kernels would read beyond the end.
#[test]
fn tensors_that_do_not_fit_are_refused_before_anything_changes() {
    #[track_caller]
    fn check_refused(parameter: &Tensor, gradient: &Tensor, expect: &str) {
        let zeros = [parameter.zeros_like()];
        let steps = [single(0.0)];
        let (parameters, gradients) = ([parameter], [gradient]);
        for result in [
            fused_adamw_(
                &ADAMW,
                &parameters,
                &gradients,
                &zeros,
                &zeros,
                &steps,
                None,
            ),
            fused_sgd_(&SGD, &parameters, &gradients, &NONE, None),
        ] {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(expect), "{message}");
        }
        assert_eq!(steps[0].double_value(&[]).to_bits(), 0);
    }
    let cpu = (Kind::Float, Device::Cpu);
    let two = Tensor::ones([2], cpu);
    check_refused(
        &two,
        &Tensor::ones([3], cpu),
        "gradient 0 has shape [3], its parameter [2]",
    );
    check_refused(
        &two,
        &Tensor::ones([2], (Kind::Double, Device::Cpu)),
        "of type Double",
    );
    check_refused(&two, &Tensor::new(), "gradient 0 is undefined");
    let square = Tensor::ones([2, 2], cpu);
    check_refused(&square, &square.tr(), "strides [1, 2]");
    let gaps = Tensor::ones([4], cpu).slice(0, 0, 4, 2);
    check_refused(&gaps, &gaps, "has gaps");
    check_refused(
        &Tensor::ones([2], (Kind::Int64, Device::Cpu)),
        &two,
        "not a floating point",
    );

    let found_inf = Some(&two);
    let error = fused_sgd_(&SGD, &[&two], &[&two], &NONE, found_inf).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("found_inf must be a single float"),
        "{error}"
    );
}

/// A 1 × 1 convolution's gradient may come with other strides for the dimensions of size 1.
#[test]
fn strides_of_single_dimensions_do_not_matter() {
    let parameter = [Tensor::ones([4, 2, 1, 1], (Kind::Float, Device::Cpu))];
    let gradient = [Tensor::from_slice(&[1.0_f32; 8]).as_strided([4, 2, 1, 1], [2, 1, 7, 9], None)];
    let options = Sgd {
        learning_rate: 0.5,
        ..SGD
    };
    fused_sgd_(&options, &parameter, &gradient, &NONE, None).unwrap();
    check(&parameter[0], &[0.5; 8]);
}

#[test]
fn no_parameters_are_no_work() {
    fused_sgd_(&SGD, &NONE, &NONE, &NONE, None).unwrap();
    fused_adamw_(&ADAMW, &NONE, &NONE, &NONE, &NONE, &NONE, None).unwrap();
    unscale_and_check_(&NONE, &single(0.0), &single(1.0)).unwrap();
}
