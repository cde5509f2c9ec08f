//! Statistics of the allocator, its settings, and its end.

use std::{env, io::Write, process::Command};

use libtorch::{
    Error, allocator, catch, checkpoint, cuda,
    memory::{device_stats, last_shortage, reset_peak, watch_shortages},
};
use tch::{Device, Kind, Tensor};

use super::{GPU, turn};

const MIB: u64 = 1 << 20;

#[test]
fn statistics_count_bytes() {
    let _turn = turn();
    cuda::empty_cache().unwrap();
    let before = device_stats(0).unwrap();
    reset_peak(0).unwrap();
    let bytes = i64::try_from(64 * MIB).unwrap();
    let kept = Tensor::zeros([bytes / 4], GPU);
    let passing = Tensor::zeros([bytes / 2], GPU);
    drop(passing);
    let stats = device_stats(0).unwrap();
    assert_eq!(stats.allocated_bytes, before.allocated_bytes + 64 * MIB);
    assert_eq!(
        stats.peak_allocated_bytes,
        before.allocated_bytes + 192 * MIB
    );
    assert!(stats.reserved_bytes >= stats.allocated_bytes, "{stats:?}");
    assert!(
        stats.peak_reserved_bytes >= stats.peak_allocated_bytes,
        "{stats:?}"
    );
    assert!(
        stats.device_allocations > before.device_allocations,
        "{stats:?}"
    );
    assert!(stats.peak_segments > Some(0), "{stats:?}");
    assert!(stats.peak_inactive_split_bytes.is_some());

    cuda::empty_cache().unwrap();
    let emptied = device_stats(0).unwrap();
    assert!(emptied.reserved_bytes < stats.reserved_bytes, "{emptied:?}");
    assert!(emptied.device_frees > stats.device_frees, "{emptied:?}");
    reset_peak(0).unwrap();
    let reset = device_stats(0).unwrap();
    assert_eq!(reset.peak_allocated_bytes, reset.allocated_bytes);
    drop(kept);
}

#[test]
fn memory_runs_out_as_a_type() {
    let _turn = turn();
    let before = device_stats(0).unwrap();
    watch_shortages(0).unwrap();
    watch_shortages(0).unwrap();
    let kept = Tensor::zeros([1 << 20], GPU);
    let huge = i64::try_from(cuda::facts(0).unwrap().total_memory_bytes).unwrap();
    let error = Error::from(Tensor::f_zeros([huge], GPU).unwrap_err());
    assert!(error.is_out_of_memory(), "{error}");
    // What was held at that moment counts, and not what is left once the failed work is gone.
    let held = device_stats(0).unwrap();
    drop(kept);
    let shortage = last_shortage().unwrap();
    assert!(
        shortage.requested_bytes >= 4 * huge.unsigned_abs(),
        "{shortage:?}"
    );
    assert!(
        shortage.free_bytes < shortage.capacity_bytes,
        "{shortage:?}"
    );
    assert_eq!(shortage.allocated_bytes, held.allocated_bytes);
    assert!(
        shortage.reserved_bytes >= shortage.allocated_bytes,
        "{shortage:?}"
    );
    let error = catch(|| Tensor::zeros([huge], GPU)).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    let input = Tensor::ones([2], GPU).set_requires_grad(true);
    let error = checkpoint::run(&input, move |_| Ok(Tensor::f_zeros([huge], GPU)?)).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");

    // A share of the memory is a limit, too.
    cuda::set_memory_fraction(0, 0.01).unwrap();
    let limited = catch(|| Tensor::zeros([huge / 50], (Kind::Int8, Device::Cuda(0))));
    cuda::set_memory_fraction(0, 1.0).unwrap();
    assert!(limited.unwrap_err().is_out_of_memory());
    assert!(cuda::set_memory_fraction(0, 1.5).is_err());

    let after = device_stats(0).unwrap();
    assert!(after.out_of_memory >= before.out_of_memory + 4, "{after:?}");
    assert!(after.retries > before.retries, "{after:?}");
    assert_eq!(
        after.allocated_bytes,
        before.allocated_bytes + 512,
        "only the input is left"
    );
}

/// The settings act only from the environment before CUDA starts: a process for each.
#[test]
fn allocator_settings_are_read_back() {
    const CHILD: &str = "TORCHGAUGE_TEST_CHILD";
    if env::var_os(CHILD).is_some() {
        cuda::start(0).unwrap();
        let _kept = Tensor::zeros([1 << 20], GPU);
        let said = (allocator::effective().unwrap(), device_stats(0).unwrap());
        std::io::stdout()
            .write_all(format!("{said:?}\n").as_bytes())
            .unwrap();
        return;
    }
    let _turn = turn();
    let native = allocator::effective().unwrap();
    let expect = allocator::Settings {
        backend: "native".to_owned(),
        expandable_segments: false,
        max_split_size_bytes: None,
        garbage_collection_threshold: None,
        roundup_power2_divisions: native.roundup_power2_divisions.clone(),
    };
    assert_eq!(native, expect);
    assert_eq!(native.uniform_roundup_power2_divisions(), None);

    for (setting, expect) in [
        (
            "expandable_segments:True",
            &["native", "expandable_segments: true"][..],
        ),
        (
            "max_split_size_mb:128",
            &["max_split_size_bytes: Some(134217728)"],
        ),
        (
            "garbage_collection_threshold:0.75",
            &["garbage_collection_threshold: Some(0.75)"],
        ),
        (
            "roundup_power2_divisions:8",
            &["roundup_power2_divisions: [8, 8, "],
        ),
        (
            "backend:cudaMallocAsync",
            &[
                "backend: \"cudaMallocAsync\"",
                "allocated_bytes: 4194304",
                "device_allocations: None",
                "device_frees: None",
                "peak_inactive_split_bytes: None",
                "peak_segments: None",
            ],
        ),
    ] {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "memory::allocator_settings_are_read_back",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .env("PYTORCH_ALLOC_CONF", setting)
            .env("PYTORCH_CUDA_ALLOC_CONF", setting)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{setting}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for expect in expect {
            assert!(said.contains(expect), "{setting}: no `{expect}` in {said}");
        }
    }
}
