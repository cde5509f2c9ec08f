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
    /// Processor use of the container or process; 1.0 is one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_cores: Option<Series>,
    /// Threads and processes in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<Series>,
    /// Bytes that the container or process read from block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes that the container or process wrote to block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Processors' worth of time that everybody on the host used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_busy_cores: Option<Series>,
    /// Processors' worth of time that others than the run used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_cores: Option<Series>,
    /// Memory of the host that could be had without swapping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_available_bytes: Option<Series>,
    /// Share of the time in which something on the host waited for memory, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_stall_percent: Option<f64>,
    /// Bytes of the card used by the run's process, as NVML says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_process_bytes: Option<Series>,
    /// Bytes of the card used by everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_used_bytes: Option<Series>,
    /// Share of time with a kernel running, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_utilization_percent: Option<Series>,
    /// Power draw of the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_power_watts: Option<Series>,
    /// Temperature of the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_temperature_celsius: Option<Series>,
    /// Multiprocessor clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_sm_clock_mhz: Option<Series>,
    /// Memory clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_memory_clock_mhz: Option<Series>,
    /// Reasons for which the card held its clocks back at any sample, in NVML's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub card_throttle_reasons: Vec<String>,
    /// Share of the samples in which each of these reasons held, in percent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub card_throttled_percent: BTreeMap<String, f64>,
    /// Uncorrectable memory errors of the card while the run went on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_uncorrected_errors: Option<u64>,
    /// Critical errors of the card that its driver told of, by NVIDIA's XID numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub card_xids: Vec<u64>,
    /// Why the card counts as lost, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_lost: Option<String>,
    /// Energy that the card drew from the first sample to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_energy_joules: Option<f64>,
    /// Processes of others that had the card in use at any sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_card_processes: Vec<u32>,
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
    /// At most a few hundred samples, in order of time.
    pub samples: Vec<Sample>,
}

/// One sample: seconds since the run's start, and the value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample(pub f64, pub f64);

impl Series {
    /// Most samples that are kept.
    pub const KEPT: usize = 240;

    /// Of all samples, in order of time; `None` where there are none. Thinned by taking the
    /// greatest of each stretch, so that a short peak stays.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let values = || samples.iter().map(|sample| sample.1);
        let stretch = samples.len().div_ceil(Self::KEPT);
        let kept = samples
            .chunks(stretch)
            .filter_map(|chunk| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)))
            .collect();
        Some(Self {
            count: samples.len() as u64,
            minimum: values().fold(f64::INFINITY, f64::min),
            mean: values().sum::<f64>() / samples.len() as f64,
            maximum: values().fold(f64::NEG_INFINITY, f64::max),
            samples: kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_peak_survives_thinning() {
        let mut samples: Vec<_> = (0..10_000).map(|i| Sample(f64::from(i), 1.0)).collect();
        samples[7_777].1 = 9.0;
        let series = Series::of(&samples).unwrap();
        assert!(series.samples.len() <= Series::KEPT);
        assert_eq!(series.samples.iter().filter(|s| s.1 > 8.0).count(), 1);
        assert_eq!(
            (series.count, series.minimum, series.maximum),
            (10_000, 1.0, 9.0)
        );
        assert_eq!(Series::of(&[]), None);
    }
}
