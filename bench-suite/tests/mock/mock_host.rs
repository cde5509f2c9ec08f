//! A host that is not there, with as many GPUs as the script says.

use std::time::Duration;

use protocol::Device;
use record::{Gpu, GpuMonitor, Machine, Sampled};

use crate::host::{Columns, Host, Samples, Subject, Target, Watch};

const MEMORY_BYTES: u64 = 1 << 40;
const GPU_MEMORY_BYTES: u64 = 80 << 30;

#[derive(Debug)]
pub(super) struct MockHost {
    name: String,
    gpus: u32,
}

impl MockHost {
    /// The host of this number, from 1.
    pub(super) fn new(number: u32, gpus: u32) -> Self {
        Self {
            name: format!("mock-{number}"),
            gpus,
        }
    }
}

impl Host for MockHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Machine {
        let gpu = |index| Gpu {
            index,
            name: "Mock GPU".to_owned(),
            uuid: format!("GPU-{}-{index}", self.name),
            memory_bytes: GPU_MEMORY_BYTES,
            ..Gpu::default()
        };
        Machine {
            name: self.name.clone(),
            memory_bytes: MEMORY_BYTES,
            gpus: (0..self.gpus).map(gpu).collect(),
            ..Machine::default()
        }
    }

    fn cpus(&self) -> f64 {
        1.0
    }

    fn available_memory_bytes(&self) -> Option<u64> {
        Some(MEMORY_BYTES)
    }

    fn gpu_obstacle(&self) -> Option<String> {
        (self.gpus == 0).then(|| "the script gives none".to_owned())
    }

    fn can_see(&self, _: &Target) -> bool {
        true
    }

    /// One reading of each GPU: its number in watts.
    fn watch(&self, subject: Subject) -> Watch {
        Watch::begin(move |watcher| {
            let of_gpu = |(_, device): &(usize, Device)| {
                let mut columns = Columns::default();
                if let Device::Cuda(index) = device {
                    let at = subject.began.elapsed().as_secs_f64();
                    columns.push(Sampled::GpuPowerWatts, at, Some(f64::from(*index)));
                }
                columns
            };
            let of_gpus: Vec<Columns> = subject.ranks.iter().map(of_gpu).collect();
            while watcher.pause(Duration::from_secs(1)) {}
            let mut samples = Samples::default();
            for ((rank, _), columns) in subject.ranks.iter().zip(&of_gpus) {
                let gpu = GpuMonitor {
                    series: columns.series(),
                    ..GpuMonitor::default()
                };
                samples.gpus.insert(*rank, gpu);
            }
            samples
        })
    }
}
