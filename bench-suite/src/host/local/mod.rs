//! The machine that this process runs on: `/proc`, `/sys`, cgroups, NVML and `flock`.

mod cgroup;
mod facts;
mod gpu;
mod gpu_lock;
mod intervals;
mod monitor;
mod nvml;
mod processes;
mod system;

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
use super::{GpuLock, GpuLockError, Host, Subject, Target, Watch};
use crate::live::Live;

pub use gpu_lock::FOLDER_VARIABLE as LOCKS_VARIABLE;
pub use nvml::LIBRARY_VARIABLE;

/// Over so long the host's load is read.
const LOAD_WINDOW: Duration = Duration::from_millis(300);

/// The machine that this process runs on.
#[derive(Debug, Default)]
pub(super) struct Local {
    /// Opened once; `None` where it cannot be.
    nvml: OnceLock<Option<Arc<Nvml>>>,
    live: Live,
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

    fn lock_gpu(
        &self,
        gpu: &record::Gpu,
        session: &str,
        share: bool,
    ) -> Result<GpuLock, GpuLockError> {
        Ok(Box::new(gpu_lock::take(gpu, session, share)?))
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
        let gpu = self.gpu(subject.device);
        let live = self.live.run(&subject.run, subject.device);
        Watch::begin(move |watcher| monitor::run(subject, gpu.as_ref(), &live, watcher))
    }

    fn live(&self) -> Live {
        self.live.clone()
    }
}
