//! Facts, events, generators, settings, graphs.

use std::{collections::BTreeMap, time::Instant};

use libtorch::{
    autocast::{self, DeviceType, Dtype},
    cuda,
    memory::device_stats,
};
use tch::{Device, Kind, Tensor};

use super::{GPU, double, turn};

#[test]
fn facts_of_the_gpu() {
    let _turn = turn();
    let facts = cuda::facts(0).unwrap();
    assert!(!facts.device_name.is_empty());
    assert!(
        facts.uuid.starts_with("GPU-") && facts.uuid.len() == 40,
        "{facts:?}"
    );
    assert!(
        facts.multiprocessors > 0 && facts.total_memory_bytes > 1 << 30,
        "{facts:?}"
    );
    for version in [
        &facts.capability,
        &facts.runtime_version,
        &facts.driver_cuda_version,
    ] {
        let (major, minor) = version.split_once('.').expect("major.minor");
        assert!(
            major.parse::<u32>().unwrap() > 0 && minor.parse::<u32>().is_ok(),
            "{facts:?}"
        );
    }
    assert_eq!(
        facts
            .cudnn_version
            .as_ref()
            .map(|version| version.split('.').count()),
        Some(3)
    );

    let memory = cuda::memory_info(0).unwrap();
    assert!(memory.free_bytes < memory.total_bytes, "{memory:?}");
    // The driver keeps a little for itself, or not.
    assert!(memory.total_bytes.abs_diff(facts.total_memory_bytes) < facts.total_memory_bytes / 20);
}

#[test]
fn a_gpu_that_is_not_there_is_refused() {
    let _turn = turn();
    let count = cuda::device_count().unwrap();
    for index in [count, 99, u32::MAX] {
        let error = cuda::start(index).unwrap_err().to_string();
        assert!(error.contains("no CUDA device"), "{error}");
        assert!(
            cuda::facts(index).is_err()
                && device_stats(index).is_err()
                && cuda::memory_info(index).is_err()
        );
    }
}

#[test]
fn events_measure_the_gpu() {
    let _turn = turn();
    let matrix = Tensor::randn([4096, 4096], GPU);
    let _ = matrix.matmul(&matrix);
    cuda::synchronize().unwrap();
    let (mut begin, mut middle, mut end) = (
        cuda::Event::new().unwrap(),
        cuda::Event::new().unwrap(),
        cuda::Event::new().unwrap(),
    );
    let wall = Instant::now();
    begin.record().unwrap();
    for _ in 0..10 {
        let _ = matrix.matmul(&matrix);
    }
    middle.record().unwrap();
    let _ = matrix.matmul(&matrix);
    end.record().unwrap();
    // Waits for the marks.
    let (ten, all) = (
        middle.elapsed_since(&begin).unwrap(),
        end.elapsed_since(&begin).unwrap(),
    );
    let wall = wall.elapsed();
    // 10 × 2 × 4096³ operations take any GPU longer than this.
    assert!(ten.as_secs_f64() > 1e-4, "{ten:?}");
    assert!(ten < all && all <= wall, "{ten:?} {all:?} {wall:?}");

    let never = cuda::Event::new().unwrap();
    let error = never.elapsed_since(&begin).unwrap_err().to_string();
    assert!(error.contains("never recorded"), "{error}");
}

#[test]
fn a_seed_repeats_what_the_gpu_gave() {
    let _turn = turn();
    let draw = |seed| {
        libtorch::seed(seed).unwrap();
        Tensor::rand([64], GPU)
    };
    let first = draw(5);
    assert!(draw(5).equal(&first) && !draw(6).equal(&first));
}

#[test]
fn tf32_is_set_read_and_felt() {
    let _turn = turn();
    let before = cuda::tf32().unwrap();
    libtorch::seed(1).unwrap();
    let matrix = Tensor::randn([1024, 1024], GPU);
    let exact = matrix
        .to_kind(Kind::Double)
        .matmul(&matrix.to_kind(Kind::Double));
    let mut errors = BTreeMap::new();
    for on in [false, true] {
        for cudnn in [false, true] {
            let asked = cuda::Tf32 { matmul: on, cudnn };
            cuda::set_tf32(asked).unwrap();
            assert_eq!(cuda::tf32(), Ok(asked));
        }
        let product = matrix.matmul(&matrix).to_kind(Kind::Double);
        errors.insert(on, double(&(product - &exact).abs().max()));
    }
    cuda::set_tf32(before).unwrap();
    // Tensor cores for tf32 came with compute capability 8.0.
    let (major, _) = cuda::facts(0)
        .unwrap()
        .capability
        .split_once('.')
        .map(|(a, b)| (a.parse::<u32>().unwrap(), b.to_owned()))
        .unwrap();
    if major >= 8 {
        assert!(errors[&true] > 10.0 * errors[&false], "{errors:?}");
    }
}

#[test]
fn cudnn_benchmark_is_set() {
    let _turn = turn();
    cuda::set_cudnn_benchmark(true).unwrap();
    let images = Tensor::randn([2, 3, 16, 16], GPU);
    let weight = Tensor::randn([4, 3, 3, 3], GPU);
    let output = images.conv2d(&weight, None::<Tensor>, [1, 1], [1, 1], [1, 1], 1);
    cuda::set_cudnn_benchmark(false).unwrap();
    assert_eq!(output.size(), [2, 4, 16, 16]);
}

#[test]
fn autocast_on_the_gpu_only() {
    let _turn = turn();
    let kinds = || {
        [Device::Cuda(0), Device::Cpu].map(|device| {
            let ones = Tensor::ones([4, 4], (Kind::Float, device));
            ones.matmul(&ones).kind()
        })
    };
    let within = autocast::with(DeviceType::Cuda, Some(Dtype::Half), true, kinds).unwrap();
    assert_eq!(within, [Kind::Half, Kind::Float]);
    assert_eq!(kinds(), [Kind::Float, Kind::Float]);
}

#[test]
fn a_graph_replays_what_was_captured() {
    let _turn = turn();
    let mut input = Tensor::ones([256], GPU);
    let forward = |input: &Tensor| (input * 2.0 + 1.0).sum(Kind::Float);
    let warm = cuda::on_side_stream(|| forward(&input)).unwrap();
    assert_eq!(double(&warm).to_bits(), 768.0_f64.to_bits());
    let (mut graph, output) = cuda::Graph::capture(|| forward(&input)).unwrap();
    for value in [3.0, -1.0] {
        let _ = input.fill_(value);
        graph.replay().unwrap();
        assert_eq!(
            double(&output).to_bits(),
            (256.0 * (value * 2.0 + 1.0)).to_bits()
        );
    }
    // Waiting for the GPU breaks a capture; afterwards everything works as before.
    let error = cuda::Graph::capture(|| double(&forward(&input))).unwrap_err();
    assert!(error.to_string().contains("captur"), "{error}");
    assert_eq!(double(&forward(&input)).to_bits(), (-256.0_f64).to_bits());
    assert_eq!(Tensor::rand([8], GPU).size(), [8]);
    let (mut graph, output) = cuda::Graph::capture(|| forward(&input)).unwrap();
    graph.replay().unwrap();
    assert_eq!(double(&output).to_bits(), (-256.0_f64).to_bits());
}

#[test]
fn copies_from_a_thread_of_their_own_arrive_whole() {
    let _turn = turn();
    let copier = cuda::Copier::new().unwrap();
    let (sender, received) = std::sync::mpsc::sync_channel(1);
    let numbers =
        |step: i64| Tensor::arange_start(step, step + (8 << 20), (Kind::Float, Device::Cpu));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for step in 0..6 {
                // The tensor of the host goes before its copy need have arrived.
                sender.send(copier.copy(&numbers(step)).unwrap()).unwrap();
            }
        });
        for step in 0..6 {
            let busy = Tensor::randn([2048, 2048], GPU);
            let product = busy.matmul(&busy);
            let copied = received.recv().unwrap();
            copied.receive().unwrap();
            let sum = double(
                &(&copied.tensor - numbers(step).to(Device::Cuda(0)))
                    .abs()
                    .sum(Kind::Double),
            );
            assert_eq!(sum.to_bits(), 0.0_f64.to_bits(), "{step}");
            let took = copied
                .ended
                .elapsed_since(&copied.began)
                .unwrap()
                .as_secs_f64();
            // 32 MiB at no more than 1 TB/s.
            assert!(took > 3e-5, "{took}");
            assert!(double(&product.abs().sum(Kind::Float)) > 0.0);
        }
    });
}
