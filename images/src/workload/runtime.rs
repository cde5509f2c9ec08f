//! Running the scenario binary on this machine as a plain process, without an image.

use std::{ffi::OsString, path::PathBuf};

use crate::{Flavour, Libtorch, ScenarioBinary};

/// What a plain process needs to run the scenario binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRuntime {
    /// The program.
    pub binary: PathBuf,
    /// Folders for `LD_LIBRARY_PATH`, in order.
    pub library_path: Vec<PathBuf>,
    /// torch's version: `2.11.0`.
    pub libtorch_version: String,
    /// The flavour's full name: `2.11.0+cpu`.
    pub libtorch_name: String,
    /// With or without CUDA.
    pub flavour: Flavour,
}

impl LocalRuntime {
    /// The scenario binary with a libtorch of this machine.
    #[must_use]
    pub fn new(scenario: &ScenarioBinary, libtorch: &Libtorch) -> Self {
        Self {
            binary: scenario.path.clone(),
            library_path: libtorch.library_folders(),
            libtorch_version: libtorch.version.clone(),
            libtorch_name: libtorch.name.clone(),
            flavour: libtorch.flavour,
        }
    }

    /// The value for `LD_LIBRARY_PATH`. What stood there before comes last: the driver's
    /// libraries may be found through it.
    #[must_use]
    pub fn ld_library_path(&self) -> OsString {
        let inherited = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = self
            .library_path
            .iter()
            .map(|folder| folder.as_os_str().to_owned());
        let inherited = std::env::split_paths(&inherited).map(PathBuf::into_os_string);
        let mut value = OsString::new();
        for folder in folders.chain(inherited).filter(|folder| !folder.is_empty()) {
            if !value.is_empty() {
                value.push(":");
            }
            value.push(folder);
        }
        value
    }
}
