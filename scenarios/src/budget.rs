//! Limits on the GPU's memory.

use protocol::{CudaFacts, Device, RunFile};

use libtorch::cuda;

use crate::{Error, memory::MemoryMeter, summary::Memory};

/// What of the GPU a run may hold. The allocator gets what the CUDA context and libraries leave,
/// and these grow with the first steps: the limit is set again after the first step and after
/// warm-up, and checked when the last measured step is over.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    index: u32,
    total_bytes: u64,
    gpu_bytes: Option<u64>,
    allocator_bytes: Option<u64>,
}

impl Budget {
    /// What the run file asks for; `None` where it asks for nothing.
    pub fn of(file: &RunFile, facts: Option<&CudaFacts>) -> Option<Self> {
        let (Device::Cuda(index), Some(facts)) = (file.device, facts) else {
            return None;
        };
        // Of unified memory more than there is, is kept where it is allocated.
        let total_bytes = facts.total_memory_bytes;
        let is_beyond = |bytes: &u64| file.oversubscribe && *bytes > total_bytes;
        let gpu_bytes = file.gpu_memory_bytes.filter(|bytes| !is_beyond(bytes));
        gpu_bytes
            .or(file.allocator_memory_bytes)
            .is_some()
            .then_some(Self {
                index,
                total_bytes,
                gpu_bytes,
                allocator_bytes: file.allocator_memory_bytes,
            })
    }

    /// Limits the allocator to what is left to it now.
    pub fn apply(&self, meter: &MemoryMeter) -> Result<(), Error> {
        let left = match self.gpu_bytes {
            None => u64::MAX,
            Some(gpu) => {
                let outside = outside(&meter.read()?);
                let left = gpu.checked_sub(outside).filter(|left| *left > 0);
                left.ok_or(Error::GpuMemory {
                    limit_bytes: gpu,
                    held_bytes: outside,
                })?
            }
        };
        let most = left.min(self.allocator_bytes.unwrap_or(u64::MAX));
        // More than there is, is no limit.
        let share = (most as f64 / self.total_bytes as f64).min(1.0);
        Ok(cuda::set_memory_fraction(self.index, share)?)
    }

    /// As [`Budget::apply`], once what the first step left in the cache is given back: what it
    /// took before the libraries were there may be more than is left now.
    pub fn apply_anew(&self, meter: &MemoryMeter) -> Result<(), Error> {
        cuda::synchronize()?;
        cuda::empty_cache()?;
        self.apply(meter)
    }

    /// Whether the process holds no more than it may.
    pub fn check(&self, meter: &MemoryMeter) -> Result<(), Error> {
        let Some(gpu) = self.gpu_bytes else {
            return Ok(());
        };
        let memory = meter.read()?;
        let held_bytes = outside(&memory) + memory.reserved_bytes.unwrap_or(0);
        if held_bytes <= gpu {
            return Ok(());
        }
        Err(Error::GpuMemory {
            limit_bytes: gpu,
            held_bytes,
        })
    }
}

/// Bytes of the GPU that the process holds outside the allocator. Without NVML others' count too.
fn outside(memory: &Memory) -> u64 {
    let held = memory.reserved_bytes.unwrap_or(0) + memory.device_used_before_bytes.unwrap_or(0);
    let used = memory.device_used_bytes.unwrap_or(0);
    used.saturating_sub(held)
}
