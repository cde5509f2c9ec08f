//! `cargo xtask dist`: the program as one archive, for machines that have no toolchain.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bytesize::ByteSize;
use images::Package;

use crate::{
    cli::DistArgs,
    error::{Error, Result},
    printer::Printer,
    workspace,
};

/// The program's name in the archive.
pub(crate) const PROGRAM: &str = "torchgauge";
const PROFILE: &str = "dist";
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

/// Where shells look for completions, by the names that they go by.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "torchgauge.bash"),
    ("zsh", "_torchgauge"),
    ("fish", "torchgauge.fish"),
];

pub(crate) fn run(args: &DistArgs, printer: &Printer) -> Result<()> {
    let root = workspace::checkout()?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => workspace::target(&root).join("dist"),
    };
    fs::create_dir_all(&out).map_err(writing(&out))?;
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build(&root)?,
    };
    let floor = images::glibc_floor(&program)?;
    let said = ask(&program, &["--version"])?;
    let said = String::from_utf8_lossy(&said);
    let Some(version) = said.split_whitespace().nth(1) else {
        return Err(Error::NotThisProgram { program });
    };
    let name = format!("{PROGRAM}-{version}-x86_64-linux");
    let bytes = package(&name, &program, &root)?.pack()?;
    let size = ByteSize::b(bytes.len() as u64);
    if args.program.is_none() && size.0 > MOST_BYTES {
        return Err(Error::LargeDist {
            size,
            most: ByteSize::b(MOST_BYTES),
        });
    }
    let archive = out.join(format!("{name}.tar.gz"));
    let digest = images::write_package(&bytes, &archive)?;
    printer.line(&format!("{}  {size}, {digest}", archive.display()));
    printer.line(&format!(
        "{}; needs x86-64 Linux with glibc {floor} or newer",
        said.trim()
    ));
    Ok(())
}

/// Compiles the program, to the same bytes in any folder.
fn build(root: &Path) -> Result<PathBuf> {
    let target = workspace::target(root);
    let mut command = images::plain_cargo(root);
    command
        .args(["build", "--locked", "--profile", PROFILE])
        .args(["--package", "xtask", "--bin", PROGRAM, "--target-dir"])
        .arg(&target)
        .stdin(Stdio::null());
    images::reproducible(
        &mut command,
        &[(root, "/torchgauge"), (&target, "/target")],
        &[],
    );
    let status = command.status().map_err(|source| Error::Start {
        what: "cargo, which compiles the program".into(),
        source,
    })?;
    if !status.success() {
        return Err(Error::NotCompiled {
            status: status.to_string(),
        });
    }
    Ok(target.join(PROFILE).join(PROGRAM))
}

fn package(name: &str, program: &Path, root: &Path) -> Result<Package> {
    let mut package = Package::new(name);
    package.add_program(PROGRAM, read(program)?);
    package.add("README.md", include_bytes!("README.md").to_vec());
    for (from, ends, to) in FILES {
        for file in files(&root.join(from))? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if ends.iter().any(|end| name.ends_with(end)) {
                let place = Path::new(to).join(&*name);
                package.add(&place.to_string_lossy(), read(&file)?);
            }
        }
    }
    for (shell, name) in COMPLETIONS {
        let script = ask(program, &["completions", shell])?;
        package.add(&format!("share/completions/{name}"), script);
    }
    let pages = tempfile::tempdir().map_err(writing(&std::env::temp_dir()))?;
    ask(program, &["man", &pages.path().to_string_lossy()])?;
    for page in files(pages.path())? {
        let name = page.file_name().unwrap_or_default().to_string_lossy();
        package.add(&format!("share/man/man1/{name}"), read(&page)?);
    }
    Ok(package)
}

/// What the program says to a command that reads nothing of this machine.
fn ask(program: &Path, words: &[&str]) -> Result<Vec<u8>> {
    // Not as cargo's child, for then it calls itself `cargo xtask`.
    let output = Command::new(program)
        .args(words)
        .env_remove("CARGO")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Start {
            what: program.display().to_string(),
            source,
        })?;
    if output.status.success() && !output.stdout.is_empty() {
        Ok(output.stdout)
    } else {
        Err(Error::NotThisProgram {
            program: program.to_owned(),
        })
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|source| Error::Read {
        path: file.to_owned(),
        source,
    })
}

fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Write {
        path: path.to_owned(),
        source,
    }
}
