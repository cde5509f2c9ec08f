//! `images push` and `images pull` with Debian's registry, plain, with TLS and a password, behind a
//! line that is cut, full, and one that lies.

use std::{
    fs,
    io::{Read, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::Value;

use crate::{
    Checkout, check,
    server::{Registry, free_port, run},
    world,
};

/// What one image was pushed as.
fn pushed(command: &mut Command) -> Value {
    let output = check(command.arg("--format=json"), 0, &[]);
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    all.into_iter().next().expect("one image")
}

fn push(checkout: &Checkout, name: &str, to: &str) -> Command {
    let mut command = checkout.command(&["push", name, "--to", to]);
    // Nobody is logged in anywhere.
    command.env("DOCKER_CONFIG", checkout.home.path());
    command
}

#[test]
fn what_is_pushed_is_pulled_by_its_digest() {
    let checkout = Checkout::new("cli-pushed");
    let registry = Registry::plain();
    let to = registry.repository();
    let plain = || {
        let mut command = push(&checkout, "cli-pushed", &to);
        command.arg("--plain-http");
        command
    };
    let before = pushed(plain().arg("--dry-run"));
    assert!(!registry.path("data").exists());
    let first = pushed(&mut plain());
    assert_eq!(first["reference"], before["reference"]);
    assert_eq!(first["sent_bytes"], first["size_bytes"]);
    let again = pushed(&mut plain());
    assert_eq!(again["sent_bytes"], 0);
    // The same image from another machine is the same bytes.
    let other = Checkout::new("cli-pushed");
    let theirs = pushed(push(&other, "cli-pushed", &to).args(["--plain-http", "--dry-run"]));
    assert_eq!(theirs["digest"], first["digest"]);

    checkout.check(&["build", "cli-pushed"], 0, &[]);
    let built = checkout.json(&["inspect", "cli-pushed"], 0);
    checkout.check(&["prune", "cli-pushed"], 0, &["removed"]);
    let reference = first["reference"].as_str().expect("a reference");
    let mut pull = checkout.command(&["pull", reference]);
    let info = run(Command::new("docker").args(["info", "--format", "{{.DriverStatus}}"]));
    let engine = String::from_utf8(info).expect("text");
    if std::env::var("DOCKER_HOST").is_ok_and(|host| host.contains("podman")) {
        // It speaks without TLS to registries alone that its settings name.
        check(&mut pull, 4, &["answers without TLS", "registries.conf"]);
        return;
    }
    let output = check(&mut pull, 0, &[reference]);
    let said = String::from_utf8_lossy(&output.stdout);
    // The ID of an image is that of its configuration, unless the engine's store goes by manifests.
    let id = built["config_id"].as_str().unwrap_or_default();
    assert!(
        said.contains(id) || engine.contains("containerd.snapshotter"),
        "{said}: no {id}"
    );
    let other = reference.replace("sha256:", "sha256:0");
    let other = &other[..other.len() - 1];
    checkout.check(&["pull", other], 4, &[other]);
    run(Command::new("docker").args(["image", "rm", reference]));
}

/// What stands for the workload of a session: it tells what a run of one step of one sample does.
const RUNS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <time.h>
int torch_answer(void);
int main(int count, char **words) {
    static char text[65536];
    FILE *file = fopen(words[1], "r");
    if (count < 3 || !file || fread(text, 1, sizeof text - 1, file) == 0) return 1;
    fclose(file);
    const char *key = "\"run\": \"";
    char *run = strstr(text, key);
    if (!run) return 2;
    run += strlen(key);
    *strchr(run, '"') = 0;
    struct timespec pause = {0, 60000000};
    nanosleep(&pause, NULL);
    file = fopen(words[2], "a");
    if (!file || torch_answer() != 42) return 3;
    fprintf(file, "{\"event\":\"started\",\"version\":4,\"run\":\"%s\",\"scenario_version\":\"0\",\"libtorch_version\":\"2.11.0\",\"threads\":1,\"cuda\":null,\"allocator\":null}\n", run);
    fputs("{\"event\":\"phase-began\",\"phase\":\"measure\"}\n"
          "{\"event\":\"step\",\"index\":0,\"values\":{\"step_seconds\":0.04}}\n"
          "{\"event\":\"finished\",\"values\":{\"micro_batch_samples\":1,\"effective_batch_samples\":1,\"samples_count\":1,\"measured_seconds\":0.05,\"throughput_samples_per_second\":20.0}}\n", file);
    return fclose(file);
}
"#;

/// Sessions beside small images, by the command and the engine that users have.
fn session(checkout: &Checkout, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torchgauge"));
    command
        .args(words)
        .current_dir(checkout.world.path("."))
        .env("XDG_CACHE_HOME", checkout.home.path())
        .env("TORCHGAUGE_HISTORY", checkout.home.path().join("history"));
    command
}

/// A session on the CPU, in containers, with these images.
fn bench(checkout: &Checkout, out: &str, images: &[&str]) -> Command {
    let mut words = vec!["bench", "--suite", "./one.yaml", "--device", "cpu"];
    words.extend(["--engine", "container", "--blocks", "3", "--out", out]);
    let suite = "version: 1\ndescription: d\ndefaults: {steps: {warmup: 0, measured: 1}}\n\
                 scenarios: [{name: a, model: vit-tiny, task: inference}]\n";
    fs::write(checkout.world.path("one.yaml"), suite).expect("a suite");
    words.extend(images.iter().flat_map(|image| ["--image", image]));
    session(checkout, &words)
}

fn images_of(checkout: &Checkout, out: &str) -> Vec<record::ImageFacts> {
    let folder = record::SessionFolder::at(checkout.world.path(out));
    let records = folder.read_records().expect("records").records;
    assert!(records.iter().all(|record| record.outcome.is_ok()));
    folder.read_session().expect("a session").images
}

#[test]
fn versions_out_of_one_repository_are_compared_by_name() {
    let (first, second) = ("cli-named-1", "cli-named-2");
    let checkout = Checkout::new(first);
    checkout.world.program(RUNS);
    checkout.second_spec(second, &world::SPEC.replace("hello", "hi"));
    let registry = Registry::plain();
    let is_podman = std::env::var("DOCKER_HOST").is_ok_and(|host| host.contains("podman"));
    // Podman speaks without TLS to registries alone that its settings name.
    let publish = |name: &str, tag: &str| -> String {
        if is_podman {
            let built = checkout.json(&["build", name, "--format", "json"], 0);
            let id = built[0]["id"].as_str().expect("an ID");
            let reference = format!("localhost/team/images:{tag}");
            run(Command::new("docker").args(["image", "tag", id, &reference]));
            checkout.check(&["prune", name], 0, &["removed"]);
            return reference;
        }
        let mut command = push(&checkout, name, &registry.repository());
        let pushed = pushed(command.arg("--plain-http"));
        pushed["reference"]
            .as_str()
            .expect("a reference")
            .to_owned()
    };
    let references = [publish(first, "1"), publish(second, "2")];
    let [one, other] = references.each_ref().map(String::as_str);

    check(
        &mut bench(&checkout, "two", &[one, other]),
        0,
        &[first, second],
    );
    let images = images_of(&checkout, "two");
    let names: Vec<&str> = images.iter().map(|image| &*image.name).collect();
    assert_eq!(names, [first, second]);
    assert_eq!(images[1].reference.as_deref(), Some(other));
    let sides = [first, second].map(|name| format!("two:{name}"));
    check(
        &mut session(&checkout, &["compare", &sides[0], &sides[1]]),
        0,
        &[first, second, "0 regressed"],
    );
    check(
        &mut session(&checkout, &["bench", "--resume", "two"]),
        0,
        &[],
    );
    let track = [format!("{first}=main"), format!("{second}=next")];
    let add = [
        "history", "add", "two", "--track", &track[0], "--track", &track[1],
    ];
    check(&mut session(&checkout, &add), 0, &["6 runs added"]);

    // Another build of the first spec.
    checkout
        .world
        .spec(&world::SPEC.replace("hello", "good day"));
    let again = publish(first, "3");
    check(&mut bench(&checkout, "builds", &[one, &again]), 0, &[]);
    let images = images_of(&checkout, "builds");
    let sides: Vec<String> = images
        .iter()
        .map(|image| format!("builds:{}", image.name))
        .collect();
    for (image, reference) in images.iter().zip([one, &again]) {
        let short = image.name.strip_prefix("cli-named-1@").expect("a digest");
        assert!(is_podman || reference.contains(short), "{short}");
        assert_eq!(short.len(), 12);
    }
    check(
        &mut session(&checkout, &["compare", &sides[0], &sides[1]]),
        0,
        &[&images[0].name, &images[1].name, "0 regressed"],
    );
    check(
        &mut session(&checkout, &["bench", "--resume", "builds"]),
        0,
        &[],
    );

    // A name that other sessions have for an image stays: it was the repository's.
    let folder = record::SessionFolder::at(checkout.world.path("old"));
    check(&mut bench(&checkout, "old", &[one]), 0, &[]);
    let file = folder.path().join("session.json");
    let text = fs::read_to_string(&file).expect("the session");
    fs::write(&file, text.replace(first, "images")).expect("the session");
    let lines = folder.path().join("records.ndjson");
    let text = fs::read_to_string(&lines).expect("records");
    let kept: Vec<&str> = text.lines().take(1).collect();
    let kept = kept.concat().replace(first, "images") + "\n";
    fs::write(&lines, kept).expect("records");
    check(
        &mut session(&checkout, &["bench", "--resume", "old"]),
        0,
        &[],
    );
    assert_eq!(images_of(&checkout, "old")[0].name, "images");

    // What nobody pinned and nobody loaded is no word of a registry's.
    let unpinned = ["torchgauge/cli-named-1:000000000000"];
    check(
        &mut bench(&checkout, "none", &unpinned),
        2,
        &["pulling needs a digest", "docker load --input FILE"],
    );
    for reference in [one, other, &again] {
        run(Command::new("docker").args(["image", "rm", reference]));
    }
}

#[test]
fn what_is_started_is_what_was_looked_at() {
    let name = "cli-entry";
    let checkout = Checkout::new(name);
    checkout.world.program(RUNS);
    let built = checkout.json(&["build", name, "--format", "json"], 0);
    let dockerfile = format!(
        "FROM {}\nENTRYPOINT [\"/no/such/program\"]\n",
        built[0]["reference"].as_str().expect("a reference")
    );
    let folder = checkout.world.path("derived");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("Dockerfile"), dockerfile).expect("a file");
    let derived = "torchgauge-test/cli-entry:derived";
    run(Command::new("docker")
        .args(["build", "--quiet", "--tag", derived])
        .arg(&folder));
    check(&mut bench(&checkout, "out", &[derived]), 0, &[]);
    assert_eq!(images_of(&checkout, "out")[0].name, name);
    run(Command::new("docker").args(["image", "rm", derived]));
    checkout.check(&["prune", name], 0, &["removed"]);
}

#[test]
fn a_lock_says_what_an_image_is_pulled_by() {
    let name = "cli-push-digest";
    let checkout = Checkout::new(name);
    let file = checkout.world.path(&format!("images/{name}.lock.json"));
    let in_lock = || {
        let lock: Value = serde_json::from_slice(&fs::read(&file).expect("a lock")).expect("JSON");
        lock["expected"]["image"]["push_digest"].clone()
    };
    let dry = || {
        let mut command = push(&checkout, name, "localhost:1/team/images");
        command.arg("--dry-run");
        command
    };
    checkout.check(&["lock", name], 0, &[]);
    assert_eq!(in_lock(), Value::Null);
    let digest = pushed(&mut dry())["digest"].clone();
    assert_eq!(in_lock(), Value::Null, "a push writes no lock");
    let words = ["lock", "--push-digest", name];
    checkout.check(&words, 0, &[digest.as_str().expect("a digest")]);
    assert_eq!(in_lock(), digest);
    checkout.check(&["lock", "--workload", name], 0, &[]);
    assert_eq!(in_lock(), digest, "the image is the same");
    let told = checkout.json(&["inspect", name], 0);
    assert_eq!(told["locked"]["expected"]["image"]["push_digest"], digest);

    // As of a version that compressed otherwise.
    let json = fs::read(&file).expect("a lock");
    let mut lock = images::lock::Lock::from_json(&file, &json).expect("a lock");
    let image = lock.expected.image.as_mut().expect("an image");
    image.push_digest = Some(images::Digest::of(b"another"));
    lock.sealed().write(&file).expect("a lock");
    let other = in_lock();
    let both = [&digest, &other].map(|digest| digest.as_str().expect("a digest"));
    check(
        &mut dry(),
        2,
        &[both[0], both[1], "lock --workload --push-digest"],
    );
    checkout.check(
        &["lock", "--workload", "--push-digest", name],
        0,
        &[both[0]],
    );
    assert_eq!(pushed(&mut dry())["digest"], digest);

    // An image that is another one has another digest, and the lock's is none of it.
    let spec = checkout.world.path(&format!("images/{name}.yaml"));
    let text = fs::read_to_string(&spec).expect("the spec");
    fs::write(&spec, text.replace("hello", "hi")).expect("the spec");
    checkout.check(&["lock", name], 0, &[]);
    assert_eq!(in_lock(), Value::Null);
    assert_ne!(pushed(&mut dry())["digest"], digest);
}

#[test]
fn a_registry_with_tls_and_a_password() {
    let checkout = Checkout::new("cli-guarded");
    let registry = Registry::guarded();
    let to = registry.repository();
    let command = || push(&checkout, "cli-guarded", &to);
    check(&mut command(), 4, &[&to, "certs.d"]);
    check(command().arg("--plain-http"), 4, &[&to]);
    let authority = registry.path("ca.crt");
    let trusting = || {
        let mut command = command();
        command.env("SSL_CERT_FILE", &authority);
        command
    };
    check(&mut trusting(), 4, &[&to, "docker login"]);
    let log_in = |user: &str| registry.log_in(checkout.home.path(), user);
    log_in("ci:wrong");
    let refused = check(&mut trusting(), 4, &[&to, "docker login"]);
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("wrong"));
    log_in("ci:secret");
    let first = pushed(&mut trusting());

    // By a helper, as `docker login` on a desktop keeps it.
    let helper = checkout.home.path().join("docker-credential-test");
    let says = r#"#!/bin/sh
cat >/dev/null
echo '{"ServerURL":"x","Username":"ci","Secret":"secret"}'
"#;
    fs::write(&helper, says).expect("a helper");
    run(Command::new("chmod").arg("755").arg(&helper));
    let settings = r#"{"credsStore": "test"}"#;
    fs::write(checkout.home.path().join("config.json"), settings).expect("a file");
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", checkout.home.path().display());
    let again = pushed(trusting().env("PATH", &path));
    assert_eq!(again["sent_bytes"], 0);
    fs::write(
        &helper,
        "#!/bin/sh\ncat >/dev/null\necho a secret word\nexit 1\n",
    )
    .expect("a helper");
    let file = checkout.home.path().join("config.json");
    let failed = format!(
        "its credentials: docker-credential-test, which {} names, failed",
        file.display()
    );
    let failed = check(
        trusting().env("PATH", &path),
        4,
        &[&failed, "docker-credential-test get` shows why"],
    );
    assert!(!String::from_utf8_lossy(&failed.stderr).contains("secret word"));
    let host = to.split('/').next().expect("a host");
    let settings = serde_json::json!({"auths": {host: {"identitytoken": "secret word"}}});
    fs::write(&file, settings.to_string()).expect("a file");
    let failed = check(
        &mut trusting(),
        4,
        &[host, "identity token", "docker login"],
    );
    assert!(!String::from_utf8_lossy(&failed.stderr).contains("secret word"));

    // Podman asks with TLS; its user's folder has authorities by registry.
    if std::env::var("DOCKER_HOST").is_ok_and(|host| host.contains("podman")) {
        let _trust = registry.trusted_by_podman();
        log_in("ci:secret");
        let reference = first["reference"].as_str().expect("a reference");
        let mut pull = checkout.command(&["pull", reference]);
        pull.env("DOCKER_CONFIG", checkout.home.path());
        check(&mut pull, 0, &[reference]);
        run(Command::new("docker").args(["image", "rm", reference]));
    }
}

/// A line to a registry, which does something to what goes over it.
fn line(port: u16, line: Line) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("an address").port();
    let line = Arc::new(line);
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                return;
            };
            let line = Arc::clone(&line);
            thread::spawn(move || line.carry(&client, &server));
        }
    });
    own
}

enum Line {
    /// Is cut after so many bytes to the registry, so often.
    Cut(usize, AtomicUsize),
    /// Shows other manifests than it was given.
    Lies,
}

impl Line {
    fn carry(&self, client: &TcpStream, server: &TcpStream) {
        let end = || {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                copy(server, client, |bytes| {
                    if matches!(self, Self::Lies) {
                        let text = String::from_utf8_lossy(bytes);
                        if text.contains("\"schemaVersion\":2") {
                            let other = text.replace("\"schemaVersion\":2", "\"schemaVersion\":3");
                            bytes.copy_from_slice(other.as_bytes());
                        }
                    }
                    true
                });
                end();
            });
            let mut sent = 0;
            copy(client, server, |bytes| {
                sent += bytes.len();
                match self {
                    Self::Cut(after, times) if sent > *after => {
                        let left = times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                            left.checked_sub(1)
                        });
                        left.is_err()
                    }
                    _ => true,
                }
            });
            end();
        });
    }
}

/// Copies as long as `goes_on` says so of what comes.
fn copy(mut from: &TcpStream, mut to: &TcpStream, mut goes_on: impl FnMut(&mut [u8]) -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n) = from.read(&mut buffer)
        && n > 0
        && goes_on(&mut buffer[..n])
        && to.write_all(&buffer[..n]).is_ok()
    {}
}

#[test]
fn a_push_whose_line_is_cut_goes_on() {
    let checkout = Checkout::new("cli-cut");
    let registry = Registry::plain();
    let over = |line_port: u16| {
        let to = format!("localhost:{line_port}/team/images");
        let mut command = push(&checkout, "cli-cut", &to);
        command.arg("--plain-http");
        command
    };
    // Cut again and again: an error, and nothing has the image's name.
    let cut = line(
        registry.port,
        Line::Cut(200_000, AtomicUsize::new(usize::MAX)),
    );
    check(
        &mut over(cut),
        4,
        &["team/images", "trying again in 4s", "check the network"],
    );
    assert!(
        !registry
            .path("data")
            .join("docker/registry/v2/repositories/team/images/_manifests/tags")
            .exists()
    );
    // Cut twice: the same push goes on.
    let twice = line(registry.port, Line::Cut(200_000, AtomicUsize::new(2)));
    check(&mut over(twice), 0, &["trying again in 4s", "sha256:"]);
}

#[test]
fn a_registry_that_lies_or_is_full_is_said() {
    let checkout = Checkout::new("cli-liar");
    let registry = Registry::plain();
    let liar = line(registry.port, Line::Lies);
    let to = format!("localhost:{liar}/team/images");
    let mut command = push(&checkout, "cli-liar", &to);
    check(
        command.arg("--plain-http"),
        4,
        &[&to, "sha256:", "changes what it is given"],
    );

    let full = Registry::full(64);
    let to = full.repository();
    let mut command = push(&checkout, "cli-liar", &to);
    check(
        command.arg("--plain-http"),
        4,
        &[&to, "file too large", "push again"],
    );

    // A compressed layer that rotted in the cache is found before it is sent, and made again.
    let pushed = checkout.home.path().join("torchgauge/pushed");
    let layers = fs::read_dir(pushed).expect("the cache").count();
    for entry in fs::read_dir(checkout.home.path().join("torchgauge/pushed")).expect("the cache") {
        let blob = entry.expect("a layer").path().join("blob");
        let mut bytes = fs::read(&blob).expect("a blob");
        let place = bytes.len() / 2;
        bytes[place] ^= 1;
        fs::write(&blob, bytes).expect("another blob");
    }
    let fresh = Registry::plain();
    let over = || {
        let mut command = push(&checkout, "cli-liar", &fresh.repository());
        command.arg("--plain-http");
        command
    };
    for _ in 0..layers {
        check(&mut over(), 4, &["damaged in the cache", "Run again"]);
    }
    check(&mut over(), 0, &["sha256:"]);

    let nowhere = format!("localhost:{}/team/images", free_port());
    check(&mut push(&checkout, "cli-liar", &nowhere), 4, &[&nowhere]);
    check(
        &mut push(&checkout, "cli-liar", "team/images"),
        2,
        &["names no registry"],
    );
    assert!(Path::new(&checkout.home.path().join("torchgauge/pushed")).exists());
}
