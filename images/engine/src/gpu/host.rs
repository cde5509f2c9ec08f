//! What this machine has of NVIDIA: devices, driver libraries, CDI specs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that hold nothing but the driver, as on container-optimised systems,
/// bind-mounted nodes and NixOS. Library folders are below.
const DRIVER_FOLDERS: [&str; 3] = [
    "/usr/local/nvidia",
    "/home/kubernetes/bin/nvidia",
    "/run/opengl-driver",
];
/// Folders where distributions put the driver's libraries among all others.
const LIBRARY_FOLDERS: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64/nvidia",
    "/usr/lib/nvidia",
];
/// The library that every CUDA program needs of the driver.
const LIBCUDA: &str = "libcuda.so.1";
/// Where engines look for CDI specs.
const CDI_FOLDERS: [&str; 3] = ["/etc/cdi", "/var/run/cdi", "/run/cdi"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DriverLibraries {
    /// A folder of the driver's own, with the library folders in it.
    Folder {
        root: PathBuf,
        libraries: Vec<PathBuf>,
    },
    /// Single files among others: name in the folder, and the file behind it.
    Files(Vec<(String, PathBuf)>),
}

/// What this machine has of NVIDIA.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuHost {
    /// The `/dev/nvidiaN` of each GPU in PCI order, which is the order of `nvidia-smi` and of
    /// `CUDA_DEVICE_ORDER=PCI_BUS_ID`; in order of N, the driver's minor number, where the driver
    /// does not tell.
    pub devices: Vec<PathBuf>,
    /// `/dev/nvidiactl`, `/dev/nvidia-uvm`, and `-uvm-tools`, `-modeset` where present.
    pub control_nodes: Vec<PathBuf>,
    /// CDI specs for `nvidia.com/gpu`.
    pub cdi_specs: Vec<PathBuf>,
    /// Whether `nvidia-container-runtime-hook` is in `PATH`.
    pub has_nvidia_hook: bool,
    pub(crate) libraries: Option<DriverLibraries>,
}

impl GpuHost {
    /// Looks at this machine. Finds nothing where there is nothing; never fails.
    pub fn discover() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut host = Self::under(Path::new("/"));
        host.has_nvidia_hook = std::env::split_paths(&path)
            .any(|folder| folder.join("nvidia-container-runtime-hook").exists());
        host
    }

    /// As [`GpuHost::discover`], below another root: for tests.
    pub fn under(root: &Path) -> Self {
        let control = [
            "nvidiactl",
            "nvidia-uvm",
            "nvidia-uvm-tools",
            "nvidia-modeset",
        ];
        Self {
            devices: devices(root),
            control_nodes: control
                .map(|name| root.join("dev").join(name))
                .into_iter()
                .filter(|node| node.exists())
                .collect(),
            cdi_specs: cdi_specs(root),
            has_nvidia_hook: false,
            libraries: libraries(root),
        }
    }
}

fn devices(root: &Path) -> Vec<PathBuf> {
    let mut nodes: Vec<(u32, PathBuf)> = list(&root.join("dev"))
        .filter_map(|path| {
            let minor = path
                .file_name()?
                .to_str()?
                .strip_prefix("nvidia")?
                .parse()
                .ok()?;
            Some((minor, path))
        })
        .collect();
    nodes.sort();
    let mut known: Vec<(String, u32)> = list(&root.join("proc/driver/nvidia/gpus"))
        .filter_map(|gpu| {
            let text = fs::read_to_string(gpu.join("information")).ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("Device Minor:"))?;
            // The folder is named for the PCI address, which sorts as PCI does.
            Some((
                gpu.file_name()?.to_str()?.to_owned(),
                line.trim().parse().ok()?,
            ))
        })
        .collect();
    known.sort();
    let position = |minor: u32| known.iter().position(|(_, known)| *known == minor);
    // A machine may show all GPUs in /proc and hand out only some in /dev.
    nodes.sort_by_key(|(minor, _)| (position(*minor).unwrap_or(usize::MAX), *minor));
    nodes.into_iter().map(|(_, node)| node).collect()
}

fn cdi_specs(root: &Path) -> Vec<PathBuf> {
    let mut specs: Vec<PathBuf> = CDI_FOLDERS
        .iter()
        .flat_map(|folder| list(&below(root, folder)))
        .filter(|path| {
            path.extension()
                .is_some_and(|ext| ext == "yaml" || ext == "yml" || ext == "json")
        })
        // The kind is one line of YAML or one field of JSON; either way this text.
        .filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("nvidia.com/gpu")))
        .collect();
    specs.sort();
    specs
}

fn libraries(root: &Path) -> Option<DriverLibraries> {
    for folder in DRIVER_FOLDERS {
        let folder = below(root, folder);
        let libraries: Vec<PathBuf> = ["lib64", "lib"]
            .into_iter()
            .map(|name| folder.join(name))
            .filter(|libraries| libraries.join(LIBCUDA).exists())
            .collect();
        if !libraries.is_empty() {
            return Some(DriverLibraries::Folder {
                root: folder,
                libraries,
            });
        }
    }
    LIBRARY_FOLDERS
        .iter()
        .map(|folder| below(root, folder))
        .find(|folder| folder.join(LIBCUDA).exists())
        .map(|folder| DriverLibraries::Files(driver_files(&folder)))
}

/// The files of the driver that computing needs, under every name they have: a
/// distribution's whole folder would bring the host's C library into the container.
fn driver_files(folder: &Path) -> Vec<(String, PathBuf)> {
    const NEEDED: [&str; 7] = [
        "libcuda.so",
        "libcudadebugger.so",
        "libnvidia-ml.so",
        "libnvidia-ptxjitcompiler.so",
        "libnvidia-nvvm",
        "libnvidia-gpucomp.so",
        "libnvidia-cfg.so",
    ];
    let mut files: Vec<(String, PathBuf)> = list(folder)
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            let is_needed = NEEDED.iter().any(|prefix| name.starts_with(prefix));
            // Behind links is the file; a link that leads nowhere is left out.
            let file = is_needed.then(|| fs::canonicalize(&path).ok()).flatten()?;
            file.is_file().then_some((name, file))
        })
        .collect();
    files.sort();
    files
}

fn list(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

fn below(root: &Path, absolute: &str) -> PathBuf {
    root.join(absolute.trim_start_matches('/'))
}
