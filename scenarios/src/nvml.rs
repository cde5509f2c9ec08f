//! The GPU's memory as the driver's management library says. Unlike CUDA it can be asked before
//! this process has a context, and so says what the context takes.

use nvml_wrapper::Nvml;

/// One GPU, open for reading.
#[derive(Debug)]
pub struct Gpu {
    nvml: Nvml,
    uuid: String,
}

impl Gpu {
    /// The GPU with this UUID; `None` where there is no NVML or it does not show the GPU.
    pub fn open(uuid: &str) -> Option<Self> {
        // The name without a number is only there where the driver's headers are.
        let nvml = Nvml::builder()
            .lib_path("libnvidia-ml.so.1".as_ref())
            .init()
            .ok()?;
        nvml.device_by_uuid(uuid).ok()?;
        Some(Self {
            nvml,
            uuid: uuid.to_owned(),
        })
    }

    /// Bytes in use by everybody; `None` where the GPU does not say.
    pub fn used_bytes(&self) -> Option<u64> {
        let device = self.nvml.device_by_uuid(self.uuid.as_str()).ok()?;
        Some(device.memory_info().ok()?.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_is_not_there_is_none() {
        assert!(Gpu::open("GPU-00000000-0000-0000-0000-000000000000").is_none());
    }
}
