//! Which versions of NVIDIA's libraries a libtorch brings.

use std::{collections::BTreeMap, fs, path::Path};

use crate::{Libtorch, lock::plain_name};

/// What a version is of, the package that has it, and how a library's file name starts where the
/// package is not known: its major version follows.
const NAMED: [(&str, &str, &str); 5] = [
    ("CUDA runtime", "nvidia-cuda-runtime", "libcudart.so."),
    ("CUDA toolkit", "nvidia-cuda-nvrtc", "libnvrtc.so."),
    ("cuBLAS", "nvidia-cublas", "libcublas.so."),
    ("cuDNN", "nvidia-cudnn", "libcudnn.so."),
    ("NCCL", "nvidia-nccl", "libnccl.so."),
];

impl Libtorch {
    /// The versions of torch and of NVIDIA's libraries: those of the packages, else what the file
    /// names say.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::from([("torch".to_owned(), self.version.clone())]);
        for (of, package, file) in NAMED {
            let mut names = self.libraries.iter().map(|library| &library.name);
            let major = names.find_map(|name| name.strip_prefix(file));
            // A package of which nothing is taken says nothing.
            if let Some(major) = major {
                let version = self.packages.get(package).map_or(major, String::as_str);
                found.insert(of.to_owned(), version.to_owned());
            }
        }
        found
    }
}

/// NVIDIA's packages in a site-packages folder, by its names: `nvidia_cublas-13.1.0.3.dist-info`.
pub(crate) fn packages(names: impl IntoIterator<Item = String>) -> BTreeMap<String, String> {
    let read = |name: String| {
        let (name, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
        let name = name.to_lowercase().replace('_', "-");
        let is_nvidias = name.starts_with("nvidia-");
        is_nvidias.then(|| (plain_name(&name).to_owned(), version.to_owned()))
    };
    names.into_iter().filter_map(read).collect()
}

/// The same for a folder of this machine.
pub(crate) fn packages_in(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    packages(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Flavour,
        libtorch::{Library, Origin},
    };

    #[test]
    fn packages_tell_versions_and_file_names_where_there_are_none() {
        let names = [
            "nvidia_cudnn_cu13-9.19.0.56.dist-info",
            "numpy-2.0.dist-info",
            "torch",
        ];
        let library = |name: &str| Library {
            name: name.to_owned(),
            path: name.into(),
            size_bytes: 1,
        };
        let libtorch = Libtorch {
            version: "2.11.0".to_owned(),
            flavour: Flavour::Cuda,
            name: "2.11.0+cu130".to_owned(),
            cxx11_abi: true,
            build_folder: None,
            libraries: ["libcudnn.so.9", "libcudart.so.13"].map(library).into(),
            packages: packages(names.map(str::to_owned)),
            origin: Origin::Here,
        };
        let expected = [
            ("CUDA runtime", "13"),
            ("cuDNN", "9.19.0.56"),
            ("torch", "2.11.0"),
        ];
        let expected = expected.map(|(of, version)| (of.to_owned(), version.to_owned()));
        assert_eq!(libtorch.versions(), expected.into());
    }
}
