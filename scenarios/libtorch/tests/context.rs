//! Settings of the process, errors, and a build without CUDA.

#[cfg(not(feature = "cuda"))]
use libtorch::cuda;
use libtorch::{AttentionKernels, Error, autograd, catch};
use tch::{Device, Kind, Tensor};

const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

#[test]
fn the_version_is_libtorchs() {
    let version = libtorch::version();
    let (major, rest) = version.split_once('.').expect("major.minor");
    assert_eq!(major, "2", "{version}");
    assert!(
        rest.split('.').next().unwrap().parse::<u32>().unwrap() >= 6,
        "{version}"
    );
}

#[test]
fn no_threads_are_refused() {
    libtorch::set_threads(1).unwrap();
    let error = libtorch::set_threads(0).unwrap_err();
    assert!(error.to_string().contains("at least one thread"), "{error}");
}

#[test]
fn a_seed_repeats_what_it_gave() {
    let draw = |seed| {
        libtorch::seed(seed).unwrap();
        Tensor::rand([8], CPU)
    };
    let first = draw(42);
    assert!(draw(42).equal(&first));
    assert!(!draw(43).equal(&first));
    assert!(draw(u64::MAX).equal(&draw(u64::MAX)));
}

#[test]
fn deterministic_algorithms_are_required_or_not() {
    let accumulate = || {
        let indices = Tensor::from_slice(&[0_i64, 0]);
        Tensor::zeros([2], CPU).f_put(&indices, &Tensor::ones([2], CPU), false)
    };
    libtorch::set_deterministic(true).unwrap();
    let refused = accumulate();
    libtorch::set_deterministic(false).unwrap();
    assert!(accumulate().is_ok());
    let error = Error::from(refused.unwrap_err());
    assert!(error.to_string().contains("deterministic"), "{error}");
}

#[test]
fn attention_is_computed_by_the_chosen_kernels_alone() {
    let x = Tensor::rand([1, 2, 8, 4], CPU);
    let attend = || {
        Tensor::f_scaled_dot_product_attention(&x, &x, &x, None::<&Tensor>, 0.0, false, None, false)
    };
    let all = AttentionKernels {
        flash: true,
        efficient: true,
        cudnn: true,
        math: true,
    };
    let only = |kernels| {
        libtorch::set_attention(kernels).unwrap();
        let attended = attend();
        libtorch::set_attention(all).unwrap();
        attended
    };
    let none = AttentionKernels::default();
    let flash = only(AttentionKernels {
        flash: true,
        ..none
    })
    .unwrap();
    let math = only(AttentionKernels { math: true, ..none }).unwrap();
    assert!(flash.allclose(&math, 1e-5, 1e-6, false));
    // A CPU has none of them.
    let refused = only(AttentionKernels {
        cudnn: true,
        ..none
    });
    let error = Error::from(refused.unwrap_err());
    assert!(error.to_string().contains("backend"), "{error}");
}

#[test]
fn an_error_of_libtorch_keeps_its_words_and_loses_its_trace() {
    let no_scalar = Tensor::ones([2], CPU).set_requires_grad(true);
    let error = autograd::backward(&no_scalar).unwrap_err();
    let expect = Error::Libtorch {
        message: "grad can be implicitly created only for scalar outputs".to_owned(),
    };
    assert_eq!(error, expect);
    let error = catch(|| Tensor::ones([2], CPU) + Tensor::ones([3], CPU)).unwrap_err();
    let Error::Libtorch { message } = error else {
        panic!("{error}");
    };
    assert_eq!(
        message,
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    );
}

#[test]
fn out_of_memory_is_told_from_the_message() {
    #[track_caller]
    fn check(message: &str, expect: bool) {
        let error = Error::from(tch::TchError::Torch(message.to_owned()));
        assert_eq!(error.is_out_of_memory(), expect, "{message}");
    }
    check(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total …",
        true,
    );
    check(
        "CUDA error: out of memory\nCUDA kernel errors might be …",
        true,
    );
    check(
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        true,
    );
    check("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", true);
    check(
        "CUDA error: an illegal memory access was encountered",
        false,
    );
    check("The size of tensor a (2) must match", false);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_build_without_cuda_says_so() {
    assert!(!cuda::built());
    assert!(!cuda::is_available());
    assert_eq!(cuda::device_count(), Ok(0));
    let refusals = [
        cuda::facts(0).err(),
        cuda::start(0).err(),
        cuda::synchronize().err(),
        cuda::memory_info(0).err(),
        cuda::set_tf32(cuda::Tf32 {
            matmul: true,
            cudnn: true,
        })
        .err(),
        cuda::tf32().err(),
        cuda::set_cudnn_benchmark(true).err(),
        cuda::empty_cache().err(),
        cuda::set_memory_fraction(0, 0.5).err(),
        cuda::Event::new().err(),
        cuda::Graph::capture(|| ()).err(),
        cuda::on_side_stream(|| ()).err(),
        libtorch::memory::device_stats(0).err(),
        libtorch::memory::reset_peak(0).err(),
        libtorch::allocator::effective().err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal, Some(Error::NotBuiltWithCuda));
    }
    assert!(
        Error::NotBuiltWithCuda
            .to_string()
            .contains("--features cuda")
    );
}
