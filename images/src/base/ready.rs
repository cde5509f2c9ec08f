//! A base that is ready to be built on.

use std::{io, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    Glibc, Result,
    base::filesystem::Filesystem,
    error::at,
    lock::{BaseContents, BaseLock},
    oci::layer::LayerId,
};

/// One layer of a base: a part of a file that is a tar archive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BaseLayer {
    pub(crate) id: LayerId,
    /// The base's archive, or a file in the cache where the archive has the layer compressed.
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
}

/// A base that is ready to be built on: what is noted of an archive, so that it is read once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReadyBase {
    pub(crate) layers: Vec<BaseLayer>,
    pub(crate) lock: BaseLock,
    /// Its libc's version, where it has one that can be read.
    pub(crate) glibc: Option<Glibc>,
    pub(crate) environment: Vec<String>,
    /// The folders of its own `LD_LIBRARY_PATH`.
    pub(crate) library_path: Vec<String>,
    /// Whether its `/etc/ld.so.preload` has programs load what they do not ask for.
    pub(crate) is_preloading: bool,
    /// What is installed in it; `None` where its lock says that already.
    pub(crate) contents: Option<BaseContents>,
    /// What of that could not be read, and why.
    pub(crate) unread: Vec<String>,
}

impl ReadyBase {
    /// The files that its layers show together.
    pub(crate) fn filesystem(&self) -> Result<Filesystem> {
        shown(&self.layers)
    }
}

pub(super) fn shown(layers: &[BaseLayer]) -> Result<Filesystem> {
    let mut files = Filesystem::default();
    for BaseLayer { id, file, offset } in layers {
        let added = files.add(file, *offset, id.size_bytes);
        added.map_err(|cause| at(file)(io::Error::other(cause)))?;
    }
    Ok(files)
}
