//! The device: whether it is there, what it is, and whether its allocator is set up as the
//! variant says.

use std::{collections::BTreeMap, env, fs, path::Path};

use libtorch::{AttentionKernels, allocator::Settings, cuda};
use protocol::{
    Allocator, AllocatorBackend, Attention, CudaFacts, Device, Fp8, KernelCache, Nccl, RunFile,
};

use crate::Error;

/// The device as tch names it.
pub fn place(device: Device) -> tch::Device {
    match device {
        Device::Cpu => tch::Device::Cpu,
        Device::Cuda(index) => tch::Device::Cuda(index as usize),
    }
}

/// The GPU's facts; `None` for the CPU. Makes no context.
pub fn facts(device: Device) -> Result<Option<CudaFacts>, Error> {
    let Device::Cuda(index) = device else {
        return Ok(None);
    };
    let unavailable = |reason: String| Error::DeviceUnavailable { device, reason };
    if !cuda::built() {
        return Err(unavailable(
            "this binary is built without CUDA; use an image of a CUDA flavour, or the device cpu"
                .into(),
        ));
    }
    let count = cuda::device_count().map_err(|error| unavailable(error.to_string()))?;
    if index >= count {
        return Err(unavailable(format!(
            "libtorch sees {count} GPUs; check that the driver is at least as new as this \
             libtorch's CUDA needs, and that the container was given the GPU"
        )));
    }
    let facts = cuda::facts(index).map_err(|error| unavailable(error.to_string()))?;
    Ok(Some(facts))
}

/// Makes the GPU's context, and lets cuDNN choose the fastest algorithm for each shape, as
/// training scripts with fixed shapes do; or has libtorch take deterministic algorithms only.
pub fn start(device: Device, deterministic: bool) -> Result<(), Error> {
    libtorch::set_deterministic(deterministic)?;
    let Device::Cuda(index) = device else {
        return Ok(());
    };
    if deterministic {
        check_deterministic_environment()?;
    }
    cuda::start(index).map_err(|error| match error {
        libtorch::Error::OutOfMemory { .. } => Error::Libtorch(error),
        _ => Error::DeviceUnavailable {
            device,
            reason: error.to_string(),
        },
    })?;
    // The fastest algorithm in a trial may be another one the next time.
    Ok(cuda::set_cudnn_benchmark(!deterministic)?)
}

/// Has the allocator's segments in unified memory: of the GPU's size as far as it is free, or, where
/// that is allowed, of a limit that is larger than the GPU.
pub fn manage(file: &RunFile, facts: Option<&CudaFacts>) -> Result<(), Error> {
    let (Device::Cuda(index), Some(facts)) = (file.device, facts) else {
        return Ok(());
    };
    if !file.variant.allocator.managed {
        return Ok(());
    }
    let unavailable = |reason: String| Error::DeviceUnavailable {
        device: file.device,
        reason,
    };
    if !cuda::can_manage() {
        let reason =
            "this binary exports no cudaMalloc that libtorch would find; build the image anew";
        return Err(unavailable(reason.to_owned()));
    }
    let beyond = file.gpu_memory_bytes.filter(|_| file.oversubscribe);
    let beyond = beyond.filter(|bytes| *bytes > facts.total_memory_bytes);
    let bytes = beyond.map_or_else(|| Ok(cuda::memory_info(index)?.free_bytes), Ok::<_, Error>)?;
    cuda::manage(index, bytes).map_err(|error| unavailable(error.to_string()))
}

/// Has attention computed by these kernels alone.
pub fn choose_attention(attention: Attention) -> Result<(), Error> {
    if attention == Attention::Default {
        return Ok(());
    }
    Ok(libtorch::set_attention(AttentionKernels {
        flash: attention == Attention::Flash,
        efficient: attention == Attention::Efficient,
        cudnn: attention == Attention::Cudnn,
        math: attention == Attention::Math,
    })?)
}

fn check_deterministic_environment() -> Result<(), Error> {
    let (variable, value) = protocol::DETERMINISTIC_ENVIRONMENT;
    match env::var(variable) {
        Ok(there) if there == value => Ok(()),
        there => Err(Error::EnvironmentMissing {
            variable,
            value,
            there: there.unwrap_or_else(|_| "nothing".into()),
        }),
    }
}

/// Refuses a GPU without products in FP8; a CPU has none and stands in for one.
pub fn check_fp8(fp8: Fp8, device: Device, gpu: Option<&CudaFacts>) -> Result<(), Error> {
    let (Some(needed), Some(gpu)) = (fp8.capability(), gpu) else {
        return Ok(());
    };
    let parts = gpu.capability.split_once('.');
    let there = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    if there.is_none_or(|there: (u32, u32)| there >= needed) {
        return Ok(());
    }
    Err(Error::DeviceUnavailable {
        device,
        reason: format!(
            "fp8 needs a GPU of compute capability {}.{}, and {} has {}; drop fp8",
            needed.0, needed.1, gpu.device_name, gpu.capability
        ),
    })
}

/// Refuses a folder of compiled kernels that the driver could not write to: it would compile them
/// all again, without a word.
pub fn check_kernel_cache(cache: KernelCache) -> Result<(), Error> {
    if cache == KernelCache::Run {
        return Ok(());
    }
    let folder = env::var_os(protocol::KERNEL_CACHE_VARIABLE).unwrap_or_default();
    let unusable = |source| Error::KernelCache {
        folder: folder.to_string_lossy().into_owned(),
        source,
    };
    // A name that no other run has at the same time.
    let probe = Path::new(&folder).join(format!(".torchgauge-{}", std::process::id()));
    fs::File::create(&probe).map_err(unusable)?;
    fs::remove_file(&probe).map_err(unusable)
}

/// Waits until the device has nothing left to do.
pub fn synchronize(device: Device) -> Result<(), Error> {
    if device.is_cuda() {
        cuda::synchronize()?;
    }
    Ok(())
}

/// The allocator's settings in the words of the variants, as libtorch says that it uses them, and
/// whether its segments are to be unified memory and can be.
pub fn effective_allocator(settings: &Settings, managed: bool) -> String {
    const MIB: u64 = 1 << 20;
    let backend = [AllocatorBackend::Native, AllocatorBackend::CudaMallocAsync]
        .into_iter()
        .find(|backend| backend.name() == settings.backend);
    let uniform = settings.uniform_roundup_power2_divisions();
    let rounds = settings.roundup_power2_divisions.iter().any(|&n| n != 0);
    match backend {
        Some(backend) if rounds == uniform.is_some() => Allocator {
            backend,
            managed,
            expandable_segments: settings.expandable_segments,
            max_split_size_mb: settings.max_split_size_bytes.map(|bytes| bytes / MIB),
            garbage_collection_threshold: settings.garbage_collection_threshold,
            roundup_power2_divisions: uniform,
        }
        .to_string(),
        // Nothing that a variant could ask for.
        _ => format!("{settings:?}"),
    }
}

/// NCCL's variables in this environment, which it reads when ranks meet; none on the CPU.
pub fn nccl_variables(device: Device) -> BTreeMap<String, String> {
    let all = env::vars_os().filter(|_| device.is_cuda());
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(Nccl::PREFIX))
        .collect()
}

/// Refuses settings that differ from those that the variant asks for.
pub fn check_allocator(asked: &Allocator, effective: &str) -> Result<(), Error> {
    let asked = asked.to_string();
    if asked == effective {
        return Ok(());
    }
    Err(Error::SettingIgnored {
        asked,
        effective: effective.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native() -> Settings {
        Settings {
            backend: "native".into(),
            expandable_segments: false,
            max_split_size_bytes: None,
            garbage_collection_threshold: None,
            roundup_power2_divisions: vec![0; 16],
        }
    }

    fn check(settings: &Settings, words: &str) {
        let effective = effective_allocator(settings, false);
        assert_eq!(effective, words);
        assert!(check_allocator(&words.parse().unwrap(), &effective).is_ok());
    }

    #[test]
    fn settings_read_back_in_the_words_of_variants() {
        check(&native(), "native");
        check(
            &Settings {
                expandable_segments: true,
                max_split_size_bytes: Some(128 << 20),
                ..native()
            },
            "expandable_segments+max_split_size_mb:128",
        );
        check(
            &Settings {
                garbage_collection_threshold: Some(0.8),
                roundup_power2_divisions: vec![8; 16],
                ..native()
            },
            "garbage_collection_threshold:0.8+roundup_power2_divisions:8",
        );
        check(
            &Settings {
                backend: "cudaMallocAsync".into(),
                ..native()
            },
            "cudaMallocAsync",
        );
    }

    #[test]
    fn a_gpu_without_fp8_is_named() {
        let mut gpu = CudaFacts {
            device_name: "NVIDIA A100".into(),
            uuid: String::new(),
            capability: "8.0".into(),
            multiprocessors: 108,
            total_memory_bytes: 1,
            runtime_version: String::new(),
            driver_cuda_version: String::new(),
            cudnn_version: None,
            nccl_version: None,
        };
        let device = Device::Cuda(0);
        let mut check = |fp8, capability: &str| {
            gpu.capability = capability.into();
            check_fp8(fp8, device, Some(&gpu)).map_err(|error| error.to_string())
        };
        assert_eq!(
            check(Fp8::Tensor, "8.0").unwrap_err(),
            "cuda:0 is not available: fp8 needs a GPU of compute capability 8.9, and NVIDIA A100 \
             has 8.0; drop fp8"
        );
        assert!(check(Fp8::Row, "8.9").is_err());
        for (fp8, capability) in [(Fp8::None, "7.5"), (Fp8::Tensor, "8.9"), (Fp8::Row, "10.0")] {
            assert_eq!(check(fp8, capability), Ok(()));
        }
        assert!(check_fp8(Fp8::Row, Device::Cpu, None).is_ok());
    }

    #[test]
    fn a_setting_that_did_not_take_is_an_error() {
        let asked = "expandable_segments".parse().unwrap();
        let error = check_allocator(&asked, &effective_allocator(&native(), false)).unwrap_err();
        assert_eq!(error.reason(), protocol::FailureReason::SettingIgnored);
        assert!(error.to_string().contains("PYTORCH_ALLOC_CONF"), "{error}");
    }

    #[test]
    fn settings_that_no_variant_has_are_shown_whole() {
        let mut settings = native();
        settings.roundup_power2_divisions[3] = 4;
        assert!(
            effective_allocator(&settings, false).contains("roundup_power2_divisions: [0, 0, 0, 4")
        );
    }
}
