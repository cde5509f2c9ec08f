//! Opening NVML, and what its errors say about a GPU.

use std::env;

use nvml_wrapper::{Nvml, error::NvmlError};

/// Names NVML's library where the driver keeps it elsewhere than the loader looks.
pub const LIBRARY_VARIABLE: &str = "TORCHGAUGE_NVML";

pub(super) fn open() -> Result<Nvml, NvmlError> {
    match env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => Nvml::builder().lib_path(&path).init(),
        None => Nvml::init(),
    }
}

/// Why NVML cannot be used, with the next step.
pub(super) fn obstacle() -> Option<String> {
    match open() {
        Ok(_) => None,
        Err(error @ NvmlError::LibloadingError(_)) => Some(format!(
            "NVML is not here ({error}); it comes with the NVIDIA driver as libnvidia-ml.so.1"
        )),
        Err(error) => Some(format!(
            "NVML does not answer ({error}); is the NVIDIA driver loaded, and of the same version?"
        )),
    }
}

/// What an error says of the GPU: in words where it is gone, `None` where only the one value
/// cannot be had.
pub(super) fn loss(error: &NvmlError) -> Option<&'static str> {
    match error {
        NvmlError::GpuLost => Some("NVML reports that the GPU is lost: it fell off the bus"),
        NvmlError::ResetRequired => {
            Some("NVML reports that the GPU must be reset before it can be used again")
        }
        NvmlError::CorruptedInfoROM => Some("NVML reports that the GPU's InfoROM is corrupted"),
        _ => None,
    }
}

/// What an XID means, where it says that the GPU or its memory broke and not the program.
///
/// Numbers and words from NVIDIA's «XID Errors». Those that a faulty program causes by itself (13,
/// 31, 43, 45, …) are none of the GPU.
pub(super) fn fatal_xid(xid: u64) -> Option<&'static str> {
    match xid {
        46 => Some("the GPU stopped processing"),
        48 => Some("uncorrectable memory error (double-bit ECC)"),
        61 | 62 => Some("the GPU's micro-controller halted"),
        63 | 64 => Some("memory row being remapped, or its remapping failed"),
        74 => Some("NVLink error"),
        79 => Some("the GPU has fallen off the bus"),
        92 => Some("too many corrected memory errors"),
        94 | 95 => Some("uncorrectable memory error"),
        119 | 120 => Some("the GPU's system CPU (GSP) does not answer"),
        140 => Some("unrecovered memory error"),
        143 => Some("the GPU failed to start"),
        154 => Some("the GPU must be reset, or the machine started again"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_own_fault_is_not_the_gpu_s() {
        assert!(fatal_xid(13).is_none() && fatal_xid(31).is_none() && fatal_xid(45).is_none());
        insta::assert_snapshot!(fatal_xid(79).unwrap(), @"the GPU has fallen off the bus");
        assert!(loss(&NvmlError::NotSupported).is_none());
        assert!(loss(&NvmlError::GpuLost).is_some());
    }
}
