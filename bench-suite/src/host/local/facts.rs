//! The machine that measures: what `/proc`, `/sys` and NVML say.

use std::{fs, path::Path, thread};

use nvml_wrapper::{
    Nvml, cuda_driver_version_major, cuda_driver_version_minor, enum_wrappers::device::Clock,
};
use record::{Cpu, Gpu, Machine};

use super::topology;
use crate::host::NAME_VARIABLE;

pub(super) fn name() -> String {
    without_gpus(Path::new("/")).name
}

/// Everything that is known about the machine.
pub(super) fn machine() -> Machine {
    let mut machine = without_gpus(Path::new("/"));
    if let Ok(nvml) = super::nvml::open() {
        machine.driver_version = nvml.sys_driver_version().ok();
        machine.driver_cuda_version = nvml.sys_cuda_driver_version().ok().map(|version| {
            let major = cuda_driver_version_major(version);
            let minor = cuda_driver_version_minor(version);
            format!("{major}.{minor}")
        });
        machine.gpus = gpus(&nvml);
        topology::find(&nvml, Path::new("/"), &mut machine.gpus);
    }
    machine
}

fn without_gpus(root: &Path) -> Machine {
    let read = |path: &str| -> Option<String> {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let os = ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|path| read(path))
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("PRETTY_NAME="));
            line.map(|name| name.trim_matches(['"', '\'']).to_owned())
        });
    let cpuinfo = read("proc/cpuinfo").unwrap_or_default();
    Machine {
        name: std::env::var(NAME_VARIABLE)
            .ok()
            .filter(|name| !name.is_empty())
            .or_else(|| read("proc/sys/kernel/hostname"))
            .unwrap_or_else(|| "unknown".into()),
        os: os.unwrap_or_else(|| "unknown".into()),
        kernel: read("proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        boot_id: read("proc/sys/kernel/random/boot_id"),
        virtualization: virtualization(&read, &cpuinfo),
        cpu: Cpu {
            model: cpu_field(&cpuinfo, &["model name", "CPU", "cpu model", "Model"])
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            logical_cores: thread::available_parallelism()
                .ok()
                .and_then(|count| u32::try_from(count.get()).ok())
                .unwrap_or(1),
            governor: read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        },
        memory_bytes: meminfo(root, "MemTotal:").unwrap_or_default(),
        driver_version: None,
        driver_cuda_version: None,
        gpus: Vec::new(),
    }
}

fn cpu_field(cpuinfo: &str, names: &[&str]) -> Option<String> {
    names.iter().find_map(|wanted| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == *wanted).then(|| value.trim().to_owned())
        })
    })
}

/// As `systemd-detect-virt` does for machines: the firmware's names, then the CPU's flag.
fn virtualization(read: &impl Fn(&str) -> Option<String>, cpuinfo: &str) -> Option<String> {
    const VENDORS: [(&str, &str); 9] = [
        ("KVM", "kvm"),
        ("OpenStack", "kvm"),
        ("Amazon EC2", "amazon"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("innotek GmbH", "oracle"),
        ("Xen", "xen"),
        ("Google", "google"),
        ("Microsoft Corporation", "microsoft"),
    ];
    let firmware = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"]
        .iter()
        .filter_map(|file| read(&format!("sys/class/dmi/id/{file}")))
        .find_map(|text| {
            let known = VENDORS.iter().find(|(vendor, _)| text.starts_with(vendor));
            known.map(|(_, name)| (*name).to_owned())
        });
    let flagged = cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| {
            line.split_ascii_whitespace()
                .any(|flag| flag == "hypervisor")
        });
    // Bare Google and Microsoft machines carry the same vendor; the flag decides.
    if flagged {
        firmware
            .or_else(|| read("sys/hypervisor/type"))
            .or_else(|| Some("unknown".into()))
    } else {
        None
    }
}

/// Bytes, out of a line of `/proc/meminfo`.
pub(super) fn meminfo(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn gpus(nvml: &Nvml) -> Vec<Gpu> {
    let count = nvml.device_count().unwrap_or(0);
    (0..count)
        .filter_map(|index| {
            // A GPU that fell off the bus does not hide the others.
            let device = nvml.device_by_index(index).ok()?;
            Some(Gpu {
                index,
                name: device.name().ok()?,
                uuid: device.uuid().ok()?,
                memory_bytes: device.memory_info().map_or(0, |memory| memory.total),
                power_limit_watts: device
                    .enforced_power_limit()
                    .ok()
                    .map(|milliwatts| f64::from(milliwatts) / 1000.0),
                max_sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
                ecc: device
                    .is_ecc_enabled()
                    .ok()
                    .map(|ecc| ecc.currently_enabled),
                mig: device.mig_mode().ok().map(|mode| mode.current != 0),
                persistence: device.is_in_persistent_mode().ok(),
                compute_capability: device
                    .cuda_compute_capability()
                    .ok()
                    .map(|found| format!("{}.{}", found.major, found.minor)),
                ..Gpu::default()
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_is_read_off_its_files() {
        let root = fake(&[
            ("proc/sys/kernel/hostname", "ci-7\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            (
                "etc/os-release",
                "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
            ),
            (
                "proc/cpuinfo",
                "CPU\t: 0\nmodel name\t: Some CPU @ 3GHz\nflags\t\t: fpu hypervisor sse\n",
            ),
            (
                "proc/meminfo",
                "MemTotal:       1024 kB\nMemAvailable:   512 kB\n",
            ),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
            ),
        ]);
        let machine = without_gpus(root.path());
        assert_eq!(machine.name, "ci-7");
        assert_eq!(machine.os, "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(machine.kernel, "6.1.0-18-amd64");
        assert_eq!(machine.virtualization.as_deref(), Some("qemu"));
        assert_eq!(machine.cpu.model, "Some CPU @ 3GHz");
        assert_eq!(machine.cpu.governor.as_deref(), Some("performance"));
        assert_eq!(machine.memory_bytes, 1 << 20);
    }

    #[test]
    fn a_machine_without_any_of_it_is_unknown_and_no_error() {
        let root = fake(&[]);
        let machine = without_gpus(root.path());
        assert_eq!(
            (machine.name.as_str(), machine.os.as_str()),
            ("unknown", "unknown")
        );
        assert_eq!((machine.memory_bytes, machine.virtualization), (0, None));
        assert!(machine.cpu.logical_cores >= 1);
    }

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let machine = machine();
        assert!(machine.memory_bytes > 1 << 26);
        assert_ne!(machine.kernel, "unknown");
        assert!(meminfo(Path::new("/"), "MemAvailable:").unwrap() <= machine.memory_bytes);
    }
}
