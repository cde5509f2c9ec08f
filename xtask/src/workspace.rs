//! Where the project lies.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The project's root: the nearest folder upwards from here that has `scenarios/` and `images/`,
/// else the folder that this binary was built in.
pub(crate) fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|source| Error::Start {
        what: "the current folder".into(),
        source,
    })?;
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    here.ancestors()
        .chain(built)
        .find(|folder| folder.join("scenarios").is_dir() && folder.join("images").is_dir())
        .map(Path::to_owned)
        .ok_or(Error::NoWorkspace { here })
}
