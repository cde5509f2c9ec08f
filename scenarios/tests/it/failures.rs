//! What goes wrong becomes a typed last line.

use std::time::Duration;

use libtorch::Result as TorchResult;
use protocol::{Event, FailureReason, Phase, Task};
use scenario::{
    Error,
    data::{Batch, Source},
    models::{Built, Network},
    nn::{Init, Parameters, Pass},
    results::Results,
    run::{MakeBatch, carry_out},
    training::{StepLog, Unobserved, Work},
};
use tch::{Device, Tensor};

use crate::support::{alone, events, placement, variant};

const RUN: &str = r#"{"version":4,"run":"r-1","model":"resnet-tiny","task":"training",
    "variant":{"batch":4},"device":"cpu","steps":{"warmup":1,"measured":2},"seed":7}"#;

/// What the run writes, whose last line is this failure.
fn check(text: &str, make: MakeBatch<'_>, reason: FailureReason, phase: Phase, words: &str) {
    let mut results = Results::new(Vec::new());
    let error = carry_out(text, Duration::ZERO, make, &mut results).unwrap_err();
    assert_eq!(error.reason(), reason, "{error}");
    let text = String::from_utf8(results.into_inner()).unwrap();
    match events(&text).pop() {
        Some(Event::Failed {
            reason: got,
            phase: at,
            message,
            ..
        }) => {
            assert_eq!((got, at), (reason, phase), "{message}");
            assert!(message.contains(words), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

fn good(source: &Source, index: usize, device: Device) -> Result<Batch, Error> {
    source.micro_batch(index, device)
}

/// An image with one pixel that is no number.
fn poisoned(source: &Source, index: usize, device: Device) -> Result<Batch, Error> {
    let batch = source.micro_batch(index, device)?;
    let _ = batch.input.view([-1]).narrow(0, 5, 1).fill_(f64::NAN);
    Ok(batch)
}

/// Labels that the model does not have.
fn mislabelled(source: &Source, index: usize, device: Device) -> Result<Batch, Error> {
    let mut batch = source.micro_batch(index, device)?;
    batch.labels = &batch.labels + 10;
    Ok(batch)
}

#[test]
fn a_loss_that_is_no_number_ends_the_run() {
    let _turn = alone();
    check(
        RUN,
        &poisoned,
        FailureReason::LossNotFinite,
        Phase::Warmup,
        "step 0",
    );
    check(
        &RUN.replace(r#""warmup":1"#, r#""warmup":0"#),
        &poisoned,
        FailureReason::LossNotFinite,
        Phase::Measure,
        "NaN",
    );
}

#[test]
fn what_libtorch_throws_is_passed_on_without_its_stack() {
    let _turn = alone();
    check(
        RUN,
        &mislabelled,
        FailureReason::Libtorch,
        Phase::Warmup,
        "out of bounds",
    );
}

#[test]
fn a_panic_is_a_failure_too() {
    let _turn = alone();
    check(
        RUN,
        &|_, _, _| panic!("no data today"),
        FailureReason::Libtorch,
        Phase::Data,
        "no data today",
    );
}

#[test]
fn bad_run_files_are_named() {
    let _turn = alone();
    let bad = |text: &str, words: &str| {
        check(
            text,
            &good,
            FailureReason::BadRunFile,
            Phase::ProcessStart,
            words,
        );
    };
    bad("", "EOF");
    bad("{\"version\":3", "EOF");
    bad(&RUN.replace("resnet-tiny", "resnet51"), "unknown variant");
    bad(
        &RUN.replace(r#""version":4"#, r#""version":5"#),
        "version 4",
    );
    bad(
        &RUN.replace(r#""batch":4"#, r#""batch":4,"precision":"tf32""#),
        "tf32 needs a CUDA GPU",
    );
    bad(
        &RUN.replace(r#""measured":2"#, r#""measured":0"#),
        "1 to 1000000",
    );
    bad(
        &RUN.replace(r#""seed":7"#, r#""seed":7,"threads":0"#),
        "at least 1",
    );
    bad(
        &RUN.replace(r#""batch":4"#, r#""batch":1"#),
        "a batch of at least 2",
    );
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let _turn = alone();
    // Index 99 is on no machine, with CUDA or without.
    check(
        &RUN.replace(r#""cpu""#, r#""cuda:99""#),
        &good,
        FailureReason::DeviceUnavailable,
        Phase::CudaStart,
        "cuda:99 is not available",
    );
}

/// A model one of whose parameters has no part in the loss.
#[derive(Debug)]
struct Careless {
    used: Tensor,
}

impl Network for Careless {
    fn forward(&self, input: &Tensor, _: Pass) -> TorchResult<Tensor> {
        Ok(input.f_mul(&self.used)?)
    }

    fn loss(&self, scores: Tensor, _: &Tensor) -> TorchResult<Tensor> {
        Ok(scores.f_mean(None)?)
    }
}

#[test]
fn a_parameter_without_a_gradient_is_named() {
    let _turn = alone();
    let variant = variant("{}");
    let mut parameters = Parameters::new(placement(&variant, true));
    let mut root = parameters.root();
    let used = root.parameter("used", &[3], Init::Ones).unwrap();
    let _forgotten = root.at("head").parameter("forgotten", &[3], Init::Ones);
    let built = Built {
        network: Box::new(Careless { used }),
        parameters,
    };
    let mut work = Work::new(built, Task::Training, &variant, Device::Cpu).unwrap();
    let batch = Batch {
        input: Tensor::from_slice(&[1.0_f32, 2.0, 3.0]),
        labels: Tensor::from_slice(&[0_i64]),
    };
    let log = StepLog::new(1, Device::Cpu).unwrap();
    let error = work.step(0, &[batch], &log, &mut Unobserved).unwrap_err();
    assert_eq!(error.reason(), FailureReason::GradientMissing);
    assert!(error.to_string().contains("head.forgotten"), "{error}");
}

#[test]
fn results_that_cannot_be_written_end_the_run() {
    let _turn = alone();
    // Room for the first line or so.
    let mut room = [0_u8; 300];
    let mut results = Results::new(&mut room[..]);
    let error = carry_out(RUN, Duration::ZERO, &good, &mut results).unwrap_err();
    assert_eq!(error.reason(), FailureReason::Results);
}
