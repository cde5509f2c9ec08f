//! Puts into the binary what it needs outside of a checkout: the suites, the image specs with
//! their locks, the sources of the workload, and the revision that it was built from.

use std::{
    env,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
    process::Command,
};

/// Of the root: what cargo needs to build the workload.
const ROOT: [&str; 3] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];
/// Of `scenarios/`: what neither a suite nor the workload needs.
const LEFT_OUT: [&str; 4] = ["golden", "hook", "parity", "target"];
/// Of `images/`: specs, their locks, which are the defaults, and what goes with versions of tch.
const IMAGES: [&str; 5] = [".yaml", ".lock.json", "defaults.toml", ".Cargo.lock", ".h"];

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let root = root.canonicalize()?;
    let revision = git(
        &root,
        &["describe", "--always", "--tags", "--dirty", "--abbrev=12"],
    );
    println!(
        "cargo::rustc-env=TORCHGAUGE_REVISION={}",
        revision.as_deref().unwrap_or("unknown")
    );
    // A commit or a checkout adds a line to the log of HEAD.
    if let Some(log) = git(&root, &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={}", root.join(log).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let mut files: Vec<PathBuf> = ROOT.iter().map(|name| root.join(name)).collect();
    walk(&root.join("scenarios"), &mut files)?;
    for entry in fs::read_dir(root.join("images"))? {
        let path = entry?.path();
        let name = path.to_string_lossy();
        if path.is_file() && IMAGES.iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    files.sort();
    let mut digest = DefaultHasher::new();
    let mut list = String::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).display();
        println!("cargo::rerun-if-changed={}", file.display());
        (name.to_string(), fs::read(file)?).hash(&mut digest);
        let _ = writeln!(
            list,
            "    (\"{name}\", include_bytes!({:?})),",
            file.to_string_lossy()
        );
    }
    let mut stubs = String::new();
    for stub in members(&root)? {
        stub.hash(&mut digest);
        let _ = writeln!(stubs, "    {stub:?},");
    }
    let text = format!(
        "const DIGEST: &str = \"{:016x}\";\n\
         static FILES: &[(&str, &[u8])] = &[\n{list}];\n\
         static STUBS: &[(&str, &str)] = &[\n{stubs}];\n",
        digest.finish()
    );
    fs::write(
        Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("embedded.rs"),
        text,
    )
}

/// The manifests of the other members of the workspace, and what those say is there: cargo reads
/// them all, whichever it is to build.
fn members(root: &Path) -> io::Result<Vec<(String, String)>> {
    let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
    let list = workspace
        .split_once("members = [")
        .map_or("", |(_, rest)| rest);
    let list = list.split(']').next().unwrap_or_default();
    let members = list.split('"').skip(1).step_by(2);
    let mut stubs = Vec::new();
    for member in members.filter(|member| !member.starts_with("scenarios")) {
        let folder = root.join(member);
        let manifest = folder.join("Cargo.toml");
        println!("cargo::rerun-if-changed={}", manifest.display());
        stubs.push((
            format!("{member}/Cargo.toml"),
            fs::read_to_string(manifest)?,
        ));
        let mut targets = entries(&folder.join("src"))?;
        for place in ["tests", "benches"] {
            for path in entries(&folder.join(place))? {
                targets.extend(entries(&path)?);
                // All that lies here is a target, whatever its name.
                let name = path.strip_prefix(root).unwrap_or(&path);
                if path.extension().is_some_and(|end| end == "rs") {
                    stubs.push((name.display().to_string(), String::new()));
                }
            }
        }
        for path in targets {
            let name = path.strip_prefix(root).unwrap_or(&path);
            if path.ends_with("main.rs") || path.ends_with("lib.rs") {
                stubs.push((name.display().to_string(), String::new()));
            }
        }
    }
    stubs.sort();
    Ok(stubs)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for path in entries(folder)? {
        if path.is_file() {
            files.push(path);
        } else if !LEFT_OUT.iter().any(|name| path.ends_with(name)) {
            walk(&path, files)?;
        }
    }
    Ok(())
}

fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(words)
        .current_dir(folder)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
