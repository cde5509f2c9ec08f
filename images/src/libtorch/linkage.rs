//! Which libraries a program loads: those that libtorch's own need, and those that it opens by name.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::PathBuf,
};

use crate::{Flavour, Result, elf::Dynamic};

/// Part of the driver, which the engine brings into a container: never part of an image.
pub(crate) const DRIVER: [&str; 2] = ["libcuda.so.1", "libnvidia-ml.so.1"];

/// The roots of a flavour: what the scenario binary links.
pub(crate) fn roots(flavour: Flavour) -> &'static [&'static str] {
    match flavour {
        Flavour::Cpu => &["libtorch_cpu.so", "libc10.so"],
        Flavour::Cuda => &[
            "libtorch_cpu.so",
            "libc10.so",
            "libtorch_cuda.so",
            "libc10_cuda.so",
        ],
    }
}

/// How the names of libraries start that CUDA flavours open by name while they run. cuDNN is a thin
/// library that opens its parts as it needs them; it and libtorch compile kernels through NVRTC,
/// which opens its built-in headers and nvJitLink.
const OPENED: [&str; 5] = [
    "libcudnn_",
    "libnvrtc.so.",
    "libnvrtc-builtins.so.",
    "libnvJitLink.so.",
    "libcaffe2_nvrtc.so",
];

fn opened_by_name(name: &str) -> bool {
    OPENED.iter().any(|start| name.starts_with(start)) && !name.starts_with(UNUSED)
}

/// What cuDNN has for recurrent networks, CTC loss and its own older attention
/// (<https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-adv-library.html>): no scenario
/// opens it. One that does takes it out of here. Nor does any scenario open
/// `libtorch_cuda_linalg.so`, with the cuSOLVER below it, which the first matrix decomposition does.
const UNUSED: &str = "libcudnn_adv.so.";

/// The libraries that programs load, by name: follows what the roots need, in turn. `known` is all that
/// there is, and `take` gives the file of one.
pub(crate) fn linkage<S>(
    flavour: Flavour,
    known: &BTreeMap<String, S>,
    mut take: impl FnMut(&str, &S) -> Result<PathBuf>,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut queue: VecDeque<String> = roots(flavour).iter().map(ToString::to_string).collect();
    let mut opened = BTreeSet::new();
    if flavour == Flavour::Cuda {
        opened.extend(known.keys().filter(|name| opened_by_name(name)));
        queue.extend(opened.iter().map(ToString::to_string));
    }
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    while let Some(name) = queue.pop_front() {
        // A driver that lies here, such as CUDA's forward compatibility, is no part of libtorch.
        if DRIVER.contains(&name.as_str()) || !seen.insert(name.clone()) {
            continue;
        }
        let Some(source) = known.get(&name) else {
            continue;
        };
        let path = take(&name, source)?;
        let dynamic = Dynamic::of_file(&path)?;
        // Installed libraries may have links such as `libnvrtc.so.13.0.88` beside `libnvrtc.so.13`.
        let own_name = dynamic.soname.filter(|own| *own != name);
        if opened.contains(&name) && own_name.is_some_and(|own| opened.contains(&own)) {
            continue;
        }
        queue.extend(dynamic.needed);
        found.insert(name, path);
    }
    Ok(found)
}

/// The libraries in folders; the first folder that has one counts.
pub(crate) fn libraries_in(folders: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    for entry in folders.iter().flat_map(fs::read_dir).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if crate::elf::is_library(&name) {
            files.entry(name).or_insert_with(|| entry.path());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::symlink, path::Path, process::Command};

    fn library(folder: &Path, name: &str) {
        let source = folder.join("x.c");
        fs::write(&source, "int x;").unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-nostdlib", "-o"])
            .arg(folder.join(name))
            .arg(&source)
            .arg(format!("-Wl,-soname,{name}"))
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn linked(folder: &Path) -> BTreeMap<String, PathBuf> {
        let known = libraries_in(&[folder.to_owned()]);
        linkage(Flavour::Cuda, &known, |_, path| Ok(path.clone())).unwrap()
    }

    #[test]
    fn what_is_opened_by_name_is_there_once_and_only_where_a_scenario_opens_it() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in roots(Flavour::Cuda) {
            library(folder, name);
        }
        for name in [
            "libcudnn_ops.so.9",
            "libcudnn_adv.so.9",
            "libnvrtc.so.13",
            "libnvrtc-builtins.so.13.0",
            "libcusolver.so.12",
        ] {
            library(folder, name);
        }
        symlink("libnvrtc.so.13", folder.join("libnvrtc.so.13.0.88")).unwrap();
        let found = linked(folder);
        let mut expected: Vec<&str> = roots(Flavour::Cuda).to_vec();
        expected.extend([
            "libcudnn_ops.so.9",
            "libnvrtc.so.13",
            "libnvrtc-builtins.so.13.0",
        ]);
        expected.sort_unstable();
        assert_eq!(found.keys().collect::<Vec<_>>(), expected);
        // A name that nothing else has is no alias, whatever the file calls itself.
        fs::remove_file(folder.join("libnvrtc-builtins.so.13.0")).unwrap();
        fs::copy(folder.join("libnvrtc.so.13"), folder.join("libnvrtc.so.14")).unwrap();
        fs::remove_file(folder.join("libnvrtc.so.13.0.88")).unwrap();
        fs::remove_file(folder.join("libnvrtc.so.13")).unwrap();
        let found = linked(folder);
        assert!(found.contains_key("libnvrtc.so.14"));
    }
}
