//! What the program is called, for the commands that messages and pages give.

use std::sync::OnceLock;

static NAME: OnceLock<&str> = OnceLock::new();

/// Sets what [`program`] returns. The command line calls it once, before anything is written.
pub fn set_program(name: &'static str) {
    // Whoever set it first is the command line.
    let _ = NAME.set(name);
}

/// The words that start the program in a shell: `torchgauge` where it is installed, else, in a
/// checkout, `cargo xtask`.
pub fn program() -> &'static str {
    NAME.get().copied().unwrap_or("cargo xtask")
}
