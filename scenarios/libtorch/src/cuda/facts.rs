//! What a GPU and its libraries are.

use protocol::CudaFacts;

use crate::{
    Result,
    cuda::{raw_index, text},
    ffi,
};

/// The GPU with this index and its libraries, as the CUDA runtime says. Makes no context.
pub fn facts(index: u32) -> Result<CudaFacts> {
    let mut raw = ffi::CudaFacts {
        name: [0; 256],
        uuid: [0; 16],
        major: 0,
        minor: 0,
        multiprocessors: 0,
        total_memory_bytes: 0,
        runtime_version: 0,
        driver_version: 0,
        cudnn_version: -1,
        nccl_version: 0,
    };
    // SAFETY: both pointers are valid for the call.
    unsafe { ffi::cuda_facts(raw_index(index), &raw mut raw)? };
    Ok(CudaFacts {
        device_name: text(&raw.name),
        uuid: uuid(&raw.uuid),
        capability: format!("{}.{}", raw.major, raw.minor),
        multiprocessors: u32::try_from(raw.multiprocessors).unwrap_or_default(),
        total_memory_bytes: raw.total_memory_bytes,
        runtime_version: cuda_version(raw.runtime_version),
        driver_cuda_version: cuda_version(raw.driver_version),
        cudnn_version: (raw.cudnn_version > 0).then(|| cudnn_version(raw.cudnn_version)),
        nccl_version: (raw.nccl_version > 0).then(|| nccl_version(raw.nccl_version)),
    })
}

/// 13000 is 13.0, 12040 is 12.4: `CUDART_VERSION` in `cuda_runtime_api.h`.
fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// 91900 is 9.19.0, and before version 9 8902 is 8.9.2: `CUDNN_VERSION` in `cudnn_version.h`.
fn cudnn_version(number: i64) -> String {
    let thousand = if number >= 90_000 { 10_000 } else { 1000 };
    let (major, rest) = (number / thousand, number % thousand);
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

/// 22809 is 2.28.9, and before 2.9 2804 is 2.8.4: `NCCL_VERSION` in `nccl.h`.
fn nccl_version(number: i32) -> String {
    let thousand = if number >= 10_000 { 10_000 } else { 1000 };
    let (major, rest) = (number / thousand, number % thousand);
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

fn uuid(bytes: &[u8; 16]) -> String {
    use std::fmt::Write;

    let mut text = "GPU-".to_owned();
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_versions() {
        assert_eq!(cuda_version(13000), "13.0");
        assert_eq!(cuda_version(12040), "12.4");
        assert_eq!(cudnn_version(91_900), "9.19.0");
        assert_eq!(cudnn_version(90_100), "9.1.0");
        assert_eq!(cudnn_version(8902), "8.9.2");
        assert_eq!(nccl_version(22_809), "2.28.9");
        assert_eq!(nccl_version(2804), "2.8.4");
    }

    #[test]
    fn a_uuid_reads_as_nvidia_smi_writes_it() {
        let bytes = std::array::from_fn(|i| u8::try_from(i * 17).unwrap());
        assert_eq!(uuid(&bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
