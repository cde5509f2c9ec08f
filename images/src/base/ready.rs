//! A base that is ready to be built on.

use crate::{
    Glibc, Result,
    base::filesystem::Filesystem,
    error::at,
    lock::{BaseContents, BaseLock},
    oci::layer::{LayerId, Source},
};

/// One layer of a base.
#[derive(Debug, Clone)]
pub(crate) struct BaseLayer {
    pub(crate) id: LayerId,
    pub(crate) source: Source,
}

/// A base that is ready to be built on.
#[derive(Debug, Clone)]
pub(crate) struct ReadyBase {
    pub(crate) layers: Vec<BaseLayer>,
    pub(crate) lock: BaseLock,
    /// Its libc's version, where it has one that can be read.
    pub(crate) glibc: Option<Glibc>,
    /// Environment that comes with it.
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
        let mut files = Filesystem::default();
        for layer in &self.layers {
            if let Source::Part { file, offset } = &layer.source {
                files
                    .add(file, *offset, layer.id.size_bytes)
                    .map_err(at(file))?;
            }
        }
        Ok(files)
    }
}
