//! `cargo xtask dist`: the program as one archive, as a wheel and as an image, for machines without a
//! toolchain.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bytesize::ByteSize;
use clap::Args;
use images::{Catalog, Digest, Glibc, Package};

use crate::{
    commands::bench::prepare::cache,
    error::{Error, Result, reading, starting, writing},
    printer::Printer,
    workspace,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct DistArgs {
    /// Where to write them; default: `dist` in cargo's target folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A `torchgauge` that is compiled already, of whatever size, in place of compiling it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Also write an image of it, as an archive for `docker load`, on the Debian base of the default
    /// image for CPUs
    #[arg(long)]
    image: bool,
}

/// The program's name in the archive.
pub(crate) const PROGRAM: &str = "torchgauge";
const PROFILE: &str = "dist";
/// What the program is compiled for. Not musl, which needs nothing of a machine but cannot load NVIDIA's
/// libraries either: with glibc 2.17, of 2012, it starts on whatever PyTorch's wheels start on.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const OLDEST: Glibc = Glibc {
    major: 2,
    minor: 17,
};
/// The most that the archive may take.
const MOST_BYTES: u64 = 15_000_000;

/// Files of the checkout: from which folder, by how their names end, and into which folder.
const FILES: [(&str, &[&str], &str); 3] = [
    (
        "scenarios",
        &[".yaml", ".schema.json", "suites.md"],
        "suites",
    ),
    ("images", &[".yaml", ".schema.json", ".lock.json"], "images"),
    (".", &["LICENSE-APACHE", "LICENSE-MIT"], ""),
];

const README: &[u8] = include_bytes!("README.md");

/// Where shells look for completions below a prefix such as `/usr/local` or a virtual environment.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/torchgauge"),
    ("zsh", "share/zsh/site-functions/_torchgauge"),
    ("fish", "share/fish/vendor_completions.d/torchgauge.fish"),
];

pub(crate) fn run(args: &DistArgs, printer: &Printer) -> Result<()> {
    let root = workspace::checkout()?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => workspace::target(&root).join("dist"),
    };
    fs::create_dir_all(&out).map_err(writing(&out))?;
    let program = match &args.program {
        Some(program) => {
            regular_file::check(program).map_err(reading(program))?;
            program.clone()
        }
        None => build(&root)?,
    };
    let said = ask(&program, &["--version"])?;
    let said = String::from_utf8_lossy(&said);
    let Some(version) = said.split_whitespace().nth(1) else {
        return Err(not_this_program(&program));
    };
    let glibc = images::glibc_needed(&program)?
        .unwrap_or(OLDEST)
        .max(OLDEST);
    if args.program.is_none() && glibc > OLDEST {
        return Err(Error::Input(format!(
            "{} needs glibc {glibc}; expected {OLDEST} or older: compile it with cargo-zigbuild",
            program.display()
        )));
    }
    let share = share(&program)?;
    let name = format!("{PROGRAM}-{version}-x86_64-linux");
    let bytes = package(&name, &program, &share, &root)?.pack()?;
    let size = ByteSize::b(bytes.len() as u64);
    if args.program.is_none() && size.0 > MOST_BYTES {
        return Err(Error::Input(format!(
            "the archive would take {size}, and may take {}; leave something out of the program, or of \
             the files beside it",
            ByteSize::b(MOST_BYTES)
        )));
    }
    let tag = format!("py3-none-manylinux_{}_{}_x86_64", glibc.major, glibc.minor);
    let wheel = wheel(version, &tag, &program, &share, &root)?.wheel()?;
    for (bytes, file) in [
        (bytes, format!("{name}.tar.gz")),
        (wheel, format!("{PROGRAM}-{version}-{tag}.whl")),
    ] {
        let (size, file) = (ByteSize::b(bytes.len() as u64), out.join(file));
        let digest = images::write_package(&bytes, &file)?;
        printer.line(&format!("{}  {size}, {digest}", file.display()));
    }
    if args.image {
        let file = out.join(format!("{name}-image.tar"));
        let digest = image(version, &program, &root, &file, printer)?;
        printer.line(&format!("{}  {digest}", file.display()));
    }
    printer.line(said.trim());
    Ok(())
}

/// Writes an image of the program and its licences.
fn image(
    version: &str,
    program: &Path,
    root: &Path,
    to: &Path,
    printer: &Printer,
) -> Result<Digest> {
    let mut image = Package::new("");
    let place = format!("usr/local/bin/{PROGRAM}");
    image.add(&place, read(program)?, 0o755);
    for name in FILES[2].1 {
        let place = format!("usr/local/share/doc/{PROGRAM}/{name}");
        image.add(&place, read(&root.join(name))?, 0o644);
    }
    let catalog = Catalog::new(&root.join("images"));
    let locked = catalog.image(&catalog.defaults()?.cpu)?;
    let reference = format!("{PROGRAM}:{version}");
    Ok(image.image(&reference, &place, &locked, to, &cache(printer)?)?)
}

/// Compiles the program, to the same bytes in any folder.
fn build(root: &Path) -> Result<PathBuf> {
    let target = workspace::target(root);
    let mut command = images::plain_cargo(root);
    command
        .args(["zigbuild", "--locked", "--profile", PROFILE])
        .args(["--target", &format!("{TARGET}.{OLDEST}")])
        .args(["--package", "torchgauge", "--bin", PROGRAM, "--target-dir"])
        .arg(&target)
        .stdin(Stdio::null());
    images::reproducible(
        &mut command,
        &[(root, "/torchgauge"), (&target, "/target")],
        &[],
    );
    let status = command.status();
    let status = status.map_err(starting("cargo, which compiles the program"))?;
    if !status.success() {
        return Err(Error::Input(format!(
            "the program did not compile: cargo ended with {status}; fix the error above, and run again. \
             `pip install cargo-zigbuild ziglang` installs `cargo zigbuild`"
        )));
    }
    Ok(target.join(TARGET).join(PROFILE).join(PROGRAM))
}

fn package(
    name: &str,
    program: &Path,
    share: &[(String, Vec<u8>)],
    root: &Path,
) -> Result<Package> {
    let mut package = Package::new(name);
    package.add(PROGRAM, read(program)?, 0o755);
    package.add("README.md", README.to_vec(), 0o644);
    for (from, ends, to) in FILES {
        for file in files(&root.join(from))? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if ends.iter().any(|end| name.ends_with(end)) {
                let place = Path::new(to).join(&*name);
                package.add(&place.to_string_lossy(), read(&file)?, 0o644);
            }
        }
    }
    for (place, content) in share {
        package.add(place, content.clone(), 0o644);
    }
    Ok(package)
}

/// The program, and the Python module of its name. Suites, image specs and the hook are in the program.
fn wheel(
    version: &str,
    tag: &str,
    program: &Path,
    share: &[(String, Vec<u8>)],
    root: &Path,
) -> Result<Package> {
    let info = format!("{PROGRAM}-{version}.dist-info");
    let data = format!("{PROGRAM}-{version}.data");
    let mut wheel = Package::new(&info);
    wheel.add(&format!("{data}/scripts/{PROGRAM}"), read(program)?, 0o755);
    for (place, content) in share {
        wheel.add(&format!("{data}/data/{place}"), content.clone(), 0o644);
    }
    let module = root.join("scenarios/python/torchgauge.py");
    wheel.add("torchgauge.py", read(&module)?, 0o644);
    for name in FILES[2].1 {
        let license = read(&root.join(name))?;
        wheel.add(&format!("{info}/licenses/{name}"), license, 0o644);
    }
    let metadata = include_str!("METADATA").replace("VERSION", version);
    let metadata = [metadata.as_bytes(), README].concat();
    wheel.add(&format!("{info}/METADATA"), metadata, 0o644);
    let kind = format!(
        "Wheel-Version: 1.0\nGenerator: {PROGRAM} {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    wheel.add(&format!("{info}/WHEEL"), kind.into_bytes(), 0o644);
    Ok(wheel)
}

/// What the program writes for shells and for `man`, by the place below a prefix.
fn share(program: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut share = Vec::new();
    for (shell, place) in COMPLETIONS {
        share.push((place.to_owned(), ask(program, &["completions", shell])?));
    }
    let pages = tempfile::tempdir().map_err(writing(&std::env::temp_dir()))?;
    ask(program, &["man", &pages.path().to_string_lossy()])?;
    for page in files(pages.path())? {
        let name = page.file_name().unwrap_or_default().to_string_lossy();
        share.push((format!("share/man/man1/{name}"), read(&page)?));
    }
    Ok(share)
}

/// What the program says to a command that reads nothing of this machine.
fn ask(program: &Path, words: &[&str]) -> Result<Vec<u8>> {
    // Not as cargo's child, for then it calls itself `cargo xtask`.
    let output = Command::new(program)
        .args(words)
        .env_remove("CARGO")
        .stdin(Stdio::null())
        .output()
        .map_err(starting(&program.display().to_string()))?;
    if output.status.success() && !output.stdout.is_empty() {
        Ok(output.stdout)
    } else {
        Err(not_this_program(program))
    }
}

fn not_this_program(program: &Path) -> Error {
    Error::Input(format!(
        "{} is no `torchgauge` that starts here; leave --program out to have it compiled",
        program.display()
    ))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = reading(folder);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(reading(file))
}
