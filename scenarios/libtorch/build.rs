//! Compiles the shim against the libtorch that torch-sys found, and tells the
//! binaries that link it how.

use std::{
    env,
    path::{Path, PathBuf},
};

fn main() {
    println!("cargo::rerun-if-changed=shim");
    for name in ["LIBTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_CXX11_ABI"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let cuda = env::var_os("CARGO_FEATURE_CUDA").is_some();
    let lib = PathBuf::from(env::var_os("DEP_TCH_LIBTORCH_LIB").expect(
        "torch-sys did not report libtorch's folder; set LIBTORCH to its folder (include/, lib/)",
    ));
    let include = include_folder(&lib);

    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .pic(true)
        .warnings(true)
        .extra_warnings(true)
        .flag_if_supported("-Werror=return-type")
        .define(
            "_GLIBCXX_USE_CXX11_ABI",
            env::var("LIBTORCH_CXX11_ABI").as_deref().unwrap_or("1"),
        )
        .files(["shim/shim.cpp", "shim/older.cpp"]);
    system_include(&mut build, &include);
    system_include(&mut build, &include.join("torch/csrc/api/include"));
    // Behind all others: where the real headers are, they serve.
    build.flag("-idirafter").flag("shim/stand-ins");
    build.files(if cuda {
        &[
            "shim/cuda.cpp",
            "shim/fp8_cuda.cpp",
            "shim/managed.cpp",
            "shim/nccl.cpp",
        ][..]
    } else {
        &["shim/no_cuda.cpp"]
    });
    if cuda && let Some(folder) = cuda_include_folder(&include) {
        system_include(&mut build, &folder);
    }
    build.compile("torchgauge_libtorch");

    // For the build script of the package that makes the binary (DEP_TORCHGAUGE_LIBTORCH_…).
    println!("cargo::metadata=lib_dir={}", lib.display());
    println!("cargo::metadata=cuda={cuda}");
    println!(
        "cargo::metadata=link_arguments={}",
        if cuda {
            CUDA_LINK_ARGUMENTS.join(" ")
        } else {
            String::new()
        }
    );
    // This package's own tests.
    println!("cargo::rustc-link-arg-tests=-Wl,-rpath,{}", lib.display());
    if cuda {
        for argument in CUDA_LINK_ARGUMENTS {
            println!("cargo::rustc-link-arg-tests={argument}");
        }
    }
}

/// Nothing refers to a symbol of `libtorch_cuda.so` by name, it registers itself
/// when loaded, so the linker must be told to keep it. What it needs in turn (cuDNN,
/// NCCL, …) is only there where the binary runs. Libraries find what shim/managed.cpp puts before the
/// CUDA runtime where the binary exports it.
const CUDA_LINK_ARGUMENTS: [&str; 7] = [
    "-Wl,--no-as-needed",
    "-ltorch_cuda",
    "-lc10_cuda",
    "-Wl,--as-needed",
    "-Wl,--allow-shlib-undefined",
    "-Wl,--export-dynamic-symbol=cudaMalloc",
    "-Wl,--export-dynamic-symbol=cudaFree",
];

/// Others' headers warn; as system headers they do not drown our own warnings.
fn system_include(build: &mut cc::Build, folder: &Path) {
    build.flag("-isystem").flag(folder);
}

/// As torch-sys looks for it: `LIBTORCH_INCLUDE`, else beside the library folder.
fn include_folder(lib: &Path) -> PathBuf {
    let root = env::var_os("LIBTORCH_INCLUDE").map_or_else(
        || {
            lib.parent()
                .map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
        },
        PathBuf::from,
    );
    let include = root.join("include");
    assert!(
        include.join("torch/headeronly/version.h").exists()
            || include
                .join("torch/csrc/api/include/torch/version.h")
                .exists(),
        "no libtorch headers in {}; set LIBTORCH to a folder with include/ and lib/",
        include.display()
    );
    include
}

/// The CUDA runtime's headers, where libtorch's own folder does not hold them.
fn cuda_include_folder(include: &Path) -> Option<PathBuf> {
    const HEADER: &str = "cuda_runtime_api.h";
    if include.join(HEADER).exists() {
        return None;
    }
    let mut candidates = Vec::new();
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
        candidates.extend(env::var_os(name).map(|root| PathBuf::from(root).join("include")));
    }
    candidates.push(PathBuf::from("/usr/local/cuda/include"));
    let found = candidates
        .iter()
        .find(|folder| folder.join(HEADER).exists())
        .cloned();
    assert!(
        found.is_some(),
        "{HEADER} is neither in {} nor in {candidates:?}; unpack the nvidia-cuda-runtime and \
         nvidia-cuda-crt wheels there, or set CUDA_HOME",
        include.display()
    );
    found
}
