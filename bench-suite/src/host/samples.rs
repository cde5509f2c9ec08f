//! Samples of a run, before they are thinned for the record.

use std::collections::BTreeMap;

use record::{Monitor, Sample, Series};

/// What is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the field of `Monitor` of its name")]
pub enum Sampled {
    MemoryBytes,
    CpuCores,
    Pids,
    HostBusyCores,
    OtherCores,
    HostAvailableBytes,
    GpuProcessBytes,
    GpuUsedBytes,
    GpuUtilizationPercent,
    GpuPowerWatts,
    GpuTemperatureCelsius,
    GpuSmClockMhz,
    GpuMemoryClockMhz,
    /// Since the first sample.
    GpuEnergyJoules,
}

impl Sampled {
    fn slot(self, monitor: &mut Monitor) -> &mut Option<Series> {
        match self {
            Self::MemoryBytes => &mut monitor.memory_bytes,
            Self::CpuCores => &mut monitor.cpu_cores,
            Self::Pids => &mut monitor.pids,
            Self::HostBusyCores => &mut monitor.host_busy_cores,
            Self::OtherCores => &mut monitor.other_cores,
            Self::HostAvailableBytes => &mut monitor.host_available_bytes,
            Self::GpuProcessBytes => &mut monitor.gpu_process_bytes,
            Self::GpuUsedBytes => &mut monitor.gpu_used_bytes,
            Self::GpuUtilizationPercent => &mut monitor.gpu_utilization_percent,
            Self::GpuPowerWatts => &mut monitor.gpu_power_watts,
            Self::GpuTemperatureCelsius => &mut monitor.gpu_temperature_celsius,
            Self::GpuSmClockMhz => &mut monitor.gpu_sm_clock_mhz,
            Self::GpuMemoryClockMhz => &mut monitor.gpu_memory_clock_mhz,
            Self::GpuEnergyJoules => &mut monitor.gpu_energy,
        }
    }
}

/// Everything that was seen of a run from outside. Samples count their seconds from its start.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    columns: BTreeMap<Sampled, Vec<Sample>>,
    /// What is no series.
    pub(crate) rest: Monitor,
}

impl Samples {
    /// Takes a sample in; what cannot be read or is no number is left out.
    pub(crate) fn push(&mut self, what: Sampled, at: f64, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.columns
                .entry(what)
                .or_default()
                .push(Sample(at, value));
        }
    }

    /// The newest of each.
    #[must_use]
    pub fn newest(&self) -> BTreeMap<Sampled, f64> {
        let columns = self.columns.iter();
        columns
            .filter_map(|(what, samples)| Some((*what, samples.last()?.1)))
            .collect()
    }

    /// With the columns of `other` that are missing here.
    #[must_use]
    pub(crate) fn or(mut self, other: Self) -> Self {
        for (what, samples) in other.columns {
            self.columns.entry(what).or_insert(samples);
        }
        self.rest.read_bytes = self.rest.read_bytes.or(other.rest.read_bytes);
        self.rest.written_bytes = self.rest.written_bytes.or(other.rest.written_bytes);
        self
    }

    /// With all samples in its series.
    #[must_use]
    pub fn monitor(self) -> Monitor {
        let mut monitor = self.rest;
        for (what, samples) in &self.columns {
            *what.slot(&mut monitor) = Series::of(samples);
        }
        monitor
    }
}
