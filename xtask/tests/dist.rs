//! The archive and the wheel of `dist`: what is in them, and what a changed byte does.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn run(program: &Path, words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder);
    // A runner: no cargo, no compiler, no checkout.
    if program.is_absolute() {
        command
            .env_clear()
            .env("HOME", folder)
            .env("PATH", "/nowhere");
    }
    command.output().expect("it runs")
}

#[track_caller]
fn check(output: &Output, code: i32, expected: &[&str]) {
    let all = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{all}");
    for part in expected {
        assert!(all.contains(part), "no `{part}` in\n{all}");
    }
}

fn dist(program: &Path, out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torchgauge"))
        .args(["dist", "--program"])
        .arg(program)
        .arg("--out")
        .arg(out)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("torchgauge runs")
}

/// The archive with the program of these tests, without what debuggers need.
fn archive(home: &Path) -> PathBuf {
    let program = home.join("stripped");
    let strip = Command::new("strip")
        .args([env!("CARGO_BIN_EXE_torchgauge"), "-o"])
        .arg(&program)
        .status();
    assert!(strip.expect("strip runs").success());
    let output = dist(&program, home);
    check(&output, 0, &["sha256:", "torchgauge "]);
    let said = String::from_utf8_lossy(&output.stdout);
    PathBuf::from(said.split_whitespace().next().expect("a path"))
}

#[test]
fn an_unpacked_program_runs_alone_and_only_as_it_was_packed() {
    let home = tempfile::tempdir().expect("a folder");
    let archive = archive(home.path());
    let name = archive.file_name().expect("a name").to_string_lossy();
    let sums = format!("{name}.sha256");
    let (tar, sha256sum) = (Path::new("tar"), Path::new("sha256sum"));
    check(
        &run(sha256sum, &["--check", &sums], home.path()),
        0,
        &["OK"],
    );
    let list = run(tar, &["-tvzf", &name, "--numeric-owner"], home.path());
    let list = String::from_utf8(list.stdout).expect("names");
    let folder = name.strip_suffix(".tar.gz").expect("a gzipped archive");
    for line in list.lines() {
        assert!(
            line.contains(" 0/0 ") && line.contains(" 1970-01-01 "),
            "{line}"
        );
        assert!(
            line.contains(&format!(" {folder}/")) || line.ends_with(folder),
            "{line}"
        );
    }
    for file in [
        "torchgauge",
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "SHA256SUMS",
        "suites/smoke.yaml",
        "suites/suites.md",
        "images/torch-2.11.0-cpu.yaml",
        "images/torch-2.11.0-cpu.lock.json",
        "share/zsh/site-functions/_torchgauge",
        "share/bash-completion/completions/torchgauge",
        "share/fish/vendor_completions.d/torchgauge.fish",
        "share/man/man1/torchgauge.1",
        "share/man/man1/torchgauge-bench.1",
    ] {
        let end = format!("{folder}/{file}");
        assert!(
            list.lines().any(|line| line.ends_with(&end)),
            "{file}:\n{list}"
        );
    }

    check(&run(tar, &["-xzf", &name], home.path()), 0, &[]);
    let folder = home.path().join(folder);
    check(
        &run(sha256sum, &["--check", "SHA256SUMS"], &folder),
        0,
        &["OK"],
    );
    let program = folder.join("torchgauge");
    check(&run(&program, &["--version"], &folder), 0, &["torchgauge "]);
    check(
        &run(&program, &["scenarios", "list"], &folder),
        0,
        &["smoke"],
    );
    let own = ["scenarios", "check", "suites/smoke.yaml"];
    check(&run(&program, &own, &folder), 0, &[]);
    check(
        &run(&program, &["dist"], &folder),
        2,
        &["no checkout of Torchgauge"],
    );

    let mut bytes = fs::read(&archive).expect("the archive");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).expect("the archive");
    let refused = run(sha256sum, &["--check", &sums], home.path());
    check(&refused, 1, &["FAILED"]);
    assert_ne!(
        run(tar, &["-xzf", &name], home.path()).status.code(),
        Some(0)
    );
}

/// The minor version of the newest glibc that the program of these tests asks for.
fn newest_glibc() -> u32 {
    let objdump = Command::new("objdump")
        .args(["-T", env!("CARGO_BIN_EXE_torchgauge")])
        .output();
    let symbols = objdump.expect("objdump runs").stdout;
    let symbols = String::from_utf8_lossy(&symbols);
    let versions = symbols.split("GLIBC_2.").skip(1);
    let minor = |text: &str| {
        text.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    versions.filter_map(minor).max().unwrap_or(0).max(17)
}

/// Installed as the GitLab template does it, without an index: a program and a module that need no
/// checkout. The platform of its name is that of the program in it.
#[test]
fn the_wheel_installs_without_a_network_the_program_and_the_module() {
    let home = tempfile::tempdir().expect("a folder");
    archive(home.path());
    let entries = fs::read_dir(home.path()).expect("a folder").flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let wheel = names
        .find(|name| Path::new(name).extension() == Some("whl".as_ref()))
        .expect("a wheel");
    let platform = format!("manylinux_2_{}_x86_64", newest_glibc());
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        wheel,
        format!("torchgauge-{version}-py3-none-{platform}.whl")
    );
    let sums = format!("{wheel}.sha256");
    let sha256sum = Path::new("sha256sum");
    check(
        &run(sha256sum, &["--check", &sums], home.path()),
        0,
        &["OK"],
    );

    let template = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/gitlab.yml"));
    let template = template.expect("the template");
    let (_, job) = template.split_once("\n---\n").expect("two documents");
    let job = strict_yaml::Document::from_text("gitlab.yml", job).expect("a job");
    let lines = job.value()["torchgauge"]["before_script"].clone();
    let lines = lines.as_array().expect("commands").iter();
    let mut lines: Vec<&str> = lines.filter_map(serde_json::Value::as_str).collect();
    lines.push("command -v torchgauge; torchgauge --version");
    let output = Command::new("bash")
        .args(["-euc", &lines.join("\n")])
        .current_dir(home.path())
        .env("INSTALL", &wheel)
        .env("PIP_NO_INDEX", "1")
        .output()
        .expect("bash runs");
    check(&output, 0, &[".torchgauge/bin/torchgauge\ntorchgauge "]);

    let prefix = home.path().join(".torchgauge");
    let bin = prefix.join("bin");
    let program = bin.join("torchgauge");
    let doctor = run(&program, &["doctor"], home.path());
    assert!(matches!(doctor.status.code(), Some(0 | 4)), "{doctor:?}");
    let bench = ["bench", "--suite", "smoke", "--device", "cpu", "--dry-run"];
    let bench = [&bench[..], &["--engine", "mock:"]].concat();
    check(
        &run(&program, &bench, home.path()),
        0,
        &["nothing was started"],
    );
    let module = "import torchgauge; print(torchgauge.__file__, torchgauge.__version__)";
    let said = run(&bin.join("python3"), &["-c", module], home.path());
    check(&said, 0, &["site-packages/torchgauge.py", version]);
    assert!(prefix.join("share/man/man1/torchgauge-bench.1").is_file());
    // pip compares each file with the list of the wheel.
    let pip = bin.join("pip");
    check(
        &run(&pip, &["show", "--files", "torchgauge"], home.path()),
        0,
        &["bin/torchgauge"],
    );
    let remove = ["uninstall", "--yes", "torchgauge"];
    check(
        &run(&pip, &remove, home.path()),
        0,
        &["Successfully uninstalled"],
    );
    assert!(!program.exists());
}

#[test]
fn what_is_not_this_program_is_not_packed() {
    let home = tempfile::tempdir().expect("a folder");
    let script = home.path().join("script");
    fs::write(&script, "#!/bin/sh\n").expect("a file");
    let out = home.path().join("out");
    for (program, code, expected) in [
        (Path::new("/bin/true"), 2, "is no `torchgauge`"),
        (&script, 4, "cannot start"),
        (&home.path().join("absent"), 2, "absent"),
    ] {
        check(&dist(program, &out), code, &[expected]);
        assert_eq!(fs::read_dir(&out).expect("a folder").count(), 0);
    }
}
