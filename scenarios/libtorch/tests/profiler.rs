//! libtorch's profiler on the CPU.

use libtorch::profiler::Profiler;
use tch::{Device, Kind, Tensor};

#[test]
fn operators_are_seen_between_begin_and_end_alone() {
    let square = || Tensor::ones([8, 8], (Kind::Float, Device::Cpu));
    let _before = square().matmul(&square());
    let profiler = Profiler::begin(false).unwrap();
    for _ in 0..3 {
        let _product = square().matmul(&square());
    }
    let all = profiler.end().unwrap();
    let of = |name: &str| all.iter().filter(|one| one.name == name).count();
    assert_eq!((of("aten::matmul"), of("aten::mm")), (3, 3));
    assert!(all.iter().all(|one| !one.is_on_gpu));
    let find = |name: &str| all.iter().find(|one| one.name == name).unwrap();
    let (outer, inner) = (find("aten::matmul"), find("aten::mm"));
    assert_eq!(outer.thread, inner.thread);
    assert!(outer.began <= inner.began);
    assert!(inner.began + inner.took <= outer.began + outer.took);

    // It can begin again, and has nothing of before.
    let again = Profiler::begin(false).unwrap();
    let _sum = square().sum(Kind::Float);
    let all = again.end().unwrap();
    assert!(all.iter().any(|one| one.name == "aten::sum"));
    assert!(all.iter().all(|one| one.name != "aten::mm"));
}
