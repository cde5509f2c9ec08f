//! The machine that measured.

use std::fmt;

use protocol::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What can change a metric though image and scenario stay the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The host's name, or what the user gave in its place.
    pub name: String,
    /// Name of the operating system, such as `Debian GNU/Linux 12 (bookworm)`.
    pub os: String,
    /// Release of the kernel.
    pub kernel: String,
    /// What the kernel calls this boot by; `None` where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The hypervisor where one can be seen, such as `kvm`.
    pub virtualization: Option<String>,
    /// The CPU.
    pub cpu: Cpu,
    /// Memory of the host.
    pub memory_bytes: u64,
    /// Version of the NVIDIA driver.
    pub driver_version: Option<String>,
    /// Newest CUDA that the driver knows.
    pub driver_cuda_version: Option<String>,
    /// The GPUs, by index.
    pub gpus: Vec<Gpu>,
}

impl Machine {
    /// The GPU that a device is; `None` for the CPU, and where there is none of this index.
    pub fn gpu(&self, device: Device) -> Option<&Gpu> {
        let mut gpus = self.gpus.iter();
        gpus.find(|gpu| device == Device::Cuda(gpu.index))
    }
}

/// Where one rank of a run works.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Place {
    /// The host's name.
    pub host: String,
    /// The device, as the host counts.
    pub device: Device,
}

/// `node-1/cuda:0`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.device)
    }
}

/// The CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The model's name.
    pub model: String,
    /// Logical CPUs that this process may use.
    pub logical_cores: u32,
    /// The frequency governor, where it can be read.
    pub governor: Option<String>,
}

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Index, as NVML counts.
    pub index: u32,
    /// Name, such as `NVIDIA H200`.
    pub name: String,
    /// UUID, `GPU-…`.
    pub uuid: String,
    /// Memory of the GPU.
    pub memory_bytes: u64,
    /// Power limit in force.
    pub power_limit_watts: Option<f64>,
    /// Highest multiprocessor clock.
    pub max_sm_clock_mhz: Option<u32>,
    /// Whether error-correcting memory is on.
    pub ecc: Option<bool>,
    /// Whether the GPU is split into instances.
    pub mig: Option<bool>,
    /// Whether the driver stays loaded with no client.
    pub persistence: Option<bool>,
    /// CUDA's compute capability, such as `9.0`; `None` where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    /// The NUMA node that it hangs on; `None` where the host has but one, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// The CPUs next to it, as the kernel lists them: `0-31,64-95`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_cpus: Option<String>,
    /// The ways to the other GPUs of the host, by their index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// The way from one GPU of a host to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Index of the other GPU.
    pub to: u32,
    /// NVLinks between the two, or to the switches between them.
    pub nvlinks: u32,
    /// What lies between them on PCIe.
    pub path: Option<PciPath>,
    /// Whether each reads the other's memory itself.
    pub peer_access: Option<bool>,
}

/// What lies between two GPUs on PCIe, from near to far.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PciPath {
    /// Both are on one board.
    Board,
    /// One PCIe switch.
    Switch,
    /// Several switches, and no host bridge.
    Switches,
    /// A host bridge.
    HostBridge,
    /// The bridges of one NUMA node.
    Node,
    /// What connects NUMA nodes.
    System,
}

impl Gpu {
    /// The GPU's UUID in one spelling, so that UUIDs can be held against each other: with `GPU-`
    /// (or `MIG-`) before it, the rest in lower case. `None` where it is not known.
    pub fn uuid(&self) -> Option<String> {
        spelled(&self.uuid)
    }
}

/// CUDA and NVML write UUIDs with and without their prefix.
pub(crate) fn spelled(uuid: &str) -> Option<String> {
    let (prefix, bare) = match uuid.split_once('-') {
        Some((prefix @ ("GPU" | "MIG"), bare)) => (prefix, bare),
        _ => ("GPU", uuid),
    };
    (!bare.is_empty()).then(|| format!("{prefix}-{}", bare.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_one_spelling() {
        for (uuid, expect) in [
            ("GPU-00AA-11", Some("GPU-00aa-11")),
            ("00aa-11", Some("GPU-00aa-11")),
            ("MIG-00aa-11", Some("MIG-00aa-11")),
            ("GPU-", None),
            ("", None),
        ] {
            assert_eq!(spelled(uuid).as_deref(), expect, "{uuid}");
        }
    }
}
