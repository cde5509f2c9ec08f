//! Which compilers the scenario binary is built with here.

use std::{env, path::Path, process::Command};

use crate::{lock::Toolchain, program, spec::flavour::tch_for};

/// What stands for a compiler that is not here.
pub(crate) const NONE: &str = "none";

/// The compilers of this machine, as a checkout's folder sees them, and the tch that fits a torch.
pub(crate) fn here(workspace: &Path, torch: &str) -> Toolchain {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let cxx = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    Toolchain {
        rust: words(Command::new(rustc).current_dir(workspace)),
        cxx: words(&mut Command::new(cxx)),
        linker: words(&mut Command::new("ld")),
        libc: program::output(
            Command::new("getconf").arg("GNU_LIBC_VERSION"),
            "name the C library",
            "",
        )
        .map_or_else(|_| NONE.to_owned(), |text| text.trim().to_owned()),
        tch: tch_for(torch).map_or("unknown", |(tch, _)| tch).to_owned(),
    }
}

/// The first line of what a compiler says about itself. One that is not here has built nothing:
/// the binary was given.
fn words(compiler: &mut Command) -> String {
    let text = program::output(compiler.arg("--version"), "name the compilers", "");
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or(NONE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_name_themselves_and_absent_ones_are_none() {
        let found = here(Path::new(env!("CARGO_MANIFEST_DIR")), "2.11.0");
        assert!(found.rust.starts_with("rustc 1."), "{found:?}");
        assert!(found.cxx.chars().any(|c| c.is_ascii_digit()), "{found:?}");
        assert!(found.linker.contains("ld"), "{found:?}");
        assert!(found.libc.starts_with("glibc 2."), "{found:?}");
        assert_eq!(found.tch, "0.24.0");
        assert_eq!(words(&mut Command::new("no-such-compiler")), "none");
    }
}
