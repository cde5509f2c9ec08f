//! What was seen from outside while a run went on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Window;

/// Declares every series once: its name in Rust and in a record, whose it is, and what it is.
macro_rules! series {
    ($($name:ident, $word:literal, $scope:ident, $help:literal;)*) => {
        /// What is sampled from outside.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        pub enum Sampled {
            $(#[doc = $help] #[serde(rename = $word)] $name,)*
        }

        impl Sampled {
            /// Every series.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name in a record.
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Whose it is.
            pub fn scope(self) -> Scope {
                match self { $(Self::$name => Scope::$scope,)* }
            }
        }
    };
}

series! {
    MemoryBytes, "memory_bytes", Run, "Memory of the run's container or process";
    CpuCores, "cpu_cores", Run, "CPUs' worth of time that the run uses";
    Pids, "pids", Run, "Threads and processes of the run";
    HostBusyCores, "host_busy_cores", Host, "CPUs' worth of time that everybody on the host uses";
    OtherCores, "other_cores", Host, "CPUs' worth of time that others than the run use";
    HostAvailableBytes, "host_available_bytes", Host, "Memory of the host available without swapping";
    GpuProcessBytes, "process_bytes", Gpu, "Bytes of the GPU in use by the run's process";
    GpuUsedBytes, "used_bytes", Gpu, "Bytes of the GPU in use by all processes";
    GpuUtilizationPercent, "utilization_percent", Gpu, "Share of time with a kernel running on the GPU";
    GpuPowerWatts, "power_watts", Gpu, "Power draw of the GPU";
    GpuTemperatureCelsius, "temperature_celsius", Gpu, "Temperature of the GPU";
    GpuSmClockMhz, "sm_clock_mhz", Gpu, "Multiprocessor clock of the GPU";
    GpuMemoryClockMhz, "memory_clock_mhz", Gpu, "Memory clock of the GPU";
    GpuEnergyJoules, "energy_joules", Gpu, "Energy that the GPU drew since the first sample";
}

/// Whose a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The run's container or process.
    Run,
    /// The host of the run.
    Host,
    /// One GPU of the run.
    Gpu,
}

/// What was seen from outside. What cannot be read has no series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Monitor {
    /// Of the run, and of the host of its first rank.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<Sampled, Series>,
    /// Bytes that the container or process read from block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes that the container or process wrote to block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Share of the time in which something on the host waited for memory, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_stall_percent: Option<f64>,
    /// Of the GPU of each rank, by rank; none where the run has no GPU, or none can be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuMonitor>,
}

/// What was seen of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GpuMonitor {
    /// Its series.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<Sampled, Series>,
    /// Reasons for which it held its clocks back at any sample, in NVML's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<String>,
    /// Share of the samples in which each of these reasons held, in percent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub throttled_percent: BTreeMap<String, f64>,
    /// Uncorrectable memory errors while the run went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncorrected_errors: Option<u64>,
    /// Critical errors that its driver reported, by NVIDIA's XID numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<u64>,
    /// Why it counts as lost, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Energy that it drew from the first sample to the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    /// Processes of others that had it in use at any sample.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_processes: Vec<u32>,
    /// When each of these held: a reason for which it held its clocks back, or `others` using it.
    /// By reason, then time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<GpuInterval>,
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
    /// Of the samples within the measured steps; `None` where there are none.
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
    pub fn peak_within(&self, window: Window) -> Option<f64> {
        let within = self.samples.iter().filter(|sample| window.holds(sample.0));
        within.map(|sample| sample.1).max_by(f64::total_cmp)
    }

    /// How much a counter grew within a window, between samples as if it grew evenly. `None` with
    /// fewer samples there than [`Series::LEAST`].
    pub fn increase_within(&self, window: Window) -> Option<f64> {
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
    /// A series; of the GPU of the first rank where it is a GPU's.
    pub fn get(&self, what: Sampled) -> Option<&Series> {
        match what.scope() {
            Scope::Gpu => self.gpus.first()?.series.get(&what),
            Scope::Run | Scope::Host => self.series.get(&what),
        }
    }

    /// Whether processes of others had a GPU of the run in use.
    pub fn is_shared(&self) -> bool {
        self.gpus.iter().any(|gpu| !gpu.other_processes.is_empty())
    }

    /// Makes it ready for a record: every series notes what lies within the measured steps, and is
    /// thinned. Of the energy's counter, its growth alone is kept.
    pub fn close(&mut self, measured: Option<Window>) {
        let of_gpus = self.gpus.iter_mut().flat_map(|gpu| {
            gpu.series.remove(&Sampled::GpuEnergyJoules);
            gpu.series.values_mut()
        });
        for series in self.series.values_mut().chain(of_gpus) {
            series.close(measured);
        }
    }
}

/// At most `most` of these samples (2 at least), in their order: the least and the greatest of
/// each stretch, so that neither a short peak nor a short dip goes.
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
        let energy = Series::of(&samples).unwrap();
        let grown = |from, to| energy.increase_within(Window { from, to });
        // 300 W from 1.05 to 3.05 s.
        assert!((grown(1.05, 3.05).unwrap() - 600.0).abs() < 1e-9);
        assert_eq!(grown(1.05, 1.25), None, "too few samples");
        assert_eq!(grown(3.0, 9.0), None, "it ends before the window does");
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
