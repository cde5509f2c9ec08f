//! What was seen from outside while a run went on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples taken from outside, one series a quantity. A quantity that cannot be read has no series.
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
    /// Energy that the GPU drew from the first sample to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_energy_joules: Option<f64>,
    /// Processes of others that had the GPU in use at any sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_gpu_processes: Vec<u32>,
    /// When each of these held: a reason for which the GPU held its clocks back, or `others`
    /// using it. By reason, then time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_stretches: Vec<Stretch>,
}

/// Something that held at one sample after another. As exact as samples are apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// What held.
    pub reason: String,
    /// Its first sample, in seconds since the run's start.
    pub from_seconds: f64,
    /// Its last sample.
    pub to_seconds: f64,
}

impl Stretch {
    /// The reason of a stretch in which others used the GPU.
    pub const OTHERS: &str = "others";
}

/// One quantity over the run, thinned for storage; the extremes are of all samples.
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
    /// At most [`Series::KEPT`] samples, in order of time.
    pub samples: Vec<Sample>,
}

/// One sample: seconds since the run's start, and the value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample(pub f64, pub f64);

impl Series {
    /// Most samples that are kept.
    pub const KEPT: usize = 240;

    /// Of all samples, in order of time; `None` where there are none. Kept are those that
    /// [`thinned`] keeps.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let values = || samples.iter().map(|sample| sample.1);
        Some(Self {
            count: samples.len() as u64,
            minimum: values().fold(f64::INFINITY, f64::min),
            mean: values().sum::<f64>() / samples.len() as f64,
            maximum: values().fold(f64::NEG_INFINITY, f64::max),
            samples: thinned(samples, Self::KEPT),
        })
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
        let series = Series::of(&samples).unwrap();
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
