//! Memory metrics of the device and of the host.

use libtorch::{
    Result, cuda,
    memory::{self, DeviceStats, host},
};
use protocol::{Device, MemoryPoint, Moment, Values};

use crate::{
    Error,
    host::peak_resident_bytes,
    summary::{AllocatorCounters, Memory},
};

/// Reads memory metrics, and keeps the peaks of warm-up when those of measuring begin.
#[derive(Debug)]
pub struct MemoryMeter {
    device: Device,
    /// What making the context took.
    context: Context,
    /// Peaks before the last reset.
    before: Peaks,
}

/// What a reset of the peaks would lose.
#[derive(Debug, Clone, Copy, Default)]
struct Peaks {
    allocated: u64,
    reserved: u64,
    inactive_split: Option<u64>,
    segments: Option<u64>,
}

/// Memory of the GPU around the making of this process's context.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context {
    /// Bytes in use by everybody before.
    pub before: Option<u64>,
    /// Bytes in use by everybody after.
    pub after: Option<u64>,
}

impl Context {
    pub fn bytes(self) -> Option<u64> {
        self.after?.checked_sub(self.before?)
    }
}

impl MemoryMeter {
    /// A meter for the device. On the CPU it puts the counting allocator in place,
    /// before the first tensor; on a GPU it has failed allocations remembered.
    pub fn new(device: Device, context: Context) -> Result<Self> {
        match device {
            Device::Cpu => host::install()?,
            Device::Cuda(index) => memory::watch_shortages(index)?,
        }
        Ok(Self {
            device,
            context,
            before: Peaks::default(),
        })
    }

    /// Lets the peaks start again from what is in use now.
    pub fn reset_peaks(&mut self) -> Result<()> {
        match self.device {
            Device::Cpu => {
                self.before.allocated = self.before.allocated.max(host::peak_allocated_bytes());
                host::reset_peak();
            }
            Device::Cuda(index) => {
                let stats = memory::device_stats(index)?;
                self.before = Peaks {
                    allocated: self.before.allocated.max(stats.peak_allocated_bytes),
                    reserved: self.before.reserved.max(stats.peak_reserved_bytes),
                    // An `Option` is less when it is `None`.
                    inactive_split: self
                        .before
                        .inactive_split
                        .max(stats.peak_inactive_split_bytes),
                    segments: self.before.segments.max(stats.peak_segments),
                };
                memory::reset_peak(index)?;
            }
        }
        Ok(())
    }

    /// Memory at this moment. The peak since the last point goes into it, and starts again.
    pub fn point(&mut self, moment: Moment, step: Option<u32>) -> Result<MemoryPoint> {
        let now = match self.device {
            Device::Cpu => self.of_cpu(),
            Device::Cuda(index) => {
                cuda::synchronize()?;
                self.of_gpu(index)?
            }
        };
        self.reset_peaks()?;
        Ok(MemoryPoint {
            moment,
            step,
            allocated_bytes: now.allocated_bytes,
            peak_allocated_bytes: now.peak_allocated_bytes,
            reserved_bytes: now.reserved_bytes,
            device_used_bytes: now.device_used_bytes,
        })
    }

    /// The metrics now. Those of the model are the caller's to fill in.
    pub fn read(&self) -> Result<Memory> {
        let metrics = match self.device {
            Device::Cpu => self.of_cpu(),
            Device::Cuda(index) => self.of_gpu(index)?,
        };
        Ok(Memory {
            host_peak_resident_bytes: peak_resident_bytes(),
            ..metrics
        })
    }

    /// What memory holds after a step, under the names of its series: bytes in tensors, and of a GPU
    /// what the caching allocator holds. Waits for nothing: what the CPU has asked for and given back
    /// counts.
    pub fn after_step(&self) -> Result<Values> {
        let Device::Cuda(index) = self.device else {
            let allocated = host::allocated_bytes() as f64;
            return Ok([("step_allocated_bytes".to_owned(), allocated)].into());
        };
        let stats = memory::device_stats(index)?;
        let held = [
            ("step_allocated_bytes", Some(stats.allocated_bytes)),
            ("step_reserved_bytes", Some(stats.reserved_bytes)),
            ("step_inactive_split_bytes", stats.inactive_split_bytes),
        ];
        let held = held.into_iter();
        let held = held.filter_map(|(name, bytes)| Some((name.to_owned(), bytes? as f64)));
        Ok(held.collect())
    }

    /// The metrics once a run has failed: those of the moment in which memory ran out, where it did.
    pub fn read_after(&self, error: &Error) -> Result<Memory> {
        let metrics = self.read()?;
        let shortage = memory::last_shortage().filter(|_| error.is_of_gpu_memory());
        let Some(shortage) = shortage else {
            return Ok(metrics);
        };
        Ok(Memory {
            allocated_bytes: Some(shortage.allocated_bytes),
            reserved_bytes: Some(shortage.reserved_bytes),
            shortage: Some(shortage),
            ..metrics
        })
    }

    fn of_cpu(&self) -> Memory {
        let peak = host::peak_allocated_bytes();
        Memory {
            peak_allocated_bytes: Some(peak),
            run_peak_allocated_bytes: Some(peak.max(self.before.allocated)),
            allocated_bytes: Some(host::allocated_bytes()),
            ..Memory::default()
        }
    }

    fn of_gpu(&self, index: u32) -> Result<Memory> {
        let stats = memory::device_stats(index)?;
        let gpu = cuda::memory_info(index)?;
        Ok(Memory {
            peak_allocated_bytes: Some(stats.peak_allocated_bytes),
            peak_reserved_bytes: Some(stats.peak_reserved_bytes),
            run_peak_allocated_bytes: Some(stats.peak_allocated_bytes.max(self.before.allocated)),
            run_peak_reserved_bytes: Some(stats.peak_reserved_bytes.max(self.before.reserved)),
            allocated_bytes: Some(stats.allocated_bytes),
            reserved_bytes: Some(stats.reserved_bytes),
            device_used_bytes: Some(gpu.total_bytes.saturating_sub(gpu.free_bytes)),
            device_total_bytes: Some(gpu.total_bytes),
            context_bytes: self.context.bytes(),
            device_used_before_bytes: self.context.before,
            counters: Some(AllocatorCounters {
                largest_free_block_bytes: memory::largest_free_block_bytes(index)?,
                ..self.counters(&stats)
            }),
            ..Memory::default()
        })
    }

    fn counters(&self, stats: &DeviceStats) -> AllocatorCounters {
        AllocatorCounters {
            retries: stats.retries,
            out_of_memory: stats.out_of_memory,
            device_allocations: stats.device_allocations,
            device_frees: stats.device_frees,
            requested_bytes: stats.requested_bytes,
            peak_requested_bytes: stats.peak_requested_bytes,
            active_bytes: stats.active_bytes,
            peak_active_bytes: stats.peak_active_bytes,
            inactive_split_bytes: stats.inactive_split_bytes,
            segments: stats.segments,
            largest_free_block_bytes: None,
            peak_inactive_split_bytes: stats
                .peak_inactive_split_bytes
                .max(self.before.inactive_split),
            peak_segments: stats.peak_segments.max(self.before.segments),
        }
    }
}
