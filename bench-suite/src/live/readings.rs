//! The newest readings of the monitors of all runs under way.

use std::{
    collections::BTreeMap,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::Device;
use record::Sampled;

/// The newest readings of one rank's device, and of the run with those of the first; what cannot be
/// read is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub device: String,
    pub values: BTreeMap<Sampled, f64>,
}

/// Where monitors put their newest readings. A clone is the same place.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<BTreeMap<String, Vec<Reading>>>>);

impl Live {
    /// The newest readings by run.
    #[must_use]
    pub fn readings(&self) -> BTreeMap<String, Vec<Reading>> {
        self.lock().clone()
    }

    /// A place for one run, which goes with it.
    pub(crate) fn run(&self, name: &str, ranks: &[(usize, Device)]) -> LiveRun {
        LiveRun {
            live: self.clone(),
            name: name.to_owned(),
            devices: ranks.iter().map(|(_, device)| device.to_string()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Reading>>> {
        // What a thread that panicked left is a reading like any other.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct LiveRun {
    live: Live,
    name: String,
    devices: Vec<String>,
}

impl LiveRun {
    pub(crate) fn publish(
        &self,
        mut of_run: BTreeMap<Sampled, f64>,
        of_gpus: Vec<BTreeMap<Sampled, f64>>,
    ) {
        let of_gpus = of_gpus.into_iter().chain(iter::repeat(BTreeMap::new()));
        let readings = self
            .devices
            .iter()
            .zip(of_gpus)
            .map(|(device, mut values)| {
                values.append(&mut of_run);
                let device = device.clone();
                Reading { device, values }
            });
        let readings = readings.collect();
        self.live.lock().insert(self.name.clone(), readings);
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
        let run = live.run("r-1", &[(0, Device::Cuda(0)), (1, Device::Cuda(1))]);
        let power = |watts| BTreeMap::from([(Sampled::GpuPowerWatts, watts)]);
        run.publish(
            [(Sampled::Pids, 3.0)].into(),
            vec![power(100.0), power(200.0)],
        );
        let readings = &live.readings()["r-1"];
        assert_eq!(readings[0].values.len(), 2);
        assert_eq!(readings[1].device, "cuda:1");
        assert_eq!(readings[1].values, power(200.0));
        drop(run);
        assert!(live.readings().is_empty());
    }
}
