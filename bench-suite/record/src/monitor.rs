//! What was seen from outside while a run went on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Window;

/// Samples taken from outside, one series a metric. A metric that cannot be read has no series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Monitor {
    /// Memory of the container's or process's group, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Series>,
    /// CPU use of the container or process; 1.0 is one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<Series>,
    /// Threads and processes in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<Series>,
    /// Bytes that the container or process read from block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes that the container or process wrote to block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// CPUs' worth of time that everybody on the host used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_busy_cores: Option<Series>,
    /// CPUs' worth of time that others than the run used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cores: Option<Series>,
    /// Memory of the host that could be had without swapping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_available_bytes: Option<Series>,
    /// Share of the time in which something on the host waited for memory, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_stall_percent: Option<f64>,
    /// Bytes of the GPU used by the run's process, as NVML says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_process_bytes: Option<Series>,
    /// Bytes of the GPU used by everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_used_bytes: Option<Series>,
    /// Share of time with a kernel running, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_utilization_percent: Option<Series>,
    /// Power draw of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_power_watts: Option<Series>,
    /// Temperature of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_temperature_celsius: Option<Series>,
    /// Multiprocessor clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_sm_clock_mhz: Option<Series>,
    /// Memory clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_clock_mhz: Option<Series>,
    /// Reasons for which the GPU held its clocks back at any sample, in NVML's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_throttle_reasons: Vec<String>,
    /// Share of the samples in which each of these reasons held, in percent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpu_throttled_percent: BTreeMap<String, f64>,
    /// Uncorrectable memory errors of the GPU while the run went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_uncorrected_errors: Option<u64>,
    /// Critical errors of the GPU that its driver told of, by NVIDIA's XID numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_xids: Vec<u64>,
    /// Why the GPU counts as lost, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_lost: Option<String>,
    /// Energy that the GPU drew since the first sample, in joules, until the record is written.
    #[serde(skip)]
    pub gpu_energy: Option<Series>,
    /// Energy that the GPU drew during the measured steps, by its counter; `None` with fewer than
    /// ten samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_measured_energy_joules: Option<f64>,
    /// Energy that the GPU drew from the first sample to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_energy_joules: Option<f64>,
    /// Processes of others that had the GPU in use at any sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_gpu_processes: Vec<u32>,
    /// When each of these held: a reason for which the GPU held its clocks back, or `others`
    /// using it. By reason, then time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_intervals: Vec<GpuInterval>,
}

/// Something about the GPU that held at one sample after another. As exact as samples are apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuInterval {
    /// What held.
    pub reason: String,
    /// Its first sample, in seconds since the run's start.
    pub from_seconds: f64,
    /// Its last sample.
    pub to_seconds: f64,
}

impl GpuInterval {
    /// The reason of an interval in which others used the GPU.
    pub const OTHERS: &str = "others";
}

/// One metric over the run, thinned for storage; the extremes are of all samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Samples taken, before thinning.
    pub count: u64,
    /// Least value of all samples.
    pub minimum: f64,
    /// Mean of all samples.
    pub mean: f64,
    /// Greatest value of all samples.
    pub maximum: f64,
    /// Of the samples within the measured steps; `None` where there are none, and in records of
    /// version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Extent>,
    /// The samples in order of time, in a record at most [`Series::KEPT`].
    pub samples: Vec<Sample>,
}

/// A few numbers in place of many samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Extent {
    /// Samples.
    pub count: u64,
    /// Least value.
    pub minimum: f64,
    /// Mean.
    pub mean: f64,
    /// Greatest value.
    pub maximum: f64,
}

impl Extent {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let count = values.clone().count();
        (count > 0).then(|| Self {
            count: count as u64,
            minimum: values.clone().fold(f64::INFINITY, f64::min),
            mean: values.clone().sum::<f64>() / count as f64,
            maximum: values.fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// One sample: seconds since the run's start, and the value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample(pub f64, pub f64);

impl Series {
    /// Most samples that are kept.
    pub const KEPT: usize = 240;
    /// Fewer samples than this say nothing of a counter's growth.
    const LEAST: usize = 10;

    /// Of all samples, in order of time; `None` where there are none.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let all = Extent::of(samples.iter().map(|sample| sample.1))?;
        Some(Self {
            count: all.count,
            minimum: all.minimum,
            mean: all.mean,
            maximum: all.maximum,
            measured: None,
            samples: samples.to_vec(),
        })
    }

    /// The greatest sample within a window; `None` where none lies there.
    #[must_use]
    pub fn peak_within(&self, window: Window) -> Option<f64> {
        let within = self.samples.iter().filter(|sample| window.holds(sample.0));
        within.map(|sample| sample.1).max_by(f64::total_cmp)
    }

    /// How much a counter grew within a window, between samples as if it grew evenly. `None` with
    /// fewer samples there than [`Series::LEAST`].
    fn increase_within(&self, window: Window) -> Option<f64> {
        let within = self.samples.iter().filter(|sample| window.holds(sample.0));
        if within.count() < Self::LEAST {
            return None;
        }
        let at = |time: f64| {
            let after = self.samples.iter().position(|sample| sample.0 >= time)?;
            let (Sample(before, low), Sample(after, high)) = (
                *self.samples.get(after.checked_sub(1)?)?,
                self.samples[after],
            );
            Some(low + (high - low) * (time - before) / (after - before))
        };
        Some(at(window.to)? - at(window.from)?)
    }

    /// Notes what lies within the measured steps, and keeps what [`thinned`] keeps.
    fn close(&mut self, measured: Option<Window>) {
        self.measured = measured.and_then(|window| {
            let within = self.samples.iter().filter(|sample| window.holds(sample.0));
            Extent::of(within.map(|sample| sample.1))
        });
        self.samples = thinned(&self.samples, Self::KEPT);
    }
}

impl Monitor {
    /// Makes it ready for a record: every series notes what lies within the measured steps, and is
    /// thinned.
    pub fn close(&mut self, measured: Option<Window>) {
        let energy = self.gpu_energy.take();
        self.gpu_measured_energy_joules = energy
            .zip(measured)
            .and_then(|(energy, window)| energy.increase_within(window));
        for series in self.series_mut().into_iter().flatten() {
            series.close(measured);
        }
    }

    fn series_mut(&mut self) -> [&mut Option<Series>; 13] {
        [
            &mut self.memory_bytes,
            &mut self.cpu_cores,
            &mut self.pids,
            &mut self.host_busy_cores,
            &mut self.other_cores,
            &mut self.host_available_bytes,
            &mut self.gpu_process_bytes,
            &mut self.gpu_used_bytes,
            &mut self.gpu_utilization_percent,
            &mut self.gpu_power_watts,
            &mut self.gpu_temperature_celsius,
            &mut self.gpu_sm_clock_mhz,
            &mut self.gpu_memory_clock_mhz,
        ]
    }
}

/// At most `most` of these samples (2 at least), in their order: the least and the greatest of
/// each stretch, so that neither a short peak nor a short dip goes.
#[must_use]
pub fn thinned(samples: &[Sample], most: usize) -> Vec<Sample> {
    if samples.len() <= most {
        return samples.to_vec();
    }
    let stretch = samples.len().div_ceil((most / 2).max(1));
    let ends = |chunk: &[Sample]| {
        let places = || 0..chunk.len();
        let by_value = |a: &usize, b: &usize| chunk[*a].1.total_cmp(&chunk[*b].1);
        let (Some(least), Some(greatest)) = (places().min_by(by_value), places().max_by(by_value))
        else {
            return Vec::new();
        };
        let mut kept = vec![least.min(greatest), least.max(greatest)];
        kept.dedup();
        kept.into_iter().map(|place| chunk[place]).collect()
    };
    samples.chunks(stretch).flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_peak_and_a_short_dip_survive_thinning() {
        let mut samples: Vec<_> = (0..10_000).map(|i| Sample(f64::from(i), 1.0)).collect();
        samples[7_777].1 = 9.0;
        samples[7_778].1 = 0.5;
        let mut series = Series::of(&samples).unwrap();
        series.close(Some(Window {
            from: 7_778.0,
            to: 7_779.0,
        }));
        let measured = series.measured.unwrap();
        assert_eq!(
            (measured.count, measured.minimum, measured.maximum),
            (2, 0.5, 1.0)
        );
        assert!(series.samples.len() <= Series::KEPT);
        let unusual: Vec<_> = series
            .samples
            .iter()
            .filter(|s| (s.1 - 1.0).abs() > 0.1)
            .collect();
        assert_eq!(unusual, [&Sample(7_777.0, 9.0), &Sample(7_778.0, 0.5)]);
        assert!(series.samples.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(
            (series.count, series.minimum, series.maximum),
            (10_000, 0.5, 9.0)
        );
        assert_eq!(Series::of(&[]), None);
    }

    #[test]
    fn a_counter_grows_between_samples_too() {
        let samples: Vec<_> = (0..40)
            .map(|i| Sample(f64::from(i) / 10.0, f64::from(i * 30)))
            .collect();
        let mut monitor = Monitor {
            gpu_energy: Series::of(&samples),
            ..Monitor::default()
        };
        let window = |from, to| Some(Window { from, to });
        let grown = |window| {
            let mut monitor = monitor.clone();
            monitor.close(window);
            monitor.gpu_measured_energy_joules
        };
        // 300 W from 1.05 to 3.05 s.
        assert!((grown(window(1.05, 3.05)).unwrap() - 600.0).abs() < 1e-9);
        assert_eq!(grown(window(1.05, 1.25)), None, "too few samples");
        assert_eq!(
            grown(window(3.0, 9.0)),
            None,
            "it ends before the window does"
        );
        assert_eq!(grown(None), None);
        monitor.close(None);
        assert_eq!(monitor.gpu_energy, None);
    }

    #[test]
    fn any_number_is_thinned_to_the_most() {
        for count in [1, 2, 3, 239, 240, 241, 481, 5000] {
            let samples: Vec<_> = (0..count)
                .map(|i| Sample(f64::from(i), f64::from(i % 7)))
                .collect();
            for most in [0, 1, 2, 3, 24, 240] {
                let kept = thinned(&samples, most);
                assert!(
                    !kept.is_empty() && kept.len() <= most.max(2),
                    "{count} to {most}"
                );
            }
        }
    }
}
