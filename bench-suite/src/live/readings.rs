//! The newest readings of the monitors of all runs under way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::Device;

use crate::host::Sampled;

/// The newest readings of one run; what cannot be read is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Where it runs.
    pub device: String,
    /// The newest of each.
    pub values: BTreeMap<Sampled, f64>,
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
    pub(crate) fn publish(&self, values: BTreeMap<Sampled, f64>) {
        let reading = Reading {
            device: self.device.clone(),
            values,
        };
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
        run.publish([(Sampled::Pids, 3.0)].into());
        assert!(live.readings()["r-1"].values.contains_key(&Sampled::Pids));
        drop(run);
        assert!(live.readings().is_empty());
    }
}
