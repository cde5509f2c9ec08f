//! Which libraries a program loads: those that libtorch's own need, and those that it opens by name.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
};

use crate::{Flavour, Result, elf::Dynamic};

pub(crate) trait LibraryIndex {
    /// The file of this name, or `None` where there is none.
    fn find(&mut self, name: &str) -> Result<Option<PathBuf>>;

    /// The names of all libraries here.
    fn names(&self) -> Vec<String>;
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Linkage {
    pub(crate) libraries: BTreeMap<String, PathBuf>,
    /// What they need and the index does not have, with one library that needs it:
    /// glibc, the C++ runtime, the driver.
    pub(crate) outside: BTreeMap<String, String>,
}

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

/// Follows what the roots need, in turn, through the index.
pub(crate) fn linkage(flavour: Flavour, index: &mut dyn LibraryIndex) -> Result<Linkage> {
    let mut queue: VecDeque<(String, String)> = roots(flavour)
        .iter()
        .map(|root| ((*root).to_owned(), "the scenario binary".to_owned()))
        .collect();
    let mut opened = BTreeSet::new();
    if flavour == Flavour::Cuda {
        opened.extend(index.names());
        opened.retain(|name| opened_by_name(name));
        queue.extend(
            opened
                .iter()
                .map(|name| (name.clone(), "libtorch_cuda.so".to_owned())),
        );
    }
    let mut found = Linkage::default();
    let mut seen = BTreeSet::new();
    while let Some((name, needed_by)) = queue.pop_front() {
        // A driver that lies here, such as CUDA's forward compatibility, is no part of libtorch.
        if DRIVER.contains(&name.as_str()) || !seen.insert(name.clone()) {
            continue;
        }
        let Some(path) = index.find(&name)? else {
            found.outside.insert(name, needed_by);
            continue;
        };
        let dynamic = Dynamic::of_file(&path)?;
        // Installed libraries may have links such as `libnvrtc.so.13.0.88` beside `libnvrtc.so.13`.
        let own_name = dynamic.soname.filter(|own| *own != name);
        if opened.contains(&name) && own_name.is_some_and(|own| opened.contains(&own)) {
            continue;
        }
        queue.extend(
            dynamic
                .needed
                .into_iter()
                .map(|needed| (needed, name.clone())),
        );
        found.libraries.insert(name, path);
    }
    Ok(found)
}

/// Libraries in folders; the first folder that has one counts.
#[derive(Debug, Default)]
pub(crate) struct FolderIndex {
    files: BTreeMap<String, PathBuf>,
}

impl FolderIndex {
    pub(crate) fn new(folders: &[PathBuf]) -> Self {
        let mut files = BTreeMap::new();
        for folder in folders {
            let Ok(entries) = std::fs::read_dir(folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if crate::elf::is_library(&name) {
                    files.entry(name).or_insert_with(|| entry.path());
                }
            }
        }
        Self { files }
    }
}

impl LibraryIndex for FolderIndex {
    fn find(&mut self, name: &str) -> Result<Option<PathBuf>> {
        Ok(self.files.get(name).cloned())
    }

    fn names(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

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
        let mut index = FolderIndex::new(&[folder.to_owned()]);
        let found = linkage(Flavour::Cuda, &mut index).unwrap();
        let mut expected: Vec<&str> = roots(Flavour::Cuda).to_vec();
        expected.extend([
            "libcudnn_ops.so.9",
            "libnvrtc.so.13",
            "libnvrtc-builtins.so.13.0",
        ]);
        expected.sort_unstable();
        assert_eq!(found.libraries.keys().collect::<Vec<_>>(), expected);
        // A name that nothing else has is no alias, whatever the file calls itself.
        fs::remove_file(folder.join("libnvrtc-builtins.so.13.0")).unwrap();
        fs::copy(folder.join("libnvrtc.so.13"), folder.join("libnvrtc.so.14")).unwrap();
        fs::remove_file(folder.join("libnvrtc.so.13.0.88")).unwrap();
        fs::remove_file(folder.join("libnvrtc.so.13")).unwrap();
        let mut index = FolderIndex::new(&[folder.to_owned()]);
        let found = linkage(Flavour::Cuda, &mut index).unwrap();
        assert!(found.libraries.contains_key("libnvrtc.so.14"));
    }
}
