//! A container of the program's own image, as `dist` packs it, with an engine's socket: no shell, no
//! cargo, no Python, no network. Images come to it out of an archive, and by the digest that they
//! were pushed under.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use record::{Outcome, Record};

use crate::{
    Home, expect_exit, read,
    registry::{Registry, Trust},
    text, xtask,
};

/// Where the archive comes from that is tried: of the compiled release, where it is named, else of
/// the program that these tests run.
const ARCHIVE: &str = "TORCHGAUGE_TEST_DIST";

/// The archive of the program's image, beside the one that people unpack.
fn packed(home: &Home) -> PathBuf {
    let archive = if let Some(archive) = std::env::var_os(ARCHIVE) {
        let archive = PathBuf::from(archive);
        // The release starts on RHEL 7 and whatever is newer.
        let tar = Command::new("tar")
            .args(["-xzf", text(&archive), "--strip-components=1"])
            .args(["-C", text(&home.path("."))])
            .status();
        assert!(tar.expect("tar runs").success());
        let glibc = images::glibc_needed(&home.path("torchgauge")).expect("an ELF file");
        let glibc = glibc.expect("linked to glibc");
        assert!((glibc.major, glibc.minor) <= (2, 17), "{glibc}");
        archive
    } else {
        let program = home.path("stripped");
        let strip = Command::new("strip")
            .args([env!("CARGO_BIN_EXE_torchgauge"), "-o", text(&program)])
            .status();
        assert!(strip.expect("strip runs").success());
        let out = home.path("archives");
        let program = ["dist", "--program", text(&program)];
        let output = xtask(&[&program[..], &["--image", "--out", text(&out)]].concat());
        expect_exit(&output, 0);
        let said = String::from_utf8_lossy(&output.stdout);
        PathBuf::from(said.split_whitespace().next().expect("a path"))
    };
    let name = text(&archive).strip_suffix(".tar.gz");
    PathBuf::from(format!("{}-image.tar", name.expect("a gzipped archive")))
}

/// An engine by its socket, and the name that the container's image has in it.
struct Runner<'a> {
    home: &'a Home,
    client: &'static str,
    socket: &'a str,
    image: String,
}

impl Runner<'_> {
    /// The engine's own client: Podman does not answer Docker's where a container is watched.
    fn client(&self) -> Command {
        let mut client = Command::new(self.client);
        let option = match self.client {
            "docker" => "--host",
            _ => "--url",
        };
        client.args([option, &format!("unix://{}", self.socket)]);
        client
    }

    /// The program in a fresh container of its image. What it writes for runs lies where the engine's
    /// machine has it, too; by its name it is the same machine each time.
    fn run(&self, words: &[&str]) -> Output {
        let home = self.home.path("");
        let home = text(&home).trim_end_matches('/');
        let mut client = self.client();
        client
            .args(["run", "--rm", "--network", "none", "--hostname", "runner"])
            // What Podman gives by default may be more than the machine allows.
            .args([
                "--ulimit",
                "nofile=1024:1024",
                "--ulimit",
                "nproc=1024:1024",
            ])
            .args(["--workdir", home])
            .args(["--volume", &format!("{home}:{home}")])
            .args(["--volume", &format!("{0}:{0}", self.socket)])
            .args(["--env", &format!("DOCKER_HOST=unix://{}", self.socket)])
            .args(["--env", &format!("HOME={home}/user")])
            .arg(&self.image)
            .args(words);
        client.output().expect("the engine's client runs")
    }
}

fn a_bare_container_measures(client: &'static str, socket: &str) {
    let home = Home::new();
    let runner = Runner {
        home: &home,
        client,
        socket,
        image: concat!("torchgauge:", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let load = |archive: &Path| {
        let load = ["image", "load", "--quiet", "--input", text(archive)];
        expect_exit(&runner.client().args(load).output().expect("a client"), 0);
    };
    load(&packed(&home));
    let spec = home.path("packed.yaml");
    let text_of_spec = "version: 1\ndescription: for a test\nbase: debian\n\
                        libtorch: {version: 2.11.0, flavour: cpu, from: wheels}\n\
                        environment: {GREETING: packed}\n";
    fs::write(&spec, text_of_spec).expect("the spec");
    let image = home.path("image.tar");
    let export = ["images", "export", text(&spec), "--to", text(&image)];
    let exported = xtask(&export);
    expect_exit(&exported, 0);
    let exported = String::from_utf8_lossy(&exported.stdout);
    let reference = exported.split_once(": ").expect("a reference").1;
    let reference = reference.split(',').next().expect("a reference");
    load(&image);
    let said = |words: &[&str]| {
        let output = runner.run(words);
        expect_exit(&output, 0);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(said(&["--version"]).starts_with("torchgauge "));
    let doctor = said(&["doctor"]);
    assert!(doctor.contains("container"), "{doctor}");
    let remove = |name: &str| {
        let removed = runner.client().args(["image", "rm", name]).output();
        expect_exit(&removed.expect("a client"), 0);
    };
    let (_registry, pushed) = push(&home, client, &spec);
    let sessions = ["one", "two"].map(|name| home.path(name));
    let mut ids = BTreeSet::new();
    for (out, reference) in sessions.iter().zip([reference, &pushed]) {
        let bench = [
            "bench", "--suite", "smoke", "--device", "cpu", "--blocks", "1",
        ];
        let chosen = [
            "--engine",
            "container",
            "--image",
            reference,
            "--out",
            text(out),
        ];
        said(&[&bench[..], &chosen[..]].concat());
        let (session, records) = read(out);
        assert!(session.complete && !records.is_empty());
        for record in &records {
            assert_eq!(record.outcome, Outcome::Ok, "{}", record.run);
            ids.insert(record.image_id.clone().expect("an ID"));
        }
        // The engine tells a container's memory about once a second, and a run may be shorter.
        let told = |record: &Record| record.value("run_container_peak_bytes").is_some();
        assert!(records.iter().any(told), "{records:#?}");
        fs::remove_file(out.join("report.html")).expect("the report");
        said(&["report", text(out)]);
        assert!(out.join("report.html").is_file());
        // The next one finds nothing of it in the engine.
        remove(reference);
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
    let compared = said(&["compare", text(&sessions[0]), text(&sessions[1])]);
    assert!(compared.contains("gated metrics in "), "{compared}");
    remove(&runner.image);
}

/// Pushes an image to a registry that this engine trusts, where the user of the bare container is
/// logged in, and gives the reference to pull it by.
fn push(home: &Home, client: &str, spec: &Path) -> ((Registry, Option<Trust>), String) {
    let login = home.path("user/.docker");
    fs::create_dir_all(&login).expect("a folder");
    // Docker asks a registry of its own machine without TLS, Podman none that it is not told of.
    let (registry, trust) = match client {
        "docker" => (Registry::plain(), None),
        _ => {
            let registry = Registry::guarded();
            registry.log_in(&login, "ci:secret");
            let trust = registry.trusted_by_podman();
            (registry, Some(trust))
        }
    };
    let repository = registry.repository();
    let mut push = Command::new(env!("CARGO_BIN_EXE_torchgauge"));
    push.args(["images", "push", text(spec), "--to", &repository])
        .env("DOCKER_CONFIG", &login);
    match trust {
        None => push.arg("--plain-http"),
        Some(_) => push.env("SSL_CERT_FILE", registry.path("ca.crt")),
    };
    let output = push.output().expect("the program runs");
    expect_exit(&output, 0);
    let said = String::from_utf8_lossy(&output.stdout);
    let mut words = said.split_whitespace();
    let reference = words.find(|word| word.starts_with(&repository));
    let reference = reference.unwrap_or_else(|| panic!("no reference: {said}"));
    assert!(reference.contains("@sha256:"), "{said}");
    ((registry, trust), reference.to_owned())
}

fn socket(address: &str) -> String {
    let path = address.strip_prefix("unix://");
    path.expect("this test mounts the engine's socket; expected unix://PATH")
        .to_owned()
}

#[test]
fn the_packed_program_measures_in_a_bare_container_on_docker() {
    let _cores = crate::beside_others();
    let address = std::env::var("DOCKER_HOST");
    let address = address.unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    a_bare_container_measures("docker", &socket(&address));
}

#[test]
fn the_packed_program_measures_in_a_bare_container_on_podman() {
    let _cores = crate::beside_others();
    let address = std::env::var("TORCHGAUGE_TEST_PODMAN");
    let address = address.unwrap_or_else(|_| "unix:///run/podman/podman.sock".to_owned());
    a_bare_container_measures("podman", &socket(&address));
}
