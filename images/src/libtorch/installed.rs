//! A PyTorch that is installed for Python: found without importing it, used as it lies.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Error, Flavour, Result,
    libtorch::{
        Libtorch,
        folder::{assemble, nvidia_folders, quoted},
    },
    program,
    store::Cache,
};

/// Asks Python where torch lies. `find_spec` does not import it, which would take seconds and
/// start CUDA.
const WHERE_IS_TORCH: &str = "import importlib.util as u; s = u.find_spec('torch'); \
     print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')";

/// The site-packages folder of the PyTorch that `python3` would import.
fn find_installed() -> Result<PathBuf> {
    let mut command = Command::new("python3");
    command.args(["-c", WHERE_IS_TORCH]);
    let next = "install Python 3 with PyTorch, or name its site-packages folder in the image's \
                spec (`libtorch: {installed: FOLDER}`)";
    let output = program::output(&mut command, "find an installed PyTorch", next)?;
    let torch = Path::new(output.lines().last().unwrap_or_default().trim());
    torch.parent().map(Path::to_owned).ok_or_else(|| {
        let why = "no installed PyTorch of `python3`: it cannot import torch; install it, name its \
                   site-packages folder in the image's spec (`libtorch: {installed: FOLDER}`), or take \
                   an image made of wheels";
        Error::Input(why.to_owned())
    })
}

/// The version of the PyTorch that `python3` would import, as it names itself, such as
/// `2.11.0+cu130`; `None` where there is none.
pub fn installed_version() -> Option<String> {
    let text = fs::read_to_string(find_installed().ok()?.join("torch/version.py"));
    quoted(&text.ok()?, "__version__")
}

/// The libtorch of a PyTorch in a site-packages folder (`torch/`, `nvidia/*/lib`); `None` means
/// the one that `python3` would import.
pub(crate) fn installed(
    packages: Option<&Path>,
    flavour: Flavour,
    cache: &Cache,
) -> Result<Libtorch> {
    let packages = match packages {
        Some(folder) => folder.to_owned(),
        None => find_installed()?,
    };
    let torch = packages.join("torch");
    if !torch.join("lib").is_dir() {
        return Err(Error::Input(format!(
            "no installed PyTorch in {}: torch/lib is missing; name the site-packages folder that \
             holds `torch` (`python3 -m pip show torch` shows where)",
            packages.display()
        )));
    }
    let mut search = vec![torch.join("lib")];
    search.extend(nvidia_folders(&packages));
    // auditwheel puts what it bundles here.
    search.push(packages.join("torch.libs"));
    search.extend(toolkit_folders());
    assemble(&torch, &search, flavour, cache)
}

/// A PyTorch that was built from source, or a distribution's, uses the machine's own CUDA.
fn toolkit_folders() -> Vec<PathBuf> {
    ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu"]
        .iter()
        .map(PathBuf::from)
        .filter(|folder| folder.join("libcudart.so").exists())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pytorch_names_its_version() {
        let text = "from typing import Optional\n\n__all__ = ['__version__']\n\
                    __version__ = '2.11.0+cu130'\ndebug = False\n";
        let version = quoted(text, "__version__");
        assert_eq!(version.as_deref(), Some("2.11.0+cu130"));
        assert_eq!(quoted("debug = False\n", "__version__"), None);
    }

    #[test]
    fn a_folder_without_pytorch_says_how_to_find_one() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let error = installed(Some(folder.path()), Flavour::Cuda, &cache)
            .unwrap_err()
            .to_string();
        for part in ["torch/lib is missing", "pip show torch"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
