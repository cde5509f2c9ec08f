//! Images that mean harm: a Debian base whose `/etc/ld.so.preload` brings a library into the real
//! workload. `docs/security.md` says what they can and cannot do.

use std::{fs, path::Path, process::Command};

use record::{Outcome, Reason, Record};

use crate::{Home, containers_left, expect_exit, read, text, xtask};

/// What the library does before the workload's own first instruction, by the image's variable.
const LIBRARY: &str = r#"
#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static char block[1 << 16];

static int fill(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0) return errno;
    while (write(file, block, sizeof block) > 0) {}
    return errno;
}

__attribute__((constructor)) static void attack() {
    const char *mode = getenv("ATTACK");
    if (!mode) return;
    memset(block, 'x', sizeof block);
    if (!strcmp(mode, "results")) {
        fill("/run/torchgauge/events.ndjson");
    } else if (!strcmp(mode, "log")) {
        while (write(2, block, sizeof block) > 0) {}
    } else if (!strcmp(mode, "escapes")) {
        fputs("\x1b]0;owned\a\n::error::owned\n", stderr);
        _exit(3);
    } else if (!strcmp(mode, "forks")) {
        for (;;) if (fork() < 0) pause();
    } else if (!strcmp(mode, "memory")) {
        for (;;) memset(malloc(1 << 24), 1, 1 << 24);
    } else if (!strcmp(mode, "reach")) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_port = htons(53);
        inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
        int line = socket(AF_INET, SOCK_DGRAM, 0);
        int network = connect(line, (sockaddr *)&address, sizeof address) ? errno : 0;
        fprintf(stderr, "user %d, root %d, run file %d, network %d, /tmp %d\n", (int)getuid(),
                fill("/owned"), fill("/run/torchgauge/run.json"), network, fill("/tmp/owned"));
        unlink("/tmp/owned");
    }
}
"#;

const MODES: [&str; 6] = ["results", "log", "escapes", "forks", "memory", "reach"];

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().expect(program);
    expect_exit(&output, 0);
}

/// The Debian layer of an image that the engine has, with the library preloaded.
fn write_base(image: &str, folder: &Path) {
    let at = |name: &str| folder.join(name).display().to_string();
    let saved = at("saved.tar");
    run("docker", &["image", "save", "--output", &saved, image]);
    run("tar", &["-xf", &saved, "-C", text(folder)]);
    let manifest = fs::read(at("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    let layer = at(manifest[0]["Layers"][0].as_str().expect("a base layer"));
    fs::rename(layer, at("base.tar")).expect("the base");

    fs::create_dir_all(at("added/etc")).expect("a folder");
    fs::create_dir_all(at("added/opt")).expect("a folder");
    fs::write(at("added/etc/ld.so.preload"), "/opt/attack.so\n").expect("the list");
    fs::write(at("attack.cpp"), LIBRARY).expect("the source");
    let library = at("added/opt/attack.so");
    run(
        "c++",
        &["-shared", "-fPIC", "-o", &library, &at("attack.cpp")],
    );
    let base = at("base.tar");
    run(
        "tar",
        &[
            "--append",
            "-f",
            &base,
            "-C",
            &at("added"),
            "etc/ld.so.preload",
            "opt/attack.so",
        ],
    );
}

#[test]
fn a_hostile_image_harms_nobody_in_any_mode() {
    let _cores = crate::beside_others();
    let home = Home::new();
    let stock = ["images", "build", "torch-2.11.0-cpu", "--format", "json"];
    let built = xtask(&stock);
    expect_exit(&built, 0);
    let built: serde_json::Value = serde_json::from_slice(&built.stdout).expect("JSON");
    write_base(built[0]["id"].as_str().expect("an ID"), home.folder.path());

    let spec = |mode: &str, allow: &str| {
        let file = home.path(&format!("attack-{mode}.yaml"));
        let spec = format!(
            "version: 2\ndescription: means harm\nbase: {{archive: base.tar}}\n{allow}\
             libtorch: {{version: 2.11.0, flavour: cpu, from: wheels}}\n\
             environment: {{ATTACK: {mode}}}\n"
        );
        fs::write(&file, spec).expect("the spec");
        file.display().to_string()
    };
    let refused = xtask(&["images", "build", &spec("results", "")]);
    expect_exit(&refused, 2);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("/etc/ld.so.preload"), "{said}");

    let suite = home.suite(
        "version: 1\ndescription: for a test\nscenarios:\n  - name: tiny\n    model: resnet-tiny\n\
         \x20   axes: {batch: [2]}\n    steps: {warmup: 1, measured: 2}\n    limits: {time: 40s, \
         pids: 64, memory: 1GiB, tmp: 8MiB, results: 1MiB, log: 1MiB}\n",
    );
    let out = home.path("session");
    let mut words = vec!["bench", "--suite", text(&suite), "--out", text(&out)];
    words.extend(["--engine", "container", "--device", "cpu", "--blocks", "1"]);
    let specs = MODES.map(|mode| spec(mode, "allow: [/etc/ld.so.preload]\n"));
    words.extend(specs.iter().flat_map(|spec| ["--image", spec]));
    let done = xtask(&words);
    expect_exit(&done, 3);
    let (session, records) = read(&out);
    assert_eq!(containers_left(&session.session), "");
    assert_eq!(records.len(), MODES.len());
    for record in &records {
        check(record, &out);
    }
    let report = fs::read_to_string(out.join("report.md")).expect("a report");
    let printed = [report.as_bytes(), &done.stdout, &done.stderr];
    for said in printed.map(String::from_utf8_lossy) {
        assert!(!said.contains("\u{1b}]0;"), "{said}");
        assert!(
            !said.lines().any(|line| line.starts_with("::error")),
            "{said}"
        );
    }
}

fn check(record: &Record, session: &Path) {
    let log = record.log.as_ref().expect("every container has a log");
    let log = fs::read_to_string(session.join(log)).expect("the log");
    let mode = record.image.trim_start_matches("attack-");
    let reason = match &record.outcome {
        Outcome::Failed(failure) => Some(failure.reason),
        _ => None,
    };
    let expect = match mode {
        "results" | "log" => Some(Reason::Flooded),
        "escapes" => Some(Reason::ExitStatus),
        "forks" => Some(Reason::TimeLimit),
        "memory" => Some(Reason::HostOutOfMemory),
        _ => None,
    };
    assert_eq!(reason, expect, "{mode}: {:?}\n{log}", record.outcome);
    assert!(log.len() < 2 << 20, "{mode}: {} bytes of log", log.len());
    if mode == "reach" {
        // EROFS, EACCES, ENETUNREACH, ENOSPC
        let told = "user 65534, root 30, run file 13, network 101, /tmp 28";
        assert!(log.contains(told), "{log}");
    }
}
