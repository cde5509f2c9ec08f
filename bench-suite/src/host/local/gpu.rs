//! The GPU, through NVML.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use nvml_wrapper::{
    Device, EventSet, Nvml,
    bitmasks::{device::ThrottleReasons, event::EventTypes},
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    enums::{device::UsedGpuMemory, event::XidError},
    error::NvmlError,
};
use record::{Before, GpuInterval, Sampled};

use super::{intervals::Intervals, nvml};
use crate::host::{Columns, Target};

/// One GPU, open for reading. Nothing here changes anything on it.
#[derive(Debug, Clone)]
pub(super) struct Gpu {
    nvml: Arc<Nvml>,
    index: u32,
}

impl Gpu {
    /// The GPU with this index as NVML counts.
    pub(super) fn new(nvml: Arc<Nvml>, index: u32) -> Self {
        Self { nvml, index }
    }

    pub(super) fn processes(&self) -> BTreeSet<u32> {
        let device = self.nvml.device_by_index(self.index);
        let processes = device.and_then(|device| device.running_compute_processes());
        let processes = processes.unwrap_or_default();
        processes.iter().map(|process| process.pid).collect()
    }

    /// Notes how it is at this moment, or says why it counts as lost.
    pub(super) fn state(&self, before: &mut Before) -> Result<(), String> {
        // What this GPU cannot tell is not known; that it is lost, any answer may tell.
        fn known<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, String> {
            match answer {
                Ok(value) => Ok(Some(value)),
                Err(error) => nvml::loss(&error).map_or(Ok(None), |why| Err(why.to_owned())),
            }
        }
        let Some(device) = known(self.nvml.device_by_index(self.index))? else {
            return Ok(());
        };
        let rates = known(device.utilization_rates())?;
        before.gpu_utilization_percent = rates.map(|rates| f64::from(rates.gpu));
        let celsius = known(device.temperature(TemperatureSensor::Gpu))?;
        before.gpu_temperature_celsius = celsius.map(f64::from);
        let processes = known(device.running_compute_processes())?;
        before.gpu_processes = processes.map(|processes| {
            let pids: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
            pids.into_iter().collect()
        });
        Ok(())
    }
}

/// Critical errors of one GPU, as its driver tells of them.
pub(super) struct Errors<'a>(EventSet<'a>);

impl<'a> Errors<'a> {
    /// `None` where the driver tells of none, as in some containers.
    pub(super) fn listen(gpu: &'a Gpu) -> Option<Self> {
        let events = gpu.nvml.create_event_set().ok()?;
        let device = gpu.nvml.device_by_index(gpu.index).ok()?;
        let events = device.register_events(EventTypes::CRITICAL_XID_ERROR, events);
        events.ok().map(Self)
    }

    /// Errors since the last call, and why the GPU is lost where that is told so.
    fn new_ones(&self) -> (Vec<u64>, Option<&'static str>) {
        const MOST: usize = 16;
        let mut xids = Vec::new();
        while xids.len() < MOST {
            match self.0.wait(0) {
                Ok(event) => match event.event_data {
                    Some(XidError::Value(xid)) => xids.push(xid),
                    _ => break,
                },
                Err(error) => return (xids, nvml::loss(&error)),
            }
        }
        (xids, None)
    }
}

#[derive(Debug)]
pub(super) struct GpuMonitor {
    gpu: Gpu,
    columns: Columns,
    target: Target,
    /// Processes that were there before the run.
    bystanders: BTreeSet<u32>,
    throttled: BTreeMap<String, u64>,
    throttle_samples: u64,
    intervals: Intervals,
    others: BTreeSet<u32>,
    first_energy: Option<u64>,
    energy_joules: Option<f64>,
    uncorrected: Option<(u64, u64)>,
    xids: Vec<u64>,
    lost: Option<String>,
}

impl GpuMonitor {
    pub(super) fn new(gpu: &Gpu, target: Target, bystanders: BTreeSet<u32>) -> Self {
        Self {
            gpu: gpu.clone(),
            columns: Columns::default(),
            target,
            bystanders,
            throttled: BTreeMap::new(),
            throttle_samples: 0,
            intervals: Intervals::default(),
            others: BTreeSet::new(),
            first_energy: None,
            energy_joules: None,
            uncorrected: None,
            xids: Vec::new(),
            lost: None,
        }
    }

    /// Why the GPU counts as lost.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// A reading takes milliseconds, in which a phase may end: what is read of memory gets the time
    /// at which it was there, so that it never counts for a window that ended before.
    pub(super) fn sample(&mut self, began: Instant, errors: Option<&Errors<'_>>) {
        let now = || began.elapsed().as_secs_f64();
        let gpu = self.gpu.clone();
        self.intervals.next();
        self.sample_errors(errors);
        let device = match gpu.nvml.device_by_index(gpu.index) {
            Ok(device) => device,
            Err(error) => return self.note(&error),
        };
        match device.memory_info() {
            Ok(memory) => {
                let used = Some(memory.used as f64);
                self.columns.push(Sampled::GpuUsedBytes, now(), used);
            }
            Err(error) => self.note(&error),
        }
        self.sample_ecc(&device);
        self.sample_processes(now, &device);
        let at = now();
        let mut push = |what, value: Result<u32, NvmlError>, unit: f64| {
            let value = value.ok().map(|value| f64::from(value) * unit);
            self.columns.push(what, at, value);
        };
        let rates = device.utilization_rates().map(|rates| rates.gpu);
        push(Sampled::GpuUtilizationPercent, rates, 1.0);
        push(Sampled::GpuPowerWatts, device.power_usage(), 1e-3);
        let celsius = device.temperature(TemperatureSensor::Gpu);
        push(Sampled::GpuTemperatureCelsius, celsius, 1.0);
        push(Sampled::GpuSmClockMhz, device.clock_info(Clock::SM), 1.0);
        let memory_clock = device.clock_info(Clock::Memory);
        push(Sampled::GpuMemoryClockMhz, memory_clock, 1.0);
        if let Ok(reasons) = device.current_throttle_reasons() {
            self.throttle_samples += 1;
            for word in words(reasons) {
                self.intervals.holds(&word, at);
                *self.throttled.entry(word).or_default() += 1;
            }
        }
        if let Ok(now) = device.total_energy_consumption() {
            let first = *self.first_energy.get_or_insert(now);
            let joules = now.saturating_sub(first) as f64 / 1000.0;
            self.columns
                .push(Sampled::GpuEnergyJoules, at, Some(joules));
            self.energy_joules = Some(joules);
        }
    }

    fn note(&mut self, error: &NvmlError) {
        if let Some(words) = nvml::loss(error) {
            self.lost.get_or_insert_with(|| words.to_owned());
        }
    }

    fn sample_errors(&mut self, errors: Option<&Errors<'_>>) {
        let Some(errors) = errors else { return };
        let (xids, lost) = errors.new_ones();
        if let Some(words) = lost {
            self.lost.get_or_insert_with(|| words.to_owned());
        }
        for xid in xids {
            if let Some(words) = nvml::fatal_xid(xid) {
                self.lost
                    .get_or_insert_with(|| format!("the driver reported XID {xid}: {words}"));
            }
            self.xids.push(xid);
        }
    }

    fn sample_ecc(&mut self, device: &Device<'_>) {
        let count = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
        match count {
            Ok(now) => {
                let (first, _) = *self.uncorrected.get_or_insert((now, now));
                self.uncorrected = Some((first, now));
                if now > first {
                    let words = format!("{} uncorrectable errors in the GPU's memory", now - first);
                    self.lost.get_or_insert(words);
                }
            }
            Err(error) => self.note(&error),
        }
    }

    fn sample_processes(&mut self, now: impl Fn() -> f64, device: &Device<'_>) {
        let Ok(processes) = device.running_compute_processes() else {
            return;
        };
        let at = now();
        let mut own: Option<u64> = None;
        for process in processes {
            if self.is_own(process.pid) {
                if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
                    own = Some(own.unwrap_or(0) + bytes);
                }
            } else {
                self.others.insert(process.pid);
                self.intervals.holds(GpuInterval::OTHERS, at);
            }
        }
        let own = own.map(|bytes| bytes as f64);
        self.columns.push(Sampled::GpuProcessBytes, at, own);
    }

    /// A process that cannot be seen from here (another namespace) counts as the run's unless it
    /// was there before.
    fn is_own(&self, pid: u32) -> bool {
        super::processes::owns(&self.target, pid).unwrap_or_else(|| !self.bystanders.contains(&pid))
    }

    pub(super) fn finish(self) -> record::GpuMonitor {
        let samples = self.throttle_samples.max(1) as f64;
        let percent = |(reason, count): (String, u64)| (reason, 100.0 * count as f64 / samples);
        record::GpuMonitor {
            series: self.columns.series(),
            throttle_reasons: self.throttled.keys().cloned().collect(),
            throttled_percent: self.throttled.into_iter().map(percent).collect(),
            uncorrected_errors: self.uncorrected.map(|(first, last)| last - first),
            xids: self.xids,
            lost: self.lost,
            energy_joules: self.energy_joules,
            other_processes: self.others.into_iter().collect(),
            intervals: self.intervals.finish(),
        }
    }
}

/// Reasons that hold the clocks back, in NVML's words. An idle GPU and clocks that somebody set
/// are no throttling of the moment, but the latter changes metrics and stays.
fn words(reasons: ThrottleReasons) -> Vec<String> {
    (reasons - ThrottleReasons::GPU_IDLE)
        .iter_names()
        .map(|(name, _)| name.to_ascii_lowercase())
        .filter(|name| name != "none" && name != "user_defined_clocks")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_words_and_idleness_is_none() {
        let reasons = ThrottleReasons::GPU_IDLE | ThrottleReasons::SW_POWER_CAP;
        assert_eq!(words(reasons), ["sw_power_cap"]);
        assert!(words(ThrottleReasons::GPU_IDLE).is_empty());
        assert!(words(ThrottleReasons::NONE).is_empty());
        assert_eq!(
            words(ThrottleReasons::APPLICATIONS_CLOCKS_SETTING),
            ["applications_clocks_setting"]
        );
    }
}
