//! bench-suite through its public face. One binary, so that everything is linked once.

mod claims;
mod common;
mod containers;
#[path = "../support/daemon.rs"]
mod daemon;
mod deciding;
mod declared;
mod faults;
mod fit;
mod hostile;
#[path = "../support/image.rs"]
mod image;
mod kernel_cache;
mod processes;
mod question;
mod sessions;
mod suites;
mod validity;
