//! The one crate that knows bollard and Apptainer: connect, load, run, watch, remove.
//!
//! [`Engine::connect`] finds Docker or Podman; [`Engine::load`] brings an image
//! in; [`Engine::create`] makes a hardened [`Container`] out of a
//! [`ContainerSpec`], which can be started, waited for, watched and read, and is
//! removed whatever happens. Nothing here pulls by itself ([`Engine::pull`] is for
//! whoever asks), and nothing here touches a container or an image that it was not
//! given by id, name or label. [`Unpacked`] runs the same specs where there is no engine.
//!
//! What engines do differently from what their API says is handled here, with
//! the reason beside it, so that the rooms above see one behaviour.

mod apptainer;
mod attempt;
mod body;
mod bundle;
mod chroot;
mod connect;
mod container;
mod endpoint;
mod error;
mod exit;
mod facts;
mod fallback;
mod fetch;
pub mod gpu;
mod images;
mod load;
mod logs;
mod owner;
mod registry;
mod spec;
mod stats;
mod sweep;
mod unpacked;

pub use apptainer::Apptainer;
pub use attempt::Attempt;
pub use bundle::{resolve, write_bundle};
pub use chroot::enter;
pub use connect::Engine;
pub use container::Container;
pub use endpoint::Endpoint;
pub use error::{Cause, Error, Failure, Result, chain};
pub use exit::{Exit, Oom};
pub use facts::{EngineFacts, Product};
pub use fallback::Fallback;
pub use fetch::{Login, PathFacts};
pub use gpu::{GpuAccess, GpuHost, GpuPath};
pub use images::{ImageFacts, ImageSummary};
pub use owner::{LABEL_HOST, LABEL_PID, LABEL_RUN, LABEL_SESSION, LABEL_START, Liveness, Owner};
pub use spec::{ContainerSpec, Ipc, Limits, Mount, Network, Ulimit, User};
pub use stats::{Sample, StatsStream};
pub use sweep::Leftover;
pub use unpacked::{Store, Unpacked};
