//! What lies between the GPUs of this host, and which CPUs are next to each.

use std::{fs, path::Path};

use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel},
    struct_wrappers::device::PciInfo,
};
use record::{Gpu, Link, PciPath};

/// What NVML numbers them up to (`NVML_NVLINK_MAX_LINKS`).
const NVLINKS: u32 = 18;

/// Domain, bus and device.
type Address = (u32, u32, u32);

fn address(pci: &PciInfo) -> Address {
    (pci.domain, pci.bus, pci.device)
}

/// Notes it in each of these GPUs, as far as it is known.
pub(super) fn find(nvml: &Nvml, root: &Path, gpus: &mut [Gpu]) {
    let indexes: Vec<u32> = gpus.iter().map(|gpu| gpu.index).collect();
    for gpu in gpus {
        let Ok(device) = nvml.device_by_index(gpu.index) else {
            continue;
        };
        if let Ok(pci) = device.pci_info() {
            (gpu.numa_node, gpu.near_cpus) = near(root, address(&pci));
        }
        let ends = nvlinks(&device);
        let others = indexes.iter().filter(|index| **index != gpu.index);
        let links = others.filter_map(|&index| {
            let other = nvml.device_by_index(index).ok()?;
            Some(link(&device, &ends, index, other))
        });
        gpu.links = links.collect();
    }
}

/// Where the NVLinks of a GPU that are up lead; `None` where that is not told.
fn nvlinks(device: &Device) -> Vec<Option<Address>> {
    let links = (0..NVLINKS).map(|link| device.link_wrapper_for(link));
    let links = links.filter(|link| link.is_active().unwrap_or(false));
    let ends = links.map(|link| link.remote_pci_info().ok().as_ref().map(address));
    ends.collect()
}

fn link(from: &Device, ends: &[Option<Address>], index: u32, to: Device) -> Link {
    let can = |what| {
        let status = from.p2p_status(&to, what).ok()?;
        Some(matches!(status, P2pStatus::Ok))
    };
    let own = to.pci_info().ok().as_ref().map(address);
    let direct = ends.iter().filter(|end| end.is_some() && **end == own);
    let nvlinks = match direct.count() {
        // All lead to switches, which reach every GPU.
        0 if can(P2pCapabilitiesIndex::NvLink) == Some(true) => ends.len(),
        count => count,
    };
    Link {
        to: index,
        nvlinks: u32::try_from(nvlinks).unwrap_or(NVLINKS),
        peer_access: can(P2pCapabilitiesIndex::Read),
        path: from.topology_common_ancestor(to).ok().map(path),
    }
}

fn path(level: TopologyLevel) -> PciPath {
    match level {
        TopologyLevel::Internal => PciPath::Board,
        TopologyLevel::Single => PciPath::Switch,
        TopologyLevel::Multiple => PciPath::Switches,
        TopologyLevel::HostBridge => PciPath::HostBridge,
        TopologyLevel::Node => PciPath::Node,
        TopologyLevel::System => PciPath::System,
    }
}

/// The NUMA node of a PCIe device, and the CPUs on it.
fn near(root: &Path, (domain, bus, device): Address) -> (Option<u32>, Option<String>) {
    let folder = format!("sys/bus/pci/devices/{domain:04x}:{bus:02x}:{device:02x}.0");
    let read = |file: &str| {
        let text = fs::read_to_string(root.join(&folder).join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    // -1 where there is one node alone.
    let node = read("numa_node").and_then(|node| node.parse().ok());
    (node, read("local_cpulist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_a_gpu_is_next_to() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().join("sys/bus/pci/devices").join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let known = folder("0000:9b:00.0");
        fs::write(known.join("numa_node"), "1\n").unwrap();
        fs::write(known.join("local_cpulist"), "32-63,96-127\n").unwrap();
        fs::write(folder("0001:0a:1f.0").join("numa_node"), "-1\n").unwrap();
        let found = near(root.path(), (0, 0x9b, 0));
        assert_eq!(found, (Some(1), Some("32-63,96-127".to_owned())));
        assert_eq!(near(root.path(), (1, 0x0a, 0x1f)), (None, None));
        assert_eq!(near(root.path(), (0, 1, 0)), (None, None));
    }
}
