//! The GPU, through NVML.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nvml_wrapper::{
    Device, EventSet, Nvml,
    bitmasks::{device::ThrottleReasons, event::EventTypes},
    enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor},
    enums::{device::UsedGpuMemory, event::XidError},
    error::NvmlError,
};
use record::{Monitor, Stretch};

use super::{Column, Target, stretches::Stretches};
use crate::{live::Reading, nvml};

/// One GPU, open for reading. Nothing here changes anything on it.
#[derive(Debug, Clone)]
pub struct Gpu {
    nvml: Arc<Nvml>,
    index: u32,
}

/// A GPU as it was before a run started.
#[derive(Debug)]
pub struct Idle {
    gpu: Gpu,
    strangers: BTreeSet<u32>,
}

impl Gpu {
    /// The GPU with this index as NVML counts; `None` where NVML does not show it.
    #[must_use]
    pub fn open(index: u32) -> Option<Self> {
        let nvml = nvml::open().ok()?;
        nvml.device_by_index(index).ok()?;
        Some(Self {
            nvml: Arc::new(nvml),
            index,
        })
    }

    /// Notes who uses the GPU before a run starts.
    #[must_use]
    pub fn before_run(&self) -> Idle {
        let processes = self
            .device()
            .and_then(|device| device.running_compute_processes().ok());
        Idle {
            gpu: self.clone(),
            strangers: processes
                .unwrap_or_default()
                .iter()
                .map(|process| process.pid)
                .collect(),
        }
    }

    fn device(&self) -> Option<Device<'_>> {
        self.nvml.device_by_index(self.index).ok()
    }

    /// The GPU at this moment, or why it counts as lost.
    pub fn read(&self) -> Result<GpuReading, String> {
        let lost = |error: NvmlError| nvml::loss(&error).map(str::to_owned);
        let device = match self.nvml.device_by_index(self.index) {
            Ok(device) => device,
            Err(error) => return lost(error).map_or_else(|| Ok(GpuReading::default()), Err),
        };
        // What this GPU cannot tell is not known; that it is lost, any answer may tell.
        let known = |error: NvmlError| lost(error).map_or(Ok(()), Err);
        let mut reading = GpuReading::default();
        match device.utilization_rates() {
            Ok(rates) => reading.utilization_percent = Some(f64::from(rates.gpu)),
            Err(error) => known(error)?,
        }
        match device.temperature(TemperatureSensor::Gpu) {
            Ok(celsius) => reading.temperature_celsius = Some(f64::from(celsius)),
            Err(error) => known(error)?,
        }
        match device.running_compute_processes() {
            Ok(processes) => {
                let mut pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
                pids.sort_unstable();
                reading.processes = Some(pids);
            }
            Err(error) => known(error)?,
        }
        Ok(reading)
    }
}

/// A GPU at one moment. `None` is «cannot be known here».
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuReading {
    /// Share of the last moments with a kernel running.
    pub utilization_percent: Option<f64>,
    /// Temperature.
    pub temperature_celsius: Option<f64>,
    /// Processes that use the GPU.
    pub processes: Option<Vec<u32>>,
}

impl Idle {
    pub(super) fn gpu(&self) -> Gpu {
        self.gpu.clone()
    }
}

/// Critical errors of one GPU, as its driver tells of them.
pub(super) struct Errors<'a>(EventSet<'a>);

impl<'a> Errors<'a> {
    /// `None` where the driver tells of none, as in some containers.
    pub(super) fn listen(gpu: &'a Gpu) -> Option<Self> {
        let events = gpu.nvml.create_event_set().ok()?;
        let device = gpu.device()?;
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

/// Takes the samples.
#[derive(Debug)]
pub(super) struct Busy {
    gpu: Gpu,
    strangers: BTreeSet<u32>,
    target: Target,
    process: Column,
    used: Column,
    utilization: Column,
    power: Column,
    temperature: Column,
    sm_clock: Column,
    memory_clock: Column,
    throttled: BTreeMap<String, u64>,
    throttle_samples: u64,
    stretches: Stretches,
    others: BTreeSet<u32>,
    first_energy: Option<u64>,
    drawn: Column,
    uncorrected: Option<(u64, u64)>,
    xids: Vec<u64>,
    lost: Option<String>,
}

impl Busy {
    pub(super) fn new(idle: Idle, target: Target) -> Self {
        Self {
            gpu: idle.gpu,
            strangers: idle.strangers,
            target,
            process: Column::default(),
            used: Column::default(),
            utilization: Column::default(),
            power: Column::default(),
            temperature: Column::default(),
            sm_clock: Column::default(),
            memory_clock: Column::default(),
            throttled: BTreeMap::new(),
            throttle_samples: 0,
            stretches: Stretches::default(),
            others: BTreeSet::new(),
            first_energy: None,
            drawn: Column::default(),
            uncorrected: None,
            xids: Vec::new(),
            lost: None,
        }
    }

    /// Why the GPU counts as lost.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    pub(super) fn sample(&mut self, at: f64, errors: Option<&Errors<'_>>) {
        let gpu = self.gpu.clone();
        self.stretches.next();
        self.sample_errors(errors);
        let device = match gpu.nvml.device_by_index(gpu.index) {
            Ok(device) => device,
            Err(error) => return self.note(&error),
        };
        match device.memory_info() {
            Ok(memory) => self.used.push(at, Some(memory.used as f64)),
            Err(error) => self.note(&error),
        }
        self.sample_ecc(&device);
        self.sample_processes(at, &device);
        if let Ok(rates) = device.utilization_rates() {
            self.utilization.push(at, Some(f64::from(rates.gpu)));
        }
        let number = |value: Result<u32, _>| value.ok().map(f64::from);
        self.power.push(
            at,
            number(device.power_usage()).map(|milliwatts| milliwatts / 1000.0),
        );
        self.temperature
            .push(at, number(device.temperature(TemperatureSensor::Gpu)));
        self.sm_clock.push(at, number(device.clock_info(Clock::SM)));
        self.memory_clock
            .push(at, number(device.clock_info(Clock::Memory)));
        if let Ok(reasons) = device.current_throttle_reasons() {
            self.throttle_samples += 1;
            for word in words(reasons) {
                self.stretches.holds(&word, at);
                *self.throttled.entry(word).or_default() += 1;
            }
        }
        if let Ok(now) = device.total_energy_consumption() {
            let first = *self.first_energy.get_or_insert(now);
            let joules = now.saturating_sub(first) as f64 / 1000.0;
            self.drawn.push(at, Some(joules));
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
                    .get_or_insert_with(|| format!("the driver told of XID {xid}: {words}"));
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

    fn sample_processes(&mut self, at: f64, device: &Device<'_>) {
        let Ok(processes) = device.running_compute_processes() else {
            return;
        };
        let mut own: Option<u64> = None;
        for process in processes {
            if self.is_own(process.pid) {
                if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
                    own = Some(own.unwrap_or(0) + bytes);
                }
            } else {
                self.others.insert(process.pid);
                self.stretches.holds(Stretch::OTHERS, at);
            }
        }
        self.process.push(at, own.map(|bytes| bytes as f64));
    }

    /// A process that cannot be seen from here (another namespace) counts as the run's unless it
    /// was there before.
    fn is_own(&self, pid: u32) -> bool {
        self.target
            .owns(pid)
            .unwrap_or_else(|| !self.strangers.contains(&pid))
    }

    /// The newest readings.
    pub(super) fn tell(&self, reading: &mut Reading) {
        reading.gpu_used_bytes = self.used.last();
        reading.gpu_utilization_percent = self.utilization.last();
        reading.gpu_power_watts = self.power.last();
        reading.gpu_temperature_celsius = self.temperature.last();
        reading.gpu_sm_clock_mhz = self.sm_clock.last();
    }

    pub(super) fn finish(self, monitor: &mut Monitor) {
        monitor.gpu_process_bytes = self.process.series();
        monitor.gpu_used_bytes = self.used.series();
        monitor.gpu_utilization_percent = self.utilization.series();
        monitor.gpu_power_watts = self.power.series();
        monitor.gpu_temperature_celsius = self.temperature.series();
        monitor.gpu_sm_clock_mhz = self.sm_clock.series();
        monitor.gpu_memory_clock_mhz = self.memory_clock.series();
        let samples = self.throttle_samples.max(1) as f64;
        monitor.gpu_throttle_reasons = self.throttled.keys().cloned().collect();
        monitor.gpu_throttled_percent = self
            .throttled
            .into_iter()
            .map(|(reason, count)| (reason, 100.0 * count as f64 / samples))
            .collect();
        monitor.gpu_uncorrected_errors = self.uncorrected.map(|(first, last)| last - first);
        monitor.gpu_xids = self.xids;
        monitor.gpu_lost = self.lost;
        monitor.gpu_energy = self.drawn.series();
        monitor.gpu_energy_joules = self.drawn.last();
        monitor.other_gpu_processes = self.others.into_iter().collect();
        monitor.gpu_stretches = self.stretches.finish();
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

    #[test]
    fn no_nvml_is_normal() {
        if crate::machine::nvml().is_err() {
            assert!(Gpu::open(0).is_none());
        }
    }
}
