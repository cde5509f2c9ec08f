//! Device files and driver libraries, mounted by hand.

use std::path::{Path, PathBuf};

use super::{
    GpuAccess,
    host::{DriverLibraries, GpuHost},
};
use crate::spec::Mount;

/// Where single driver files are put in the container.
const LIBRARY_TARGET: &str = "/usr/local/nvidia/lib64";

pub(super) fn obstacle(host: &GpuHost) -> Option<String> {
    for node in ["nvidiactl", "nvidia-uvm"] {
        if !host.control_nodes.iter().any(|path| path.ends_with(node)) {
            return Some(format!(
                "/dev/{node} is missing; load the driver's modules (`nvidia-modprobe -u -c=0`, or \
                 run `nvidia-smi` once as root)"
            ));
        }
    }
    host.libraries.is_none().then(|| {
        "the driver's libcuda.so.1 is in none of the usual folders; install the driver's libraries"
            .to_owned()
    })
}

pub(super) fn fill(access: &mut GpuAccess, host: &GpuHost, device: &Path) {
    access.devices.clone_from(&host.control_nodes);
    access.devices.push(device.to_owned());
    let read_only = |source: &Path, target: String| Mount {
        source: source.to_owned(),
        target,
        read_only: true,
    };
    match &host.libraries {
        // The same place inside: the driver's own links and search paths hold.
        Some(DriverLibraries::Folder { root, libraries }) => {
            let text = |folder: &PathBuf| folder.to_string_lossy().into_owned();
            access.mounts.push(read_only(root, text(root)));
            access.library_folders.extend(libraries.iter().map(text));
        }
        Some(DriverLibraries::Files(files)) => {
            let mount = |(name, file): &(String, PathBuf)| {
                read_only(file, format!("{LIBRARY_TARGET}/{name}"))
            };
            access.mounts.extend(files.iter().map(mount));
            access.library_folders.push(LIBRARY_TARGET.to_owned());
        }
        None => {}
    }
}
