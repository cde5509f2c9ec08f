//! What runs commands in images, with an engine and without.

use std::{path::Path, process::Command};

use crate::{
    Apptainer, chroot, connect::Engine, error::Result, images::ImageFacts, spec::ContainerSpec,
};

/// Whatever takes images and runs commands in them.
#[derive(Debug, Clone, Copy)]
pub enum Store<'a> {
    /// It keeps images itself.
    Engine(&'a Engine),
    /// It runs what is unpacked in a folder.
    Unpacked(&'a Unpacked),
}

/// What runs commands in the unpacked root of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unpacked {
    Apptainer(Apptainer),
    /// The kernel alone: the root is the run's own, and so are IPC, `/tmp` and `/dev`. It takes no
    /// image from a registry.
    Chroot,
}

impl Unpacked {
    /// Finds out whether the kernel lets the caller have a root of its own.
    ///
    /// # Errors
    /// [`crate::Error::Unpacked`] with what stands in the way.
    pub fn chroot() -> Result<Self> {
        chroot::find().map(|()| Self::Chroot)
    }

    pub fn describe(&self) -> String {
        match self {
            Self::Apptainer(apptainer) => apptainer.describe(),
            Self::Chroot => "`--engine chroot`".to_owned(),
        }
    }

    /// Whether it takes the network away from a run.
    pub fn takes_network(&self) -> bool {
        matches!(self, Self::Apptainer(apptainer) if apptainer.takes_network)
    }

    /// The command that runs what `spec` says in an image with a root, with `scratch` for what that
    /// needs on a disk. It has no standard input; output and process group are the caller's. What it
    /// cannot limit or separate of the spec, it does not.
    ///
    /// # Errors
    /// Where neither image nor spec say what to start, a path cannot be mounted, or a file written.
    pub fn command(
        &self,
        image: &ImageFacts,
        spec: &ContainerSpec,
        scratch: &Path,
        has_gpus: bool,
    ) -> Result<Command> {
        match self {
            Self::Apptainer(apptainer) => apptainer.command(image, spec, scratch, has_gpus),
            Self::Chroot => chroot::command(image, spec, scratch),
        }
    }
}
