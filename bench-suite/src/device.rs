//! Which device to measure on.

use std::{collections::BTreeSet, path::Path, str::FromStr};

use protocol::{Device, ParseError};
use record::{Machine, Place};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first GPUs that may be used, one a rank, and the CPU where there is none.
    #[default]
    Auto,
    Cpu,
    /// The first GPUs that may be used, one a rank.
    Gpu,
    /// GPUs with these indices as NVML counts, over which runs are spread.
    Gpus(Vec<u32>),
}

impl FromStr for Choice {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(indices) = text.strip_prefix("cuda:") else {
            return match text {
                "auto" => Ok(Self::Auto),
                "cuda" => Ok(Self::Gpu),
                _ => text.parse::<Device>().map(|_| Self::Cpu),
            };
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

/// Why the device that was asked for cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "no CUDA GPU here: {0}; `{program} doctor` has details, `--device cpu` runs without one",
        program = protocol::program()
    )]
    NoGpu(&'static str),
    /// There are GPUs, but not as asked for: what, and which there are.
    #[error("{0}")]
    Refused(String),
}

impl Choice {
    /// The places, at least one, on an executor's hosts: GPUs that are asked for by their indices on
    /// each of them, all else on the first. `visible` is `CUDA_VISIBLE_DEVICES` where it is about
    /// the first host: GPUs that are not asked for by their indices are the first that it names, as
    /// many as a run has `ranks`, where there are as many. Several ranks take GPUs of one kind.
    pub fn places<'a>(
        &self,
        hosts: impl IntoIterator<Item = (&'a str, &'a Machine)>,
        visible: Option<&str>,
        ranks: u32,
    ) -> Result<Vec<Place>, DeviceError> {
        let most = match self {
            Self::Gpus(_) => usize::MAX,
            Self::Auto | Self::Cpu | Self::Gpu => 1,
        };
        let mut places = Vec::new();
        for (name, machine) in hosts.into_iter().take(most) {
            let place = |device| Place {
                host: name.to_owned(),
                device,
            };
            let devices = self.resolve(machine, visible, ranks)?;
            places.extend(devices.into_iter().map(place));
        }
        Ok(places)
    }

    /// The devices, at least one, out of one machine's GPUs.
    fn resolve(
        &self,
        machine: &Machine,
        visible: Option<&str>,
        ranks: u32,
    ) -> Result<Vec<Device>, DeviceError> {
        let gpus = match self {
            Self::Cpu => return Ok(vec![Device::Cpu]),
            Self::Auto | Self::Gpu => {
                let are_alike = unlike_note(machine, ranks).is_none();
                let most = if are_alike {
                    ranks as usize
                } else {
                    usize::MAX
                };
                let mut gpus = first(machine, visible, most)?;
                let kind = gpus.first().and_then(|&gpu| kind(machine, gpu));
                gpus.retain(|&gpu| are_alike || self::kind(machine, gpu) == kind);
                gpus.truncate(ranks as usize);
                let found: Vec<Device> = gpus.into_iter().map(Device::Cuda).collect();
                return match (found.is_empty(), self) {
                    (false, _) => Ok(found),
                    (true, Self::Auto) => Ok(vec![Device::Cpu]),
                    (true, _) => Err(match visible {
                        Some(value) if !machine.gpus.is_empty() => hidden(value, machine),
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
                let message = format!("there is no GPU cuda:{asked}; there are {there}");
                return Err(DeviceError::Refused(message));
            }
            if devices.contains(&Device::Cuda(asked)) {
                let message = format!("the GPU cuda:{asked} is given twice; give it once");
                return Err(DeviceError::Refused(message));
            }
            devices.push(Device::Cuda(asked));
        }
        let unlike = |&&gpu: &&u32| kind(machine, gpu) != kind(machine, gpus[0]);
        if let Some(other) = gpus.iter().find(unlike).filter(|_| ranks > 1) {
            let (first, there) = (gpus[0], self::gpus(machine));
            return Err(DeviceError::Refused(format!(
                "cuda:{first} and cuda:{other} are GPUs of unlike kinds, which runs of several ranks \
                 do not mix; name GPUs of one kind out of {there}"
            )));
        }
        Ok(devices)
    }
}

/// The first GPUs that may be used, at most so many.
fn first(machine: &Machine, visible: Option<&str>, most: usize) -> Result<Vec<u32>, DeviceError> {
    let gpus = machine.gpus.iter();
    let Some(value) = visible.filter(|_| !machine.gpus.is_empty()) else {
        return Ok(gpus.take(most).map(|gpu| gpu.index).collect());
    };
    // CUDA takes an empty value and -1 as «no GPU», and what stands behind one of them as not there.
    let names = value.split(',').map(str::trim);
    let names = names.take_while(|name| !name.is_empty() && !name.starts_with('-'));
    let indices = names.take(most).map(|name| {
        let mut gpus = gpus.clone();
        let gpu = gpus.find(|gpu| match name.parse::<u32>() {
            Ok(index) => gpu.index == index,
            // CUDA takes a beginning of the UUID too.
            Err(_) => gpu.uuid.starts_with(name),
        });
        gpu.map(|gpu| gpu.index)
            .ok_or_else(|| hidden(value, machine))
    });
    indices.collect()
}

/// The model of a GPU.
fn kind(machine: &Machine, gpu: u32) -> Option<&str> {
    let gpu = machine.gpu(Device::Cuda(gpu))?;
    Some(&gpu.name)
}

/// What to know of a machine whose GPUs are of several kinds, where a run has several ranks.
pub fn unlike_note(machine: &Machine, ranks: u32) -> Option<String> {
    let kinds: BTreeSet<&str> = machine.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    (ranks > 1 && kinds.len() > 1).then(|| {
        format!(
            "the GPUs here are of unlike kinds ({}); the ranks of a run take those of one kind",
            gpus(machine)
        )
    })
}

/// `CUDA_VISIBLE_DEVICES` names a GPU that is not there.
fn hidden(value: &str, machine: &Machine) -> DeviceError {
    DeviceError::Refused(format!(
        "CUDA_VISIBLE_DEVICES is `{value}`, which names no GPU here; there are {}",
        gpus(machine)
    ))
}

fn no_gpu() -> DeviceError {
    let why = if Path::new("/dev/nvidiactl").exists() {
        "there is a driver, but NVML cannot be used (libnvidia-ml.so.1 is missing or refuses)"
    } else {
        "there is no /dev/nvidiactl, so no NVIDIA driver is loaded"
    };
    DeviceError::NoGpu(why)
}

fn gpus(machine: &Machine) -> String {
    let gpus = machine.gpus.iter();
    let names = gpus.map(|gpu| format!("cuda:{} ({})", gpu.index, gpu.name));
    names.collect::<Vec<_>>().join(", ")
}

/// The variables that hold a run to the devices of its ranks, so that it sees no others.
///
/// A GPU is named by its UUID, which means the same inside and outside a container; the first rank's
/// is then `cuda:0`. On the CPU the variable hides every GPU.
pub fn environment(
    devices: impl IntoIterator<Item = Device>,
    machine: Option<&Machine>,
) -> [(String, String); 2] {
    let gpu = |device| machine.and_then(|machine| machine.gpu(device));
    let name = |device| match device {
        Device::Cpu => None,
        Device::Cuda(index) => Some(gpu(device).map_or(index.to_string(), |gpu| gpu.uuid.clone())),
    };
    let mut names: Vec<String> = devices.into_iter().filter_map(name).collect();
    // Of ranks that share a GPU; CUDA takes none twice.
    names.dedup();
    let value = names.join(",");
    [
        // So that an index, where one must be used, counts as NVML does.
        ("CUDA_DEVICE_ORDER".into(), "PCI_BUS_ID".into()),
        ("CUDA_VISIBLE_DEVICES".into(), value),
    ]
}

/// The device as a run sees it that is held to `device` by [`environment`].
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

    #[test]
    fn a_choice_finds_its_gpu() {
        let mut all = Vec::new();
        for (ranks, choice, gpus, visible) in [
            (1, "auto", 0, None),
            (1, "auto", 2, None),
            (1, "auto", 2, Some("1,0")),
            (1, "auto", 2, Some("GPU-11")),
            (1, "auto", 2, Some("")),
            (1, "auto", 2, Some("-1")),
            (1, "auto", 2, Some("7")),
            (1, "cpu", 2, None),
            (1, "cuda", 2, None),
            (1, "cuda", 0, None),
            (1, "cuda", 2, Some("")),
            (1, "cuda:1", 2, Some("0")),
            (1, "cuda:2", 2, None),
            (1, "cuda:0", 0, None),
            (1, "cuda:1,0", 2, None),
            (1, "cuda:0,7", 2, None),
            (1, "cuda:0,0", 2, None),
            (2, "auto", 4, None),
            (2, "cuda", 4, Some("3,1,0")),
            (2, "auto", 1, None),
            (2, "auto", 0, None),
            (2, "cuda", 4, Some("3,7")),
        ] {
            let read: Choice = choice.parse().unwrap();
            let found = match read.resolve(&machine(gpus), visible, ranks) {
                Ok(devices) => {
                    let words: Vec<_> = devices.iter().map(ToString::to_string).collect();
                    words.join(" and ")
                }
                Err(error) => match error.to_string() {
                    // The rest depends on the driver of the machine that runs this test.
                    text if text.starts_with("no CUDA GPU here: ") => {
                        "no CUDA GPU here: …".to_owned()
                    }
                    text => text,
                },
            };
            let seen = visible.map(|seen| format!(", `{seen}` visible"));
            let seen = seen.unwrap_or_default();
            all.push(format!("{choice} for {ranks} of {gpus}{seen}: {found}"));
        }
        insta::assert_snapshot!(all.join("\n"), @r"
        auto for 1 of 0: cpu
        auto for 1 of 2: cuda:0
        auto for 1 of 2, `1,0` visible: cuda:1
        auto for 1 of 2, `GPU-11` visible: cuda:1
        auto for 1 of 2, `` visible: cpu
        auto for 1 of 2, `-1` visible: cpu
        auto for 1 of 2, `7` visible: CUDA_VISIBLE_DEVICES is `7`, which names no GPU here; there are cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)
        cpu for 1 of 2: cpu
        cuda for 1 of 2: cuda:0
        cuda for 1 of 0: no CUDA GPU here: …
        cuda for 1 of 2, `` visible: CUDA_VISIBLE_DEVICES is ``, which names no GPU here; there are cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)
        cuda:1 for 1 of 2, `0` visible: cuda:1
        cuda:2 for 1 of 2: there is no GPU cuda:2; there are cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)
        cuda:0 for 1 of 0: no CUDA GPU here: …
        cuda:1,0 for 1 of 2: cuda:1 and cuda:0
        cuda:0,7 for 1 of 2: there is no GPU cuda:7; there are cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)
        cuda:0,0 for 1 of 2: the GPU cuda:0 is given twice; give it once
        auto for 2 of 4: cuda:0 and cuda:1
        cuda for 2 of 4, `3,1,0` visible: cuda:3 and cuda:1
        auto for 2 of 1: cuda:0
        auto for 2 of 0: cpu
        cuda for 2 of 4, `3,7` visible: CUDA_VISIBLE_DEVICES is `3,7`, which names no GPU here; there are cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200), cuda:2 (NVIDIA H200), cuda:3 (NVIDIA H200)
        ");
    }

    #[test]
    fn ranks_take_gpus_of_one_kind() {
        let mut machine = machine(4);
        machine.gpus[1].name = "NVIDIA L4".into();
        let find = |choice: &str, visible, ranks| {
            let choice: Choice = choice.parse().unwrap();
            let found = choice.resolve(&machine, visible, ranks);
            found.map(|devices| devices.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(find("cuda", None, 2).unwrap(), ["cuda:0", "cuda:2"]);
        assert_eq!(find("auto", Some("1,0,2"), 3).unwrap(), ["cuda:1"]);
        assert_eq!(find("cuda:0,1", None, 1).unwrap(), ["cuda:0", "cuda:1"]);
        assert_eq!(find("cuda:3,0", None, 2).unwrap(), ["cuda:3", "cuda:0"]);
        insta::assert_snapshot!(find("cuda:0,1", None, 2).unwrap_err(), @"cuda:0 and cuda:1 are GPUs of unlike kinds, which runs of several ranks do not mix; name GPUs of one kind out of cuda:0 (NVIDIA H200), cuda:1 (NVIDIA L4), cuda:2 (NVIDIA H200), cuda:3 (NVIDIA H200)");
        assert_eq!(unlike_note(&machine, 1), None);
        insta::assert_snapshot!(unlike_note(&machine, 2).unwrap(), @"the GPUs here are of unlike kinds (cuda:0 (NVIDIA H200), cuda:1 (NVIDIA L4), cuda:2 (NVIDIA H200), cuda:3 (NVIDIA H200)); the ranks of a run take those of one kind");
    }

    #[test]
    fn choices_are_read() {
        for (text, choice) in [
            ("auto", Choice::Auto),
            ("cpu", Choice::Cpu),
            ("cuda", Choice::Gpu),
            ("cuda:3", Choice::Gpus(vec![3])),
            ("cuda:0,1", Choice::Gpus(vec![0, 1])),
        ] {
            assert_eq!(text.parse::<Choice>().unwrap(), choice);
        }
        for text in ["gpu", "cuda:0,", "cuda:0,x", "0,1", "cpu,cuda"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_run_sees_its_gpu_alone() {
        let seen = |devices: &[Device]| {
            let devices = devices.iter().copied();
            environment(devices, Some(&machine(2)))[1].1.clone()
        };
        assert_eq!(seen(&[Device::Cuda(1)]), "GPU-111");
        assert_eq!(seen(&[Device::Cuda(1), Device::Cuda(0)]), "GPU-111,GPU-000");
        assert_eq!(seen(&[Device::Cuda(5)]), "5");
        assert_eq!(seen(&[Device::Cpu, Device::Cpu]), "");
        assert_eq!(inside(Device::Cuda(1)), Device::Cuda(0));
    }
}
