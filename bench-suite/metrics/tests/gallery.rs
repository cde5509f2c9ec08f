//! The windows of metrics, on the records of real runs: `reports/gallery/h200-first`, 81 runs on
//! H200s, whose samples have no windows.

use std::path::Path;

use metrics::catalogue::{
    GPU_PEAK, OUTSIDE, PEAK_ALLOCATED, PEAK_RESERVED, PROCESS_PEAK, RESERVED_UNUSED,
    RUN_PEAK_RESERVED, RUN_PROCESS_PEAK,
};
use record::{Record, SessionFolder};

const GIB: f64 = (1 << 30) as f64;

fn runs() -> Vec<Record> {
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/gallery");
    let folder = SessionFolder::at(gallery.join("h200-first"));
    let runs = folder.read_records().unwrap().records;
    assert_eq!(runs.len(), 81);
    runs
}

#[test]
fn what_lies_outside_the_allocator_is_the_context_and_libraries() {
    for run in runs() {
        let outside = OUTSIDE.of(&run).unwrap() / GIB;
        let expected = match run.axes["allocator"].as_str() {
            "cudaMallocAsync" => 0.805..=0.835,
            _ => 0.675..=0.765,
        };
        assert!(expected.contains(&outside), "{}: {outside} GiB", run.run);
        assert_eq!(run.value("sampled_process_peak_bytes"), None);
    }
}

#[test]
fn peaks_of_the_measured_steps_stand_one_above_the_other() {
    for run in runs() {
        let peaks = [PEAK_ALLOCATED, PEAK_RESERVED, PROCESS_PEAK, GPU_PEAK];
        let peaks = peaks.map(|metric| metric.of(&run).unwrap());
        assert!(peaks.is_sorted(), "{}: {peaks:?}", run.run);
        assert!(
            RUN_PROCESS_PEAK.of(&run) >= PROCESS_PEAK.of(&run),
            "{}",
            run.run
        );
    }
}

#[test]
fn the_parts_of_a_runs_memory_add_up_to_the_process() {
    let mut trained = 0;
    for run in runs() {
        let of_tensors = if run.value("backward_bytes").is_some() {
            trained += 1;
            &[
                "parameter_bytes",
                "optimizer_bytes",
                "data_bytes",
                "activation_bytes",
                "backward_bytes",
            ][..]
        } else {
            &[PEAK_ALLOCATED.name]
        };
        let outside = [RESERVED_UNUSED.name, OUTSIDE.name];
        let parts = of_tensors.iter().copied().chain(outside);
        let sum: f64 = parts.map(|name| run.value(name).unwrap()).sum();
        assert_eq!(Some(sum), PROCESS_PEAK.of(&run), "{}", run.run);
    }
    assert_eq!(trained, 75);
}

#[test]
fn the_whole_runs_peak_does_not_depend_on_when_samples_fell() {
    let peaks = |precision: &str| -> Vec<f64> {
        let of_cell = |run: &Record| {
            run.scenario == "resnet50-precision" && run.axes["precision"] == precision
        };
        let runs = runs().into_iter().filter(of_cell);
        runs.map(|run| RUN_PEAK_RESERVED.of(&run).unwrap() / GIB)
            .collect()
    };
    let (fp32, tf32) = (peaks("fp32"), peaks("tf32"));
    assert_eq!((fp32.len(), tf32.len()), (3, 3));
    for (one, other) in fp32.iter().zip(&tf32) {
        assert!((one - 10.30).abs() < 0.005, "{one}");
        assert!((other - 10.32).abs() < 0.005, "{other}");
        assert!((one / other - 1.0).abs() < 0.01);
    }
}
