//! What must hold between the metrics of a run. A run where one does not is no measurement.

use protocol::{Phase, RunFile, Steps, Task};
use record::{Metrics, Monitor, Peaks, StepTimes, Window};

use crate::results::Results;

/// Relative difference up to which two metrics of one metric count as equal: the workload
/// computes one from the other, so only rounding lies between them.
const ROUNDING: f64 = 1e-6;
/// Share by which the sum of step times may exceed the measured time: CUDA events tick in
/// about 0.5 µs, and each step is rounded on its own.
const STEP_SUM_OVER: f64 = 0.01;
/// Share of the measured time that may lie between the steps. Above it, something that is no
/// step was measured too.
const STEP_SUM_UNDER: f64 = 0.5;
/// Share by which the workload's clock may run ahead of the harness's: steps on a GPU are timed by
/// the GPU's own.
const CLOCK_AHEAD: f64 = 0.01;
/// No step of a model takes less: launching one kernel takes some 5 µs.
const LEAST_STEP_SECONDS: f64 = 1e-5;
/// What a CPU may reach of its measured ceiling. It is everybody's, and whoever else works on it
/// while the ceiling is measured lowers that; a GPU reaches 1 at most.
const CPU_CEILING: f64 = 4.0;
/// Bytes by which one reading may exceed a later one of a larger metric: NVML rounds to
/// pages, and other processes' memory comes and goes.
const MEMORY_SLACK_BYTES: u64 = 64 << 20;

/// Finds the first invariant that does not hold; the message names both metrics. `lived_seconds`:
/// how long the harness saw the workload live.
pub(crate) fn check(
    asked: &RunFile,
    results: &Results,
    metrics: &Metrics,
    monitor: &Monitor,
    lived_seconds: f64,
) -> Result<(), String> {
    check_counts(asked, results, metrics)?;
    check_lengths(asked, results)?;
    check_times(asked.task, results, metrics)?;
    check_wall_clock(results, metrics, lived_seconds)?;
    check_losses(asked.task, results, metrics)?;
    check_memory(metrics)?;
    check_utilization(asked.device.is_cuda(), metrics)?;
    check_monitor(monitor)
}

fn check_counts(asked: &RunFile, results: &Results, metrics: &Metrics) -> Result<(), String> {
    let Steps { measured, .. } = asked.steps;
    let told = results.steps.len();
    if told != measured as usize {
        return Err(format!(
            "{told} step events, but {measured} measured steps were asked for"
        ));
    }
    let (micro_batch, effective_batch) = match asked.task {
        // What computes nothing takes no samples.
        Task::Idle => (0, 0),
        _ => (
            asked.variant.batch.get().into(),
            asked.variant.effective_batch(),
        ),
    };
    equal(
        "micro_batch",
        metrics.summary.micro_batch,
        "batch of the run file",
        micro_batch,
    )?;
    equal(
        "effective_batch",
        metrics.summary.effective_batch,
        "batch × accumulation of the run file",
        effective_batch,
    )?;
    equal(
        "samples",
        metrics.summary.samples,
        "effective_batch × measured steps",
        metrics.summary.effective_batch * u64::from(measured),
    )
}

fn equal(name: &str, got: u64, other: &str, expected: u64) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    Err(format!("{name} is {got}, but {other} is {expected}"))
}

/// A step has a length of its own exactly where the variant draws one, and one of the range.
fn check_lengths(asked: &RunFile, results: &Results) -> Result<(), String> {
    for step in &results.steps {
        let index = step.index;
        match (asked.variant.sequence_lengths, step.sequence_length) {
            (None, Some(got)) => {
                return Err(format!(
                    "step {index} has sequences of {got}, but all were to have one length"
                ));
            }
            (Some(range), None) => {
                return Err(format!(
                    "step {index} does not tell its sequences' length, but {range} were asked for"
                ));
            }
            (Some(range), Some(got)) if !range.contains(got) => {
                return Err(format!(
                    "step {index} has sequences of {got}, but {range} were asked for"
                ));
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
    Ok(())
}

fn check_times(task: Task, results: &Results, metrics: &Metrics) -> Result<(), String> {
    let time = metrics.summary.measured_seconds;
    above_zero("measured_seconds", time)?;
    for step in &results.steps {
        if !(step.seconds.is_finite() && step.seconds >= LEAST_STEP_SECONDS) {
            return Err(format!(
                "step {} took {} seconds, but none takes less than {LEAST_STEP_SECONDS}",
                step.index, step.seconds
            ));
        }
    }
    match (task, metrics.summary.throughput_samples_per_second) {
        (Task::Idle, None) => {}
        (Task::Idle, Some(rate)) => {
            return Err(format!(
                "throughput_samples_per_second is {rate} in a run that computes nothing"
            ));
        }
        (_, None) => {
            return Err(format!(
                "throughput_samples_per_second is missing from {task}"
            ));
        }
        (_, Some(rate)) => check_rate(rate, metrics)?,
    }
    let sum: f64 = results.steps.iter().map(|step| step.seconds).sum();
    if sum > time * (1.0 + STEP_SUM_OVER) || sum < time * (1.0 - STEP_SUM_UNDER) {
        return Err(format!(
            "the step times add up to {sum:.6} s, but measured_seconds is {time:.6}"
        ));
    }
    Ok(())
}

/// Nobody measures longer than it lived, or outside of the phase that measures.
fn check_wall_clock(
    results: &Results,
    metrics: &Metrics,
    lived_seconds: f64,
) -> Result<(), String> {
    let time = metrics.summary.measured_seconds;
    let phase = results.phase_seconds.get(&Phase::Measure);
    let bounds = [
        ("the phase `measure` took", phase.copied()),
        ("the workload lived for", Some(lived_seconds)),
    ];
    for (what, most) in bounds {
        if let Some(most) = most
            && time > most * (1.0 + CLOCK_AHEAD)
        {
            return Err(format!(
                "measured_seconds is {time}, but {what} {most:.6} s"
            ));
        }
    }
    Ok(())
}

fn check_losses(task: Task, results: &Results, metrics: &Metrics) -> Result<(), String> {
    let steps = results
        .steps
        .iter()
        .map(|step| (format!("loss of step {}", step.index), step.loss));
    let ends = [
        ("first_loss".to_owned(), metrics.summary.first_loss),
        ("last_loss".to_owned(), metrics.summary.last_loss),
    ];
    for (name, loss) in steps.chain(ends) {
        match (task, loss) {
            (Task::Training, None) => return Err(format!("{name} is missing from a training run")),
            // JSON has no NaN, but a later format may.
            (_, Some(loss)) if !loss.is_finite() => return Err(format!("{name} is {loss}")),
            (Task::Inference | Task::Idle, Some(loss)) => {
                return Err(format!("{name} is {loss} in a run without a loss"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn above_zero(name: &str, value: f64) -> Result<(), String> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(format!("{name} is {value}, expected a number above 0"))
}

fn check_rate(rate: f64, metrics: &Metrics) -> Result<(), String> {
    above_zero("throughput_samples_per_second", rate)?;
    let time = metrics.summary.measured_seconds;
    let samples = metrics.summary.samples as f64;
    if (rate * time - samples).abs() > ROUNDING * samples {
        return Err(format!(
            "throughput × time is {rate} × {time} = {} samples, but samples is {samples}",
            rate * time
        ));
    }
    Ok(())
}

/// More than all of the ceiling means that operations were counted that were not done, or that
/// the ceiling was measured on a device that did not run at its speed.
fn check_utilization(is_cuda: bool, metrics: &Metrics) -> Result<(), String> {
    let ceiling = if is_cuda { 1.0 } else { CPU_CEILING };
    match metrics.utilization {
        Some(share) if !(share.is_finite() && (0.0..=ceiling).contains(&share)) => Err(format!(
            "utilization is {share}: {} samples/s × {} operations a sample, but a large matrix \
             product reaches {} operations/s only",
            metrics
                .summary
                .throughput_samples_per_second
                .unwrap_or_default(),
            metrics.summary.model_flops_per_sample.unwrap_or_default(),
            metrics.summary.matmul_flops_per_second.unwrap_or_default(),
        )),
        _ => Ok(()),
    }
}

fn check_memory(metrics: &Metrics) -> Result<(), String> {
    let memory = &metrics.summary.memory;
    let peaks = &metrics.peaks;
    let at_most = |small: (&str, Option<u64>), large: (&str, Option<u64>), slack: u64| {
        let ((small_name, Some(small)), (large_name, Some(large))) = (small, large) else {
            return Ok(());
        };
        if small <= large.saturating_add(slack) {
            return Ok(());
        }
        Err(format!(
            "{small_name} is {small}, more than {large_name}, which is {large}"
        ))
    };
    let allocated = ("peak_allocated_bytes", memory.peak_allocated_bytes);
    let reserved = ("peak_reserved_bytes", memory.peak_reserved_bytes);
    let process = ("process_peak_bytes", peaks.process_peak_bytes);
    let run_allocated = ("run_peak_allocated_bytes", memory.run_peak_allocated_bytes);
    let run_reserved = ("run_peak_reserved_bytes", memory.run_peak_reserved_bytes);
    let run_process = ("run_process_peak_bytes", peaks.run_process_peak_bytes);
    let gpu = ("gpu_peak_bytes", peaks.gpu_peak_bytes);
    let total = ("device_total_bytes", memory.device_total_bytes);
    // The measured steps, then the run, then each of one in the other.
    at_most(allocated, reserved, 0)?;
    at_most(reserved, process, MEMORY_SLACK_BYTES)?;
    at_most(process, gpu, MEMORY_SLACK_BYTES)?;
    at_most(gpu, total, 0)?;
    at_most(run_allocated, run_reserved, 0)?;
    at_most(run_reserved, run_process, MEMORY_SLACK_BYTES)?;
    at_most(run_process, total, MEMORY_SLACK_BYTES)?;
    at_most(allocated, run_allocated, 0)?;
    at_most(reserved, run_reserved, 0)?;
    at_most(process, run_process, 0)?;
    // The end, which lies within both.
    at_most(("allocated_bytes", memory.allocated_bytes), allocated, 0)?;
    at_most(("reserved_bytes", memory.reserved_bytes), reserved, 0)?;
    at_most(("device_used_bytes", memory.device_used_bytes), total, 0)
}

fn check_monitor(monitor: &Monitor) -> Result<(), String> {
    if let Some(series) = &monitor.gpu_utilization_percent
        && series.maximum > 100.0
    {
        return Err(format!(
            "gpu_utilization_percent is {}, more than 100",
            series.maximum
        ));
    }
    Ok(())
}

/// The metrics, out of what the workload and the monitor told. `measured`: when the measured steps
/// passed.
pub(crate) fn metrics(
    summary: &protocol::Summary,
    results: &Results,
    monitor: &Monitor,
    measured: Option<Window>,
) -> Metrics {
    Metrics {
        step_seconds: StepTimes::of(&results.steps).unwrap_or_default(),
        utilization: utilization(summary),
        memory_points: results.memory_points.clone(),
        peaks: Peaks::of(&summary.memory, monitor, measured),
        summary: summary.clone(),
    }
}

/// The model's operations a second as a share of those of a large matrix product.
fn utilization(summary: &protocol::Summary) -> Option<f64> {
    let done = summary.model_flops_per_sample? * summary.throughput_samples_per_second?;
    Some(done / summary.matmul_flops_per_second?)
}

#[cfg(test)]
mod tests {
    use protocol::{Device, Memory, Model, Step, Summary, VERSION, Variant};
    use record::{Sample, Series};

    use super::*;

    struct Case {
        asked: RunFile,
        results: Results,
        metrics: Metrics,
        monitor: Monitor,
        lived_seconds: f64,
    }

    fn good() -> Case {
        let asked = RunFile {
            version: VERSION,
            run: "r".into(),
            model: Model::ResnetTiny,
            task: Task::Training,
            variant: serde_json::from_str::<Variant>(r#"{"batch":4,"accumulation":2}"#).unwrap(),
            device: Device::Cuda(0),
            steps: Steps::new(1, 2),
            seed: 1,
            threads: None,
            gpu_memory_bytes: None,
            allocator_memory_bytes: None,
            deadline_seconds: None,
        };
        let step = |index| Step {
            index,
            seconds: 0.5,
            loss: Some(2.0),
            ..Step::default()
        };
        let results = Results {
            steps: vec![step(0), step(1)],
            ..Results::default()
        };
        let summary = Summary {
            parameters: 10,
            micro_batch: 4,
            effective_batch: 8,
            samples: 16,
            measured_seconds: 1.01,
            throughput_samples_per_second: Some(16.0 / 1.01),
            first_loss: Some(2.5),
            last_loss: Some(2.0),
            memory: Memory {
                peak_allocated_bytes: Some(100 << 20),
                peak_reserved_bytes: Some(200 << 20),
                run_peak_allocated_bytes: Some(150 << 20),
                run_peak_reserved_bytes: Some(250 << 20),
                allocated_bytes: Some(50 << 20),
                reserved_bytes: Some(200 << 20),
                device_used_bytes: Some(900 << 20),
                device_total_bytes: Some(2 << 30),
                ..Memory::default()
            },
            ..Summary::default()
        };
        let series = |value: f64| Series::of(&[Sample(0.0, value), Sample(0.1, value)]);
        let monitor = Monitor {
            gpu_process_bytes: series(f64::from(800 << 20)),
            gpu_used_bytes: series(f64::from(900 << 20)),
            gpu_utilization_percent: series(99.0),
            ..Monitor::default()
        };
        Case {
            metrics: metrics(
                &summary,
                &results,
                &monitor,
                Some(Window { from: 0.0, to: 0.1 }),
            ),
            asked,
            results,
            monitor,
            lived_seconds: 3.0,
        }
    }

    fn verdict(break_it: impl FnOnce(&mut Case)) -> String {
        let mut case = good();
        break_it(&mut case);
        let lived = case.lived_seconds;
        match check(
            &case.asked,
            &case.results,
            &case.metrics,
            &case.monitor,
            lived,
        ) {
            Ok(()) => "fine".into(),
            Err(message) => message,
        }
    }

    #[test]
    fn a_gpu_cannot_do_more_than_all() {
        let checked = verdict(|case| case.metrics.utilization = Some(1.01));
        assert!(checked.contains("utilization is 1.01"), "{checked}");
        assert_eq!(verdict(|case| case.metrics.utilization = Some(1.0)), "fine");
        let nonsense = verdict(|case| case.metrics.utilization = Some(f64::NAN));
        assert!(nonsense.contains("utilization is NaN"), "{nonsense}");
    }

    #[test]
    fn a_cpu_may_be_held_up_while_its_ceiling_is_measured_and_no_more() {
        let on_cpu = |share| {
            verdict(|case| {
                case.asked.device = Device::Cpu;
                case.metrics.utilization = Some(share);
            })
        };
        assert_eq!(on_cpu(1.3), "fine");
        assert!(on_cpu(40.0).contains("utilization is 40"));
    }

    #[test]
    fn nobody_measures_longer_than_it_lived() {
        let lived = verdict(|case| case.lived_seconds = 0.9);
        assert_eq!(
            lived,
            "measured_seconds is 1.01, but the workload lived for 0.900000 s"
        );
        let phase = verdict(|case| _ = case.results.phase_seconds.insert(Phase::Measure, 0.5));
        assert!(phase.contains("the phase `measure` took 0.5"), "{phase}");
        assert_eq!(verdict(|case| case.lived_seconds = 1.005), "fine");
    }

    #[test]
    fn no_step_takes_less_than_a_launch() {
        let forged = verdict(|case| {
            case.results
                .steps
                .iter_mut()
                .for_each(|step| step.seconds = 1e-7);
            case.metrics.summary.measured_seconds = 2e-7;
            case.metrics.summary.throughput_samples_per_second = Some(8e7);
        });
        assert!(forged.contains("none takes less than 0.00001"), "{forged}");
    }

    #[test]
    fn a_sound_run_is_sound() {
        assert_eq!(verdict(|_| ()), "fine");
    }

    #[test]
    fn a_contradiction_names_both_metrics() {
        type Break<'a> = &'a dyn Fn(&mut Case);
        let broken: [(Break<'_>, &str); 19] = [
            (
                &|c| c.metrics.summary.throughput_samples_per_second = None,
                "throughput_samples_per_second is missing from training",
            ),
            (
                &|c| c.metrics.summary.throughput_samples_per_second = Some(0.0),
                "throughput_samples_per_second is 0, expected a number above 0",
            ),
            (
                &|c| c.metrics.summary.throughput_samples_per_second = Some(16.0),
                "but samples is 16",
            ),
            (
                &|c| c.metrics.summary.samples = 17,
                "samples is 17, but effective_batch × measured steps is 16",
            ),
            (
                &|c| c.metrics.summary.micro_batch = 5,
                "micro_batch is 5, but batch of the run file is 4",
            ),
            (
                &|c| c.metrics.summary.effective_batch = 9,
                "effective_batch is 9",
            ),
            (
                &|c| c.metrics.summary.measured_seconds = f64::NAN,
                "measured_seconds is NaN",
            ),
            (
                &|c| c.metrics.summary.measured_seconds = 0.0,
                "measured_seconds is 0",
            ),
            (
                &|c| c.results.steps[0].seconds = 5.0,
                "add up to 5.500000 s, but measured_seconds is 1.010000",
            ),
            (
                &|c| c.results.steps[0].seconds = -0.5,
                "step 0 took -0.5 seconds, but none takes less",
            ),
            (
                &|c| c.results.steps.truncate(1),
                "1 step events, but 2 measured steps",
            ),
            (
                &|c| c.results.steps[1].loss = Some(f64::INFINITY),
                "loss of step 1 is inf",
            ),
            (
                &|c| c.metrics.summary.last_loss = None,
                "last_loss is missing",
            ),
            (
                &|c| c.asked.task = Task::Inference,
                "in a run without a loss",
            ),
            (
                &|c| c.metrics.summary.memory.peak_allocated_bytes = Some(201 << 20),
                "peak_allocated_bytes is 210763776, more than peak_reserved_bytes, which is 209715200",
            ),
            (
                &|c| c.metrics.summary.memory.run_peak_reserved_bytes = Some(3 << 30),
                "more than run_process_peak_bytes",
            ),
            (
                &|c| c.metrics.peaks.process_peak_bytes = Some(100 << 20),
                "more than process_peak_bytes",
            ),
            (
                &|c| c.metrics.peaks.process_peak_bytes = Some(1900 << 20),
                "more than gpu_peak_bytes",
            ),
            (
                &|c| c.monitor.gpu_utilization_percent.as_mut().unwrap().maximum = 101.0,
                "gpu_utilization_percent is 101, more than 100",
            ),
        ];
        for (break_it, expect) in broken {
            let found = verdict(break_it);
            assert!(found.contains(expect), "{found}");
        }
    }

    #[test]
    fn what_idles_has_neither_samples_nor_a_rate() {
        let idle = |case: &mut Case, rate| {
            case.asked.task = Task::Idle;
            case.metrics.summary.throughput_samples_per_second = rate;
            (
                case.metrics.summary.micro_batch,
                case.metrics.summary.effective_batch,
            ) = (0, 0);
            case.metrics.summary.samples = 0;
            (
                case.metrics.summary.first_loss,
                case.metrics.summary.last_loss,
            ) = (None, None);
            for step in &mut case.results.steps {
                step.loss = None;
            }
        };
        assert_eq!(verdict(|case| idle(case, None)), "fine");
        let rate = verdict(|case| idle(case, Some(1.0)));
        assert!(rate.contains("in a run that computes nothing"), "{rate}");
        let samples = verdict(|case| {
            idle(case, None);
            case.metrics.summary.samples = 2;
        });
        assert!(samples.contains("samples is 2"), "{samples}");
    }

    #[test]
    fn lengths_vary_within_their_range_and_nowhere_else() {
        let vary = |case: &mut Case, lengths: [Option<u32>; 2]| {
            case.asked.variant.sequence_lengths = Some("16-512".parse().unwrap());
            for (step, length) in case.results.steps.iter_mut().zip(lengths) {
                step.sequence_length = length;
            }
        };
        assert_eq!(verdict(|case| vary(case, [Some(16), Some(512)])), "fine");
        let missing = verdict(|case| vary(case, [Some(16), None]));
        assert!(missing.contains("step 1 does not tell"), "{missing}");
        let outside = verdict(|case| vary(case, [Some(15), Some(20)]));
        assert!(
            outside.contains("step 0 has sequences of 15, but 16-512"),
            "{outside}"
        );
        let unasked = verdict(|case| case.results.steps[1].sequence_length = Some(32));
        assert!(unasked.contains("step 1 has sequences of 32"), "{unasked}");
    }

    #[test]
    fn what_is_not_known_contradicts_nothing() {
        let found = verdict(|case| {
            case.metrics.summary.memory = Memory::default();
            case.metrics.peaks = Peaks::default();
            case.monitor = Monitor::default();
        });
        assert_eq!(found, "fine");
    }
}
