//! Which device to measure on.

use std::{fmt, path::Path, str::FromStr};

use protocol::{Device, ParseDeviceError};
use record::Machine;

/// What the user asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first GPU that may be used, and the CPU where there is none.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first GPU that may be used.
    Gpu,
    /// GPUs with these indices as NVML counts, over which runs are spread.
    Gpus(Vec<u32>),
}

impl FromStr for Choice {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => return Ok(Self::Auto),
            "cuda" => return Ok(Self::Gpu),
            _ => {}
        }
        let Some(indices) = text.strip_prefix("cuda:") else {
            return text.parse::<Device>().map(|_| Self::Cpu);
        };
        let mut gpus = Vec::new();
        for index in indices.split(',') {
            if let Device::Cuda(gpu) = format!("cuda:{index}").parse()? {
                gpus.push(gpu);
            }
        }
        Ok(Self::Gpus(gpus))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu => f.write_str("cuda"),
            Self::Gpus(indices) => {
                let words: Vec<_> = indices.iter().map(u32::to_string).collect();
                write!(f, "cuda:{}", words.join(","))
            }
        }
    }
}

/// Why the device that was asked for cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is no GPU.
    #[error("no CUDA GPU here: {why}; `cargo xtask doctor` says more, `--device cpu` goes without")]
    NoGpu {
        /// Why none is seen.
        why: String,
    },
    /// There are GPUs, but not this one.
    #[error("there is no GPU cuda:{asked}; there are {there}")]
    NoSuchGpu {
        /// The index that was asked for.
        asked: u32,
        /// The GPUs, in words.
        there: String,
    },
    /// A GPU that stands twice among several.
    #[error("the GPU cuda:{asked} is given twice; give it once")]
    Twice {
        /// The GPU.
        asked: u32,
    },
    /// `CUDA_VISIBLE_DEVICES` names a GPU that is not there.
    #[error("CUDA_VISIBLE_DEVICES is `{value}`, which names no GPU here; there are {there}")]
    Hidden {
        /// The variable's value.
        value: String,
        /// The GPUs, in words.
        there: String,
    },
}

impl Choice {
    /// The devices, at least one, out of the machine's GPUs. `visible` is `CUDA_VISIBLE_DEVICES`: a GPU that
    /// is not asked for by its index is the first that it names.
    pub fn resolve(
        &self,
        machine: &Machine,
        visible: Option<&str>,
    ) -> Result<Vec<Device>, DeviceError> {
        let gpus = match self {
            Self::Cpu => return Ok(vec![Device::Cpu]),
            Self::Auto => {
                let gpu = first(machine, visible)?;
                return Ok(vec![gpu.map_or(Device::Cpu, Device::Cuda)]);
            }
            Self::Gpu => {
                return match first(machine, visible)? {
                    Some(index) => Ok(vec![Device::Cuda(index)]),
                    None => Err(match visible {
                        Some(value) if !machine.gpus.is_empty() => DeviceError::Hidden {
                            value: value.to_owned(),
                            there: gpus(machine),
                        },
                        _ => no_gpu(),
                    }),
                };
            }
            Self::Gpus(gpus) => gpus,
        };
        let mut devices = Vec::new();
        for &asked in gpus {
            if machine.gpus.is_empty() {
                return Err(no_gpu());
            }
            if !machine.gpus.iter().any(|gpu| gpu.index == asked) {
                let there = self::gpus(machine);
                return Err(DeviceError::NoSuchGpu { asked, there });
            }
            if devices.contains(&Device::Cuda(asked)) {
                return Err(DeviceError::Twice { asked });
            }
            devices.push(Device::Cuda(asked));
        }
        Ok(devices)
    }
}

/// The first GPU that may be used.
fn first(machine: &Machine, visible: Option<&str>) -> Result<Option<u32>, DeviceError> {
    let Some(value) = visible else {
        return Ok(machine.gpus.first().map(|gpu| gpu.index));
    };
    let name = value.split(',').next().unwrap_or_default().trim();
    // CUDA takes an empty value and -1 as «no GPU».
    if name.is_empty() || name.starts_with('-') || machine.gpus.is_empty() {
        return Ok(None);
    }
    let named = machine.gpus.iter().find(|gpu| match name.parse::<u32>() {
        Ok(index) => gpu.index == index,
        // CUDA takes a beginning of the UUID too.
        Err(_) => gpu.uuid.starts_with(name),
    });
    match named {
        Some(gpu) => Ok(Some(gpu.index)),
        None => Err(DeviceError::Hidden {
            value: value.to_owned(),
            there: gpus(machine),
        }),
    }
}

fn no_gpu() -> DeviceError {
    let why = if Path::new("/dev/nvidiactl").exists() {
        "there is a driver, but NVML cannot be used (libnvidia-ml.so.1 is missing or refuses)"
    } else {
        "there is no /dev/nvidiactl, so no NVIDIA driver is loaded"
    };
    DeviceError::NoGpu {
        why: why.to_owned(),
    }
}

fn gpus(machine: &Machine) -> String {
    let names: Vec<_> = machine
        .gpus
        .iter()
        .map(|gpu| format!("cuda:{} ({})", gpu.index, gpu.name))
        .collect();
    names.join(", ")
}

/// The variables that hold a run to one device, so that it is the only one that it sees.
///
/// A GPU is named by its UUID, which means the same inside and outside a container; in the run
/// it is then `cuda:0`. On the CPU the variable hides every GPU.
#[must_use]
pub fn environment(device: Device, machine: &Machine) -> [(String, String); 2] {
    let value = match device {
        Device::Cpu => String::new(),
        Device::Cuda(index) => machine
            .gpus
            .iter()
            .find(|gpu| gpu.index == index)
            .map_or_else(|| index.to_string(), |gpu| gpu.uuid.clone()),
    };
    [
        // So that an index, where one must be used, counts as NVML does.
        ("CUDA_DEVICE_ORDER".into(), "PCI_BUS_ID".into()),
        ("CUDA_VISIBLE_DEVICES".into(), value),
    ]
}

/// The device as a run sees it that is held to `device` by [`environment`].
#[must_use]
pub fn inside(device: Device) -> Device {
    match device {
        Device::Cpu => Device::Cpu,
        Device::Cuda(_) => Device::Cuda(0),
    }
}

#[cfg(test)]
mod tests {
    use record::Gpu;

    use super::*;

    fn machine(gpus: u32) -> Machine {
        Machine {
            gpus: (0..gpus)
                .map(|index| Gpu {
                    index,
                    name: "NVIDIA H200".into(),
                    uuid: format!("GPU-{index}{index}{index}"),
                    ..Gpu::default()
                })
                .collect(),
            ..Machine::default()
        }
    }

    fn check(choice: &str, gpus: u32, visible: Option<&str>, expect: &str) {
        let choice: Choice = choice.parse().unwrap();
        let found = match choice.resolve(&machine(gpus), visible) {
            Ok(devices) => {
                let words: Vec<_> = devices.iter().map(ToString::to_string).collect();
                words.join(" and ")
            }
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expect), "{choice} of {gpus}: {found}");
    }

    #[test]
    fn a_choice_finds_its_gpu() {
        check("auto", 0, None, "cpu");
        check("auto", 2, None, "cuda:0");
        check("auto", 2, Some("1,0"), "cuda:1");
        check("auto", 2, Some("GPU-11"), "cuda:1");
        check("auto", 2, Some(""), "cpu");
        check("auto", 2, Some("-1"), "cpu");
        check("auto", 2, Some("7"), "CUDA_VISIBLE_DEVICES is `7`");
        check("cpu", 2, None, "cpu");
        check("cuda", 2, None, "cuda:0");
        check("cuda", 0, None, "no CUDA GPU here");
        check("cuda", 2, Some(""), "names no GPU here");
        check("cuda:1", 2, Some("0"), "cuda:1");
        check("cuda:2", 2, None, "there are cuda:0 (NVIDIA H200), cuda:1");
        check("cuda:0", 0, None, "no CUDA GPU here");
        check("cuda:1,0", 2, None, "cuda:1 and cuda:0");
        check("cuda:0,7", 2, None, "there is no GPU cuda:7");
        check("cuda:0,0", 2, None, "cuda:0 is given twice");
    }

    #[test]
    fn choices_read_and_write() {
        for text in ["auto", "cpu", "cuda", "cuda:3", "cuda:0,1"] {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
        for text in ["gpu", "cuda:0,", "cuda:0,x", "0,1", "cpu,cuda"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_run_sees_its_gpu_alone() {
        let seen = |device| environment(device, &machine(2))[1].1.clone();
        assert_eq!(seen(Device::Cuda(1)), "GPU-111");
        assert_eq!(seen(Device::Cuda(5)), "5");
        assert_eq!(seen(Device::Cpu), "");
        assert_eq!(inside(Device::Cuda(1)), Device::Cuda(0));
    }
}
