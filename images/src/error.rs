//! What can go wrong with images. Each error names what, where, what was expected, and the next step.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::Digest;

/// The result of anything to do with images.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the user gave is at fault: a name, a spec, a file, an image.
    #[error("{0}")]
    Input(String),

    /// Something else is: a program, a registry, an engine.
    #[error("{0}")]
    Trouble(String),

    /// A file or folder could not be read or written.
    #[error("{}: {source}{}", path.display(), disk_hint(source))]
    Io { path: PathBuf, source: io::Error },

    /// A layer's bytes are not those that were hashed.
    #[error(
        "layer {layer}: cached digest {expected}, actual {found}: a source file changed without a \
         new mtime, or the cache is damaged; the cached digests were dropped, run again"
    )]
    StaleLayer {
        layer: String,
        expected: Digest,
        found: Digest,
    },

    /// A wheel that is no readable zip archive, or lacks a file.
    #[error(
        "the wheel {} cannot be unpacked{}: {cause}; run again to fetch it anew",
        wheel.display(),
        member.as_ref().map(|m| format!(" at `{m}`")).unwrap_or_default()
    )]
    BadWheel {
        wheel: PathBuf,
        member: Option<String>,
        cause: String,
    },

    /// A spec that cannot be read.
    #[error(transparent)]
    Yaml(#[from] strict_yaml::YamlError),

    /// The engine could not do what was asked.
    #[error(transparent)]
    Engine(#[from] engine::Error),

    /// apt does not offer a package, or not in the locked version.
    #[error("apt offers no {what}: {cause}; {next}")]
    NoPackage {
        what: String,
        cause: String,
        next: &'static str,
    },
}

impl Error {
    /// A file's content is not what was locked.
    pub(crate) fn wrong_hash(what: &str, expected: Digest, found: Digest, next: &str) -> Self {
        Self::Trouble(format!(
            "{what} has the wrong content: expected {expected}, found {found}; {next}"
        ))
    }

    /// A lock that cannot be believed.
    pub(crate) fn bad_lock(file: &Path, cause: &str) -> Self {
        Self::Input(format!(
            "the lock {} cannot be used: {cause}; restore it, or make it anew with `{} images lock`",
            file.display(),
            protocol::program()
        ))
    }

    /// An archive of a base or an image that cannot be used.
    pub(crate) fn bad_base(file: &Path, cause: &str, next: &str) -> Self {
        let file = file.display();
        Self::Input(format!(
            "the archive {file} cannot be used: {cause}; {next}"
        ))
    }

    /// The lock does not fit the spec or what there is.
    pub fn lock_differs(image: &str, cause: &str) -> Self {
        Self::Input(format!(
            "the lock of image {image} does not fit: {cause}; run `{} images lock {image}`",
            protocol::program()
        ))
    }

    pub(crate) fn no_lock(image: &str) -> Self {
        Self::Input(format!(
            "image {image} has no lock; run `{} images lock {image}`",
            protocol::program()
        ))
    }

    pub(crate) fn no_libtorch(folder: &Path, cause: &str) -> Self {
        Self::Input(format!(
            "{} is no libtorch folder: {cause}; expected lib/libtorch_cpu.so and lib/libc10.so in it",
            folder.display()
        ))
    }
}

fn disk_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "; free some space there and run again (what is finished is kept)"
        }
        io::ErrorKind::PermissionDenied => "; check who owns it",
        _ => "",
    }
}

/// Names the file that an I/O error is about.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::Io {
        path: path.to_owned(),
        source,
    }
}
