//! The card, through NVML.

use std::{collections::BTreeSet, sync::Arc};

use nvml_wrapper::{
    Device, Nvml,
    bitmasks::device::ThrottleReasons,
    enum_wrappers::device::{Clock, TemperatureSensor},
    enums::device::UsedGpuMemory,
};
use record::Monitor;

use super::{Column, Target};

/// One card, open for reading. Nothing here changes anything on it.
#[derive(Debug, Clone)]
pub struct Card {
    nvml: Arc<Nvml>,
    index: u32,
}

/// A card as it was before a run started.
#[derive(Debug)]
pub struct Idle {
    card: Card,
    strangers: BTreeSet<u32>,
}

impl Card {
    /// The card with this index as NVML counts; `None` where NVML does not show it.
    #[must_use]
    pub fn open(index: u32) -> Option<Self> {
        let nvml = Nvml::init().ok()?;
        nvml.device_by_index(index).ok()?;
        Some(Self {
            nvml: Arc::new(nvml),
            index,
        })
    }

    /// Notes who uses the card before a run starts.
    #[must_use]
    pub fn before_run(&self) -> Idle {
        let processes = self
            .device()
            .and_then(|device| device.running_compute_processes().ok());
        Idle {
            card: self.clone(),
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
}

/// Takes the samples.
#[derive(Debug)]
pub(super) struct Busy {
    card: Card,
    strangers: BTreeSet<u32>,
    target: Target,
    process: Column,
    used: Column,
    utilization: Column,
    power: Column,
    temperature: Column,
    sm_clock: Column,
    memory_clock: Column,
    throttled: BTreeSet<String>,
    others: BTreeSet<u32>,
    energy: Option<(u64, u64)>,
}

impl Busy {
    pub(super) fn new(idle: Idle, target: Target) -> Self {
        Self {
            card: idle.card,
            strangers: idle.strangers,
            target,
            process: Column::default(),
            used: Column::default(),
            utilization: Column::default(),
            power: Column::default(),
            temperature: Column::default(),
            sm_clock: Column::default(),
            memory_clock: Column::default(),
            throttled: BTreeSet::new(),
            others: BTreeSet::new(),
            energy: None,
        }
    }

    pub(super) fn sample(&mut self, at: f64) {
        let card = self.card.clone();
        let Some(device) = card.device() else { return };
        if let Ok(memory) = device.memory_info() {
            self.used.push(at, Some(memory.used as f64));
        }
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
            self.throttled.extend(words(reasons));
        }
        if let Ok(now) = device.total_energy_consumption() {
            let first = self.energy.map_or(now, |(first, _)| first);
            self.energy = Some((first, now));
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

    pub(super) fn finish(self, monitor: &mut Monitor) {
        monitor.card_process_bytes = self.process.series();
        monitor.card_used_bytes = self.used.series();
        monitor.card_utilization_percent = self.utilization.series();
        monitor.card_power_watts = self.power.series();
        monitor.card_temperature_celsius = self.temperature.series();
        monitor.card_sm_clock_mhz = self.sm_clock.series();
        monitor.card_memory_clock_mhz = self.memory_clock.series();
        monitor.card_throttle_reasons = self.throttled.into_iter().collect();
        monitor.card_energy_joules = self
            .energy
            .map(|(first, last)| last.saturating_sub(first) as f64 / 1000.0);
        monitor.other_card_processes = self.others.into_iter().collect();
    }
}

/// Reasons that hold the clocks back, in NVML's words. An idle card and clocks that somebody set
/// are no throttling of the moment, but the latter changes figures and stays.
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
            assert!(Card::open(0).is_none());
        }
    }
}
