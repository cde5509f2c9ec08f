//! The metrics of a cell. A new metric is one entry here.

use protocol::{StepParts, Task};
use record::{MemoryParts, Metrics, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Spread;

macro_rules! cell_metrics {
    ($($(#[doc = $doc:literal])+ $name:ident: $read:expr;)+) => {
        /// Every metric of a cell over its successful runs; `None` where no run yielded it. The
        /// unit stands in the name.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct CellMetrics {
            $($(#[doc = $doc])+ #[serde(default)] pub $name: Option<Spread>,)+
        }

        impl CellMetrics {
            /// Of successful runs.
            #[must_use]
            pub fn of(runs: &[&Record]) -> Self {
                Self { $($name: spread(runs, $read),)+ }
            }

            /// Name and spread of every metric that is known.
            #[must_use]
            pub fn known(&self) -> Vec<(&'static str, Spread)> {
                [$((stringify!($name), self.$name)),+]
                    .into_iter()
                    .filter_map(|(name, spread)| Some((name, spread?)))
                    .collect()
            }
        }
    };
}

type Read = fn(&Record, &Metrics) -> Option<f64>;

fn spread(runs: &[&Record], read: Read) -> Option<Spread> {
    let values = runs
        .iter()
        .filter_map(|run| read(run, run.metrics.as_ref()?));
    Spread::of(values)
}

fn bytes(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Idle steps are as long as they were asked to be, which is no metric of the image.
fn step(run: &Record, seconds: f64) -> Option<f64> {
    (run.task != Task::Idle).then_some(seconds)
}

/// Mean over the measured steps; `None` where they have no parts.
fn part(run: &Record, read: impl Fn(&StepParts) -> Option<f64>) -> Option<f64> {
    let parts: Option<Vec<f64>> = run
        .steps
        .iter()
        .map(|step| step.parts.as_ref().and_then(&read))
        .collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    Some(parts.iter().sum::<f64>() / parts.len() as f64)
}

cell_metrics! {
    /// Samples that the measured steps processed, over their wall time.
    throughput_samples_per_second: |_, m| m.throughput_samples_per_second;
    /// Median step of a run.
    step_median_seconds: |run, m| step(run, m.step_seconds.median);
    /// Step time that 90 % of a run's steps stay below.
    step_p90_seconds: |run, m| step(run, m.step_seconds.p90);
    /// Step time that 99 % of a run's steps stay below.
    step_p99_seconds: |run, m| step(run, m.step_seconds.p99);
    /// Mean time of a step's waiting for a data loader and bringing its batches to the device.
    data_seconds: |run, _| part(run, |parts| parts.data_seconds);
    /// Mean time of a step's forward and loss.
    forward_seconds: |run, _| part(run, |parts| Some(parts.forward_seconds));
    /// Mean time of a step's backward.
    backward_seconds: |run, _| part(run, |parts| Some(parts.backward_seconds));
    /// Mean time of a step's optimizer.
    optimizer_seconds: |run, _| part(run, |parts| Some(parts.optimizer_seconds));
    /// The model's operations a second over those of a large matrix product, from 0 to 1.
    utilization: |_, m| m.utilization;
    /// Wall time of the measured steps.
    measured_seconds: |_, m| Some(m.measured_seconds);
    /// CPU time that the process took during the measured steps, all threads together.
    cpu_seconds: |_, m| m.cpu_seconds;
    /// CPU time that the process took up to the end of the measured steps.
    run_cpu_seconds: |_, m| m.run_cpu_seconds;
    /// Wall time of the whole run.
    wall_seconds: |run, _| Some(run.wall_seconds);
    /// Most bytes in tensors during the measured steps.
    peak_allocated_bytes: |_, m| bytes(m.memory.peak_allocated_bytes);
    /// Most bytes that the caching allocator held during the measured steps; on a GPU only.
    peak_reserved_bytes: |_, m| bytes(m.memory.peak_reserved_bytes);
    /// Most bytes in tensors over the whole run, warm-up included.
    run_peak_allocated_bytes: |_, m| bytes(m.memory.run_peak_allocated_bytes);
    /// Most bytes that the caching allocator held over the whole run, warm-up included.
    run_peak_reserved_bytes: |_, m| bytes(m.memory.run_peak_reserved_bytes);
    /// Bytes of parameters.
    parameter_bytes: |_, m| bytes(m.memory.parameter_bytes);
    /// Bytes of gradients.
    gradient_bytes: |_, m| bytes(m.memory.gradient_bytes);
    /// Bytes of optimizer state.
    optimizer_bytes: |_, m| bytes(m.memory.optimizer_bytes);
    /// Bytes of buffers, data and everything else that a step finds besides parameters and
    /// optimizer state.
    data_bytes: |_, m| bytes(MemoryParts::of(m)?.data_bytes);
    /// Bytes that forward keeps for backward.
    activation_bytes: |_, m| bytes(MemoryParts::of(m)?.activation_bytes);
    /// Bytes of gradients and temporaries at the peak of a step, beyond what forward left.
    backward_bytes: |_, m| bytes(MemoryParts::of(m)?.backward_bytes);
    /// Bytes that the caching allocator holds beyond the peak of the tensors.
    slack_bytes: |_, m| bytes(MemoryParts::of(m)?.slack_bytes);
    /// Bytes of the GPU outside the allocator: CUDA context, libraries, their workspaces.
    context_and_library_bytes: |_, m| bytes(MemoryParts::of(m)?.context_and_library_bytes);
    /// Bytes of the GPU that the CUDA context took.
    context_bytes: |_, m| bytes(m.memory.context_bytes);
    /// Bytes of the GPU in use by everybody at the end of the last measured step.
    device_used_bytes: |_, m| bytes(m.memory.device_used_bytes);
    /// Most bytes of the GPU that the run's process held, seen from outside.
    process_peak_bytes: |_, m| bytes(m.process_peak_bytes);
    /// Most resident bytes of the process in host memory.
    host_peak_resident_bytes: |_, m| bytes(m.memory.host_peak_resident_bytes);
    /// Most bytes of host memory that the container or process held, seen from outside.
    container_peak_bytes: |_, m| bytes(m.container_peak_bytes);
    /// Times that a failed allocation was tried again after giving cached memory back.
    allocator_retries: |_, m| bytes(m.memory.counters.as_ref().map(|c| c.retries));
    /// Loss of the first step of the run.
    first_loss: |_, m| m.first_loss;
    /// Loss of the last step of the run.
    last_loss: |_, m| m.last_loss;
    /// Mean power draw of the GPU over the run.
    gpu_power_watts: |run, _| run.monitor.gpu_power_watts.as_ref().map(|s| s.mean);
    /// Energy that the GPU drew over the run.
    gpu_energy_joules: |run, _| run.monitor.gpu_energy_joules;
}
