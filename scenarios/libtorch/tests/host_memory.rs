//! The counting allocator. One test: the counters belong to the process.

use std::thread;

use libtorch::{autograd, memory::host};
use tch::{Device, Kind, Tensor};

const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);
const KIB: i64 = 1024;

fn kib(count: i64) -> Tensor {
    Tensor::zeros([count * KIB / 4], CPU)
}

#[track_caller]
fn check(allocated_kib: u64, peak_kib: u64) {
    assert_eq!(
        (host::allocated_bytes(), host::peak_allocated_bytes()),
        (allocated_kib * 1024, peak_kib * 1024)
    );
}

#[test]
fn bytes_are_counted_exactly() {
    let before = kib(64);
    host::install().unwrap();
    host::install().unwrap();
    check(0, 0);

    // Made before: neither counted nor taken off.
    drop(before);
    check(0, 0);

    let small = kib(1);
    let large = kib(100);
    check(101, 101);
    drop(large);
    check(1, 101);
    host::reset_peak();
    check(1, 1);

    // A view shares, a copy does not, an empty tensor takes nothing.
    let view = small.view([16, 16]);
    check(1, 1);
    let copy = view.copy();
    check(2, 2);
    let empty = Tensor::zeros([0], CPU);
    check(2, 2);
    drop((small, copy, empty));
    check(1, 2);
    assert!(view.equal(&Tensor::zeros([16, 16], CPU)));
    drop(view);
    check(0, 2);

    // Values of every size are aligned as libtorch's kernels expect, and can be written to.
    for count in [1, 3, 7, 64, 1000, 100_000] {
        let ones = Tensor::ones([count], CPU);
        assert_eq!(ones.data_ptr() as usize % 64, 0, "{count}");
        assert_eq!(ones.count_nonzero(None).int64_value(&[]), count);
    }
    // In place beyond the end: the storage grows and moves.
    let mut growing = Tensor::ones([8], CPU);
    let _ = growing.resize_([4096]);
    assert!(growing.narrow(0, 0, 8).equal(&Tensor::ones([8], CPU)));
    assert_eq!(host::allocated_bytes(), 4 * 4096);
    drop(growing);
    assert_eq!(host::allocated_bytes(), 0);

    // Nothing is lost between threads; here some allocate and others free.
    host::reset_peak();
    let handles: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(|| {
                for _ in 0..2000 {
                    drop(kib(3));
                }
                kib(5)
            })
        })
        .collect();
    let kept: Vec<Tensor> = handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect();
    assert_eq!(host::allocated_bytes(), 8 * 5 * 1024);
    let peak = host::peak_allocated_bytes();
    assert!(
        (40 * 1024..=8 * 5 * 1024 + 8 * 3 * 1024).contains(&peak),
        "{peak}"
    );
    drop(kept);
    assert_eq!(host::allocated_bytes(), 0);

    // Gradients are tensors too, and setting them to none gives them back.
    let weight = kib(16).set_requires_grad(true);
    autograd::backward(&weight.sum(Kind::Float)).unwrap();
    assert!(autograd::gradient(&weight).unwrap().is_some());
    assert_eq!(host::allocated_bytes(), 32 * 1024);
    autograd::zero_grad(&[&weight]).unwrap();
    assert_eq!(host::allocated_bytes(), 16 * 1024);
    assert!(autograd::gradient(&weight).unwrap().is_none());
    drop(weight);

    // Too much is refused in libtorch's words, leaves the counters alone, and is known as
    // what it is: more than a process can address, since a kernel may promise all that one can
    // (`vm.overcommit_memory=1`).
    for bytes in [1_i64 << 47, i64::MAX / 8] {
        let error =
            libtorch::Error::from(Tensor::f_empty([bytes], (Kind::Int8, Device::Cpu)).unwrap_err());
        assert!(error.is_out_of_memory(), "{bytes}: {error}");
        assert_eq!(host::allocated_bytes(), 0);
    }
}
