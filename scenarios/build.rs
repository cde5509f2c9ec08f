//! Links the binary and the tests against libtorch.
//!
//! No run path is written into the binary, which would name a folder of the machine that
//! built it: the libraries are found through `LD_LIBRARY_PATH`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Nothing refers to libtorch_cuda.so by name, so the linker drops it unless told
    // otherwise, and CUDA is then not available at run time. Which arguments say so is the
    // libtorch crate's knowledge; only the package of the binary can pass them on.
    if std::env::var("DEP_TORCHGAUGE_LIBTORCH_CUDA").is_ok_and(|cuda| cuda == "true") {
        let arguments = std::env::var("DEP_TORCHGAUGE_LIBTORCH_LINK_ARGUMENTS")
            .expect("the libtorch crate's build script says how to link its CUDA half");
        for argument in arguments.split(' ') {
            println!("cargo::rustc-link-arg={argument}");
        }
    }
}
