//! The scenario binary: built here with cargo against a libtorch, reproducibly, or given.

mod kept;
pub(crate) mod tch_workspace;
pub(crate) mod toolchain;

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Digest, Error, Flavour, Libtorch, Result,
    elf::{Dynamic, why_no_program},
    error::at,
    libtorch::linkage::roots,
    program,
    progress::Action,
    spec::flavour::tch_for,
    store::Cache,
};

/// A scenario binary on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioBinary {
    pub path: PathBuf,
    pub sha256: Digest,
}

const INSTALL_CARGO: &str = "install Rust (https://rustup.rs), or give a binary that is built \
                             already (`--scenario-binary FILE`, TORCHGAUGE_SCENARIO)";

impl ScenarioBinary {
    /// A binary that is there already. Whatever cannot be the workload is refused by what the file
    /// itself says: it is not run.
    pub fn existing(path: &Path, cache: &Cache) -> Result<Self> {
        let no = |cause: String| {
            Error::Input(format!(
                "{} is no scenario binary: {cause}; expected the program `scenario` of a Torchgauge \
                 checkout, for x86-64 Linux, as `{} images build` compiles it to \
                 target/scenario/LIBTORCH/release/scenario. Leave `--scenario-binary` and \
                 TORCHGAUGE_SCENARIO away to have it compiled",
                path.display(),
                protocol::program()
            ))
        };
        regular_file::open(path).map_err(|error| no(error.to_string()))?;
        if let Some(cause) = why_no_program(path)? {
            return Err(no(cause));
        }
        let needed = Dynamic::of_file(path)?.needed;
        if !needed
            .iter()
            .any(|name| roots(Flavour::Cpu).contains(&name.as_str()))
        {
            return Err(no("it links no libtorch".to_owned()));
        }
        Self::of_file(path, cache)
    }

    fn of_file(path: &Path, cache: &Cache) -> Result<Self> {
        let path = fs::canonicalize(path).map_err(at(path))?;
        Ok(Self {
            sha256: cache.digest_of(&path)?,
            path,
        })
    }
}

/// Builds the scenario binary of a checkout against a libtorch, unless it was built before.
///
/// The same sources, toolchain and libtorch give the same bytes in any folder: paths are
/// remapped and nothing records a time. `target` is cargo's target folder; each flavour has
/// its own below it, so that flavours do not undo each other's work.
pub(crate) fn build(
    workspace: &Path,
    target: &Path,
    libtorch: &Libtorch,
    cache: &Cache,
) -> Result<ScenarioBinary> {
    let compilers = toolchain::here(workspace, &libtorch.version);
    let (place, origin) = kept::place(workspace, compilers, libtorch, cache)?;
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    // Two builds of one binary compile it once.
    let _lock = cache.lock(&format!("program-{name}"))?;
    let program = place.join("scenario");
    if program.is_file() {
        cache.used(&place);
        return ScenarioBinary::of_file(&program, cache);
    }
    let libtorch = &libtorch.with_headers(cache)?;
    let mut command = cargo("build", workspace, target, libtorch)?;
    command
        .args(["--package", "scenario", "--bin", "scenario"])
        .args(["--message-format", "json-render-diagnostics"]);
    let compiled = compile(&mut command, libtorch, cache)?;
    let program = kept::keep(&compiled, &place, origin, cache)?;
    ScenarioBinary::of_file(&program, cache)
}

/// cargo in a folder, as a shell there has it.
///
/// `cargo run` tells this program about its own package; build scripts would hear of that, and what
/// a shell's cargo has compiled would be compiled again: ring's script asks for all of it.
pub fn plain_cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_a_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether cargo says something of the package that it runs in this variable.
fn is_of_a_package(variable: &OsStr) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"]
        .iter()
        .any(|start| variable.as_encoded_bytes().starts_with(start.as_bytes()))
}

/// cargo for the crates that link a libtorch with headers ([`Libtorch::with_headers`]), with
/// everything set that makes their bytes the same anywhere. Building, checking and testing through it share what they compile.
pub fn cargo(
    subcommand: &str,
    workspace: &Path,
    target: &Path,
    libtorch: &Libtorch,
) -> Result<Command> {
    let Some(folder) = &libtorch.build_folder else {
        let first = libtorch.libraries.first();
        let place = first.map(|library| library.path.clone());
        let cause = "it has no headers to build against";
        return Err(Error::no_libtorch(&place.unwrap_or_default(), cause));
    };
    let targets = target.join("scenario");
    let (tch, series) = tch_for(&libtorch.version)?;
    let place = targets.join(format!("tch-{tch}"));
    let checkout = tch_workspace::with_tch(workspace, tch, &place)?;
    let workspace = checkout.folder.as_path();
    let target = targets.join(&libtorch.name);
    let mut command = plain_cargo(workspace);
    command
        .args([subcommand, "--release", "--target-dir"])
        .arg(&target)
        .args(checkout.locked.then_some("--locked"))
        // Lines of code in backtraces are worth less than bytes that are the same anywhere.
        .args(["--config", "profile.release.debug=false"])
        .args(["--config", "profile.release.strip=\"debuginfo\""])
        .env("LIBTORCH", folder)
        .env(
            "LIBTORCH_CXX11_ABI",
            u8::from(libtorch.cxx11_abi).to_string(),
        )
        // Which tch goes with which torch is known here, beyond the one that it is made for.
        .env("LIBTORCH_BYPASS_VERSION_CHECK", "1")
        .env_remove("LIBTORCH_USE_PYTORCH")
        .env_remove("LIBTORCH_INCLUDE")
        .env_remove("LIBTORCH_LIB");
    let mut flags = Vec::new();
    if series.is_cxx20() {
        // cc puts what the environment says last, so it counts where torch-sys asks for C++17.
        flags.push("-std=c++20".to_owned());
    }
    if let Some(header) = &checkout.header {
        flags.push(format!("-include {}", header.display()));
    }
    let folders = [
        (workspace, "/torchgauge"),
        (target.as_path(), "/target"),
        (folder, "/libtorch"),
    ];
    reproducible(&mut command, &folders, &flags);
    if libtorch.flavour == Flavour::Cuda {
        command.args(["--features", "cuda"]);
    }
    Ok(command)
}

/// Has cargo give the same bytes in any folder: nothing records a time, no setting of this user
/// counts, and compilers write fixed names where they would write this machine's folders.
///
/// `folders` are given with their names: the workspace, the target folder and what else is read. Of
/// one within another, the inner one comes later. `cxx` are further flags of the C++ compiler.
pub fn reproducible(command: &mut Command, folders: &[(&Path, &str)], cxx: &[String]) {
    command
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", "0");
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let rustup = env::var_os("RUSTUP_HOME").map_or_else(|| home.join(".rustup"), PathBuf::from);
    // Of several prefixes that fit, both rustc and gcc take the one given last.
    let tools: [(&Path, &str); 2] = [(&rustup, "/rustup"), (&cargo, "/cargo")];
    let mut rust = Vec::new();
    let mut c = Vec::new();
    for (folder, name) in tools.iter().chain(folders) {
        let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        let mut spellings = vec![folder.to_path_buf()];
        if real != *folder {
            spellings.push(real);
        }
        for spelling in spellings {
            rust.push(format!("--remap-path-prefix={}={name}", spelling.display()));
            c.push(format!("-ffile-prefix-map={}={name}", spelling.display()));
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}"));
    command.env("CFLAGS", c.join(" "));
    c.extend_from_slice(cxx);
    command.env("CXXFLAGS", c.join(" "));
}

/// How many packages a build of the workload compiles; `None` where cargo cannot tell.
fn packages(build: &Command, libtorch: &Libtorch) -> Option<u64> {
    let mut command = Command::new(build.get_program());
    command
        .args(["tree", "--package", "scenario", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"]);
    if libtorch.flavour == Flavour::Cuda {
        command.args(["--features", "cuda"]);
    }
    command.current_dir(build.get_current_dir()?);
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let names = text.lines().filter(|line| !line.is_empty());
    let names: BTreeSet<&str> = names.map(|line| line.trim_end_matches(" (*)")).collect();
    (output.status.success() && !names.is_empty()).then_some(names.len() as u64)
}

fn compile(command: &mut Command, libtorch: &Libtorch, cache: &Cache) -> Result<PathBuf> {
    let mut meter = cache.start(Action::Compile, "the workload", packages(command, libtorch));
    let mut done = BTreeSet::new();
    let mut executable = None;
    let outcome = program::run(
        command,
        "build the scenario binary",
        INSTALL_CARGO,
        |line| {
            let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
                return true;
            };
            if message["reason"] == "compiler-artifact" {
                // A package counts by what it is compiled for, not by its build script.
                if message["target"]["kind"][0] != "custom-build" {
                    done.insert(message["package_id"].to_string());
                    meter.advance_to(done.len() as u64);
                }
                if let Some(name) = message["target"]["name"].as_str() {
                    meter.message(name);
                }
                if message["target"]["name"] == "scenario"
                    && let Some(path) = message["executable"].as_str()
                {
                    executable = Some(PathBuf::from(path));
                }
            }
            false
        },
    )?;
    match executable {
        Some(path) if outcome.status.success() => Ok(path),
        _ => Err(Error::Trouble(format!(
            "building the scenario binary for libtorch {} failed:\n{}",
            libtorch.name, outcome.tail
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles C as a program that links what is named.
    fn compile(folder: &Path, source: &str, arguments: &[&str]) -> PathBuf {
        let (text, program) = (folder.join("x.c"), folder.join("x"));
        fs::write(&text, source).unwrap();
        let status = Command::new("cc")
            .args([&text, Path::new("-o"), &program])
            .args(["-L", folder.to_str().unwrap(), "-Wl,--no-as-needed"])
            .args(arguments)
            .status()
            .unwrap();
        assert!(status.success());
        program
    }

    #[test]
    fn what_cannot_be_the_workload_is_refused_unread_and_unrun() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let cache = Cache::at(&folder.join("cache")).unwrap();
        let mut refusals = Vec::new();
        let mut refused = |file: &Path| {
            let error = ScenarioBinary::existing(file, &cache).unwrap_err();
            assert!(matches!(error, Error::Input(_)), "{error:?}");
            let text = error.to_string();
            refusals.push(text.replace(folder.to_str().unwrap(), "/folder"));
        };
        refused(&folder.join("absent"));
        refused(folder);
        let place = folder.join("file");
        for content in [
            b"" as &[u8],
            b"#!/bin/sh\nexit 0\n",
            b"\x7fELF\x01\x01\x01",
            b"\x7fELF\x02\x01\x01",
        ] {
            fs::write(&place, content).unwrap();
            refused(&place);
        }
        let mut arm = fs::read(std::env::current_exe().unwrap()).unwrap();
        // e_machine, after 16 bytes of identification and two of the file's kind.
        arm[18..20].copy_from_slice(&object::elf::EM_AARCH64.0.to_le_bytes());
        fs::write(&place, arm).unwrap();
        refused(&place);
        refused(Path::new("/bin/true"));

        let library = compile(folder, "int x;", &["-shared", "-Wl,-soname,libc10.so"]);
        fs::rename(&library, folder.join("libc10.so")).unwrap();
        refused(&folder.join("libc10.so"));
        let next = &refusals[0][refusals[0].find("; expected the program").unwrap()..];
        insta::assert_snapshot!(next, @"; expected the program `scenario` of a Torchgauge checkout, for x86-64 Linux, as `cargo xtask images build` compiles it to target/scenario/LIBTORCH/release/scenario. Leave `--scenario-binary` and TORCHGAUGE_SCENARIO away to have it compiled");
        let causes = refusals
            .iter()
            .map(|text| text.strip_suffix(next).expect(text));
        let causes: Vec<&str> = causes.collect();
        insta::assert_snapshot!(causes.join("\n"), @r"
        /folder/absent is no scenario binary: No such file or directory (os error 2)
        /folder is no scenario binary: it is a directory; expected a file
        /folder/file is no scenario binary: it is no ELF file
        /folder/file is no scenario binary: it is no ELF file
        /folder/file is no scenario binary: its ELF header cannot be read: Invalid ELF header size or alignment
        /folder/file is no scenario binary: its ELF header cannot be read: Invalid ELF header size or alignment
        /folder/file is no scenario binary: it is for 64-bit ARM
        /bin/true is no scenario binary: it links no libtorch
        /folder/libc10.so is no scenario binary: it is a library, an object file or linked statically, and libtorch is a shared library
        ");
        let plain = "int main(void) { return 0; }";
        let program = compile(folder, plain, &["-lc10"]);
        ScenarioBinary::existing(&program, &cache).unwrap();
    }
}
