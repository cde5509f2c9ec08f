//! Windows of time, and the peaks of what was seen from outside within them.

use std::collections::BTreeMap;

use protocol::{Memory, Phase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Monitor, Series};

/// A stretch of a run, in seconds since its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl Window {
    /// The window of a phase; `None` where its time is not known.
    #[must_use]
    pub fn of(
        phase: Phase,
        began: &BTreeMap<Phase, f64>,
        seconds: &BTreeMap<Phase, f64>,
    ) -> Option<Self> {
        let from = *began.get(&phase)?;
        Some(Self {
            from,
            to: from + seconds.get(&phase)?,
        })
    }

    /// From the run's start to the end of the measured steps. What comes after, such as timing a
    /// large matrix product, is no part of what is measured.
    #[must_use]
    pub fn up_to_the_end(self) -> Self {
        Self {
            from: f64::NEG_INFINITY,
            ..self
        }
    }

    /// Whether a moment lies within.
    #[must_use]
    pub fn holds(self, seconds: f64) -> bool {
        (self.from..=self.to).contains(&seconds)
    }
}

/// How a peak was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// The greatest of the monitor's samples, ten a second.
    Sampled,
    /// By the workload: the allocator's peak, and on top of it what the process had of the GPU
    /// outside the allocator when the last measured step was over. No sample showed more.
    Workload,
}

/// Peaks of what was seen from outside. Those of the measured steps have plain names; those from
/// the run's start to the end of the measured steps begin with `run_`. `None` is «cannot be known
/// here».
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Peaks {
    /// Most bytes of the GPU that the run's process held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_peak_bytes: Option<u64>,
    /// How that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_peak_reading: Option<Reading>,
    /// As `process_peak_bytes`, over the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_process_peak_bytes: Option<u64>,
    /// How that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_process_peak_reading: Option<Reading>,
    /// Most bytes of the GPU that all processes held together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_peak_bytes: Option<u64>,
    /// Most bytes of host memory that the container or process held; `None` where no sample lies
    /// within the measured steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_peak_bytes: Option<u64>,
    /// As `container_peak_bytes`, over the run. In records of version 1 over everything, for they
    /// do not tell when the measured steps ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_container_peak_bytes: Option<u64>,
}

impl Peaks {
    /// The peaks of a run whose measured steps passed in this window; `None`: nobody knows when.
    #[must_use]
    pub fn of(memory: &Memory, monitor: &Monitor, measured: Option<Window>) -> Self {
        let run = measured.map(Window::up_to_the_end);
        let sampled = |series: &Option<Series>, window: Option<Window>| {
            series.as_ref()?.peak_within(window?).map(bytes)
        };
        // A process of somebody else that comes or goes moves the GPU's use, and so the workload's
        // reading; the samples are of the run's process alone.
        let is_alone = monitor.other_gpu_processes.is_empty();
        let outside = memory.outside_allocator_bytes().filter(|_| is_alone);
        let process = |window, reserved: Option<u64>| {
            let sampled = sampled(&monitor.gpu_process_bytes, window);
            let told = reserved
                .zip(outside)
                // A workload may say anything; what no memory has room for is not known.
                .and_then(|(reserved, outside)| reserved.checked_add(outside));
            let reading = match (sampled, told) {
                (None, None) => return (None, None),
                (Some(sampled), Some(told)) if sampled <= told => Reading::Workload,
                (None, Some(_)) => Reading::Workload,
                (Some(_), _) => Reading::Sampled,
            };
            (sampled.max(told), Some(reading))
        };
        let (process_peak_bytes, process_peak_reading) =
            process(measured, memory.peak_reserved_bytes);
        let (run_process_peak_bytes, run_process_peak_reading) =
            process(run, memory.run_peak_reserved_bytes);
        let used = sampled(&monitor.gpu_used_bytes, measured).max(memory.device_used_bytes);
        let everything = Window {
            from: f64::NEG_INFINITY,
            to: f64::INFINITY,
        };
        Self {
            process_peak_bytes,
            process_peak_reading,
            run_process_peak_bytes,
            run_process_peak_reading,
            gpu_peak_bytes: used
                .map(|used| used.max(process_peak_bytes.unwrap_or(0)))
                .filter(|_| memory.device_total_bytes.is_some()),
            container_peak_bytes: sampled(&monitor.memory_bytes, measured),
            run_container_peak_bytes: sampled(&monitor.memory_bytes, run.or(Some(everything))),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes came as whole numbers and went through f64 for the series"
)]
fn bytes(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    fn memory() -> Memory {
        Memory {
            peak_reserved_bytes: Some(1000),
            run_peak_reserved_bytes: Some(3000),
            reserved_bytes: Some(1000),
            device_used_before_bytes: Some(50),
            device_used_bytes: Some(1150),
            device_total_bytes: Some(9000),
            ..Memory::default()
        }
    }

    fn monitor(samples: &[(f64, f64)]) -> Monitor {
        let samples: Vec<_> = samples
            .iter()
            .map(|&(at, value)| Sample(at, value))
            .collect();
        Monitor {
            gpu_process_bytes: Series::of(&samples),
            memory_bytes: Series::of(&samples),
            ..Monitor::default()
        }
    }

    const MEASURED: Option<Window> = Some(Window { from: 2.0, to: 3.0 });

    #[test]
    fn a_sample_outside_of_its_window_does_not_count() {
        let seen = monitor(&[(1.0, 2500.0), (2.5, 1200.0), (4.0, 9000.0)]);
        let peaks = Peaks::of(&memory(), &seen, MEASURED);
        assert_eq!(peaks.process_peak_bytes, Some(1200));
        assert_eq!(peaks.process_peak_reading, Some(Reading::Sampled));
        // Between two samples the allocator held more than any of them shows.
        assert_eq!(peaks.run_process_peak_bytes, Some(3100));
        assert_eq!(peaks.run_process_peak_reading, Some(Reading::Workload));
        assert_eq!(peaks.container_peak_bytes, Some(1200));
        assert_eq!(peaks.run_container_peak_bytes, Some(2500));
        assert_eq!(peaks.gpu_peak_bytes, Some(1200));
    }

    #[test]
    fn where_no_sample_lies_within_the_workload_says() {
        for measured in [MEASURED, None] {
            let peaks = Peaks::of(&memory(), &monitor(&[(1.0, 500.0)]), measured);
            assert_eq!(peaks.process_peak_bytes, Some(1100));
            assert_eq!(peaks.process_peak_reading, Some(Reading::Workload));
            assert_eq!(peaks.container_peak_bytes, None);
        }
        let nobody = Peaks::of(&Memory::default(), &Monitor::default(), MEASURED);
        assert_eq!(nobody, Peaks::default());
    }

    #[test]
    fn others_on_the_gpu_do_not_count_as_the_run() {
        let mut seen = monitor(&[(2.5, 900.0)]);
        seen.other_gpu_processes = vec![7];
        let peaks = Peaks::of(&memory(), &seen, MEASURED);
        assert_eq!(peaks.process_peak_bytes, Some(900));
        assert_eq!(peaks.gpu_peak_bytes, Some(1150));
    }
}
