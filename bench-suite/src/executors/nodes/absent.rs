//! A host that is not known yet.

use record::{Gpu, Machine};

use crate::host::{Host, Subject, Target, Watch};

/// Stands in a plan for the node that will carry it out, which locks its own: so many GPUs, of which
/// nothing is known.
#[derive(Debug)]
pub(in crate::executors) struct Absent {
    name: &'static str,
    gpus: u32,
}

impl Absent {
    pub(super) fn new(name: &'static str, gpus: u32) -> Self {
        Self { name, gpus }
    }
}

impl Host for Absent {
    fn name(&self) -> &str {
        self.name
    }

    fn facts(&self) -> Machine {
        let gpu = |index| Gpu {
            index,
            ..Gpu::default()
        };
        Machine {
            name: self.name.to_owned(),
            gpus: (0..self.gpus).map(gpu).collect(),
            ..Machine::default()
        }
    }

    fn cpus(&self) -> f64 {
        0.0
    }

    fn available_memory_bytes(&self) -> Option<u64> {
        None
    }

    fn gpu_obstacle(&self) -> Option<String> {
        None
    }

    fn can_see(&self, _: &Target) -> bool {
        false
    }

    fn watch(&self, _: Subject) -> Watch {
        Watch::none()
    }
}
