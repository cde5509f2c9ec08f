//! What is measured in: image specs, locks, assembly, verification.
//!
//! The folders show the way of a build, and each uses only those before it: `spec` and `lock` say
//! what an image is, [`Catalog`] reads both, `store` keeps what was fetched, `slim` finds the GPU code that goes, `oci` writes layers and
//! archives, `base`, `libtorch` and `workload` get the parts, `assembly` puts them together, `load`
//! brings the image into an engine. `package` is apart: the
//! archive of this program.

mod assembly;
mod atomic_write;
mod base;
mod canonical;
mod catalog;
mod digest;
mod driver;
mod elf;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod glibc;
mod libtorch;
mod load;
pub mod lock;
mod login;
mod oci;
mod package;
mod program;
mod progress;
mod push;
mod slim;
mod spec;
mod store;
mod workload;

pub use assembly::{
    Assembly, assemble,
    contents::SCENARIO_IN_IMAGE,
    sources::{LockUse, Sources, libtorch_of, scenario_of},
    write_missing_lock,
};
pub use atomic_write::check_place;
pub use base::{
    image::{fetch_base, saved_image},
    write_debian_base,
};
pub use catalog::{Catalog, Defaults, Image};
pub use digest::Digest;
pub use driver::{DriverCheck, Version, check_driver};
pub use error::{Error, Result};
pub use glibc::Glibc;
pub use libtorch::{Libtorch, installed::installed_version};
pub use load::{
    Loaded, Ready, ensure,
    inventory::{self, Present},
    own::{OwnImage, own_image},
    ready_made::{PROTOCOLS, ReadyMade, ready_made},
    unpacked, unpacked_from,
};
pub use package::{Package, glibc_needed, write_package};
pub use progress::{Action, Meter, Progress, Silent};
pub use push::{Destination, Packed, Pushed};
pub use spec::{
    Base, LibtorchSpec, Spec, WheelIndex, flavour::Flavour, gpu::GpuArchitecture,
    reserved::environment as reserved_environment,
};
pub use store::Cache;
pub use workload::{ScenarioBinary, cargo, plain_cargo, reproducible};
