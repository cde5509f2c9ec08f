//! The newest readings of the monitors of all runs under way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::Device;

/// The newest readings of one run. `None` is «cannot be read here».
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Where it runs.
    pub device: String,
    /// Memory of the container or process.
    pub memory_bytes: Option<f64>,
    /// CPUs' worth of time that it uses.
    pub cpu_cores: Option<f64>,
    /// Its threads and processes.
    pub pids: Option<f64>,
    /// Bytes of the GPU in use by everybody.
    pub gpu_used_bytes: Option<f64>,
    /// Share of time with a kernel running on the GPU.
    pub gpu_utilization_percent: Option<f64>,
    /// Power draw of the GPU.
    pub gpu_power_watts: Option<f64>,
    /// Temperature of the GPU.
    pub gpu_temperature_celsius: Option<f64>,
    /// Multiprocessor clock of the GPU.
    pub gpu_sm_clock_mhz: Option<f64>,
}

/// Where monitors put their newest readings. A clone is the same place.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<BTreeMap<String, Reading>>>);

impl Live {
    /// The newest readings by run.
    #[must_use]
    pub fn readings(&self) -> BTreeMap<String, Reading> {
        self.lock().clone()
    }

    /// A place for one run, which goes with it.
    pub(crate) fn run(&self, name: &str, device: Device) -> LiveRun {
        LiveRun {
            live: self.clone(),
            name: name.to_owned(),
            device: device.to_string(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Reading>> {
        // What a thread that panicked left is a reading like any other.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one run.
#[derive(Debug)]
pub(crate) struct LiveRun {
    live: Live,
    name: String,
    device: String,
}

impl LiveRun {
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn publish(&self, reading: Reading) {
        self.live.lock().insert(self.name.clone(), reading);
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        self.live.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_go_with_their_run() {
        let live = Live::default();
        let run = live.run("r-1", Device::Cpu);
        run.publish(Reading {
            pids: Some(3.0),
            ..Reading::default()
        });
        assert_eq!(live.readings()["r-1"].pids, Some(3.0));
        drop(run);
        assert!(live.readings().is_empty());
    }
}
