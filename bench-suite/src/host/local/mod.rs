//! The machine that this process runs on: `/proc`, `/sys`, cgroups, NVML and `flock`.

mod cgroup;
mod facts;
mod gpu;
mod intervals;
mod lock;
mod monitor;
mod nvml;
mod processes;
mod system;
mod topology;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use nvml_wrapper::Nvml;
use protocol::Device;
use record::{Before, Machine};
use tokio::time::sleep;

use self::{gpu::Gpu, processes::Source, system::Times};
use super::{DeviceLock, Host, LockError, Subject, Target, Watch};

pub use nvml::LIBRARY_VARIABLE;

/// Over so long the host's load is read.
const LOAD_WINDOW: Duration = Duration::from_millis(300);

/// The machine that this process runs on.
pub fn open() -> Arc<dyn Host> {
    Arc::new(Local::default())
}

#[derive(Debug, Default)]
struct Local {
    /// Opened once; `None` where it cannot be.
    nvml: OnceLock<Option<Arc<Nvml>>>,
    name: OnceLock<String>,
}

impl Local {
    fn gpu(&self, device: Device) -> Option<Gpu> {
        let Device::Cuda(index) = device else {
            return None;
        };
        let nvml = self.nvml.get_or_init(|| nvml::open().ok().map(Arc::new));
        Some(Gpu::new(nvml.clone()?, index))
    }
}

impl Host for Local {
    fn name(&self) -> &str {
        self.name.get_or_init(facts::name)
    }

    fn facts(&self) -> Machine {
        facts::machine()
    }

    fn cpus(&self) -> f64 {
        system::cpus()
    }

    fn available_memory_bytes(&self) -> Option<u64> {
        facts::meminfo(Path::new("/"), "MemAvailable:")
    }

    fn gpu_obstacle(&self) -> Option<String> {
        nvml::obstacle()
    }

    fn lock(
        &self,
        gpu: Option<&record::Gpu>,
        session: &str,
        share: bool,
    ) -> Result<DeviceLock, LockError> {
        Ok(Box::new(lock::take(gpu, session, share)?))
    }

    fn process_name(&self, pid: u32) -> Option<String> {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(record::printable(name.trim()).into_owned())
    }

    fn gpu_processes(&self, device: Device) -> BTreeSet<u32> {
        let gpu = self.gpu(device);
        gpu.map(|gpu| gpu.processes()).unwrap_or_default()
    }

    fn state(&self, device: Device, with_load: bool) -> BoxFuture<'_, Result<Before, String>> {
        Box::pin(async move {
            let mut before = Before {
                host_available_bytes: self.available_memory_bytes(),
                ..Before::default()
            };
            if with_load && let Some(first) = Times::now() {
                sleep(LOAD_WINDOW).await;
                let share = Times::now().and_then(|now| now.busy_since(first));
                before.host_busy_percent = share.map(|share| 100.0 * share);
            }
            if let Some(gpu) = self.gpu(device) {
                gpu.state(&mut before)?;
            }
            Ok(before)
        })
    }

    fn can_see(&self, target: &Target) -> bool {
        !matches!(Source::of(target), Source::None)
    }

    fn watch(&self, subject: Subject) -> Watch {
        let of_rank = |(rank, device): &(usize, Device)| Some((*rank, self.gpu(*device)?));
        let gpus: Vec<(usize, Gpu)> = subject.ranks.iter().filter_map(of_rank).collect();
        Watch::begin(move |watcher| monitor::run(&subject, &gpus, watcher))
    }
}
