//! What is refused before anything is made ready, and a terminal that goes away.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    path::Path,
};

use rustix::process::Signal;

use crate::support::{Home, outcomes};

#[test]
fn folders_that_cannot_hold_a_session_are_refused_at_once() {
    let home = Home::new();
    fs::write(home.path("file"), "precious").expect("a file");
    home.bench("held", "", &["--device=cpu"]).ends_with(0);
    fs::create_dir(home.path("taken")).expect("a folder");
    fs::write(home.path("taken/records.ndjson"), "precious").expect("a file");
    fs::create_dir(home.path("empty")).expect("a folder");
    std::os::unix::fs::symlink(home.path("empty"), home.path("link")).expect("a link");
    std::os::unix::fs::symlink(home.path("gone"), home.path("nowhere")).expect("a link");
    for (name, why) in [
        ("a,b", "a comma"),
        ("file", "is a file"),
        ("file/below/it", "file is a file"),
        ("held", "already holds a session"),
        ("taken", "has `records.ndjson` in it"),
        ("link", "is a link"),
        ("nowhere", "is a link"),
        (&"long".repeat(70), "a name that is too long"),
    ] {
        let text = home.bench(name, "", &["--device=cpu"]).ends_with(2);
        assert!(text.contains(why), "{text}");
        assert!(
            !text.contains("runs execute"),
            "nothing was made ready: {text}"
        );
    }
    assert!(!home.path("a,b").exists());
    for file in ["file", "taken/records.ndjson"] {
        assert_eq!(fs::read_to_string(home.path(file)).unwrap(), "precious");
    }
    assert_eq!(fs::read_dir(home.path("empty")).unwrap().count(), 0);
}

/// An engine that answers and says that it runs under another kernel, as one behind a forwarded
/// socket does.
fn engine_elsewhere(socket: &Path) {
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let reader = BufReader::new(stream.try_clone().expect("a copy"));
            // The whole head: what is left unread when a connection closes resets it.
            let head: Vec<String> = reader
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let Some(request) = head.first() else {
                continue;
            };
            let body = if request.contains("/info") {
                r#"{"Name": "node-7", "KernelVersion": "1.2.3-other"}"#
            } else {
                r#"{"Version": "28.5.0", "ApiVersion": "1.41"}"#
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).expect("an answer");
        }
    });
}

#[test]
fn an_engine_on_another_machine_is_refused_and_nothing_takes_its_place() {
    let home = Home::new();
    let socket = home.path("engine.sock");
    engine_elsewhere(&socket);
    let unix = format!("unix://{}", socket.display());
    let remote = [
        "only Unix sockets are supported",
        "run torchgauge on the engine's machine",
    ];
    for (address, words) in [
        (
            unix.as_str(),
            ["another machine, node-7", "run torchgauge on node-7 itself"],
        ),
        ("ssh://ci@node-7", remote),
        ("tcp://127.0.0.1:2375", remote),
    ] {
        for choice in ["auto", "docker"] {
            let line = format!(
                "DOCKER_HOST={address} cargo xtask bench --device cpu --suite {} --engine {choice} \
                 --out s",
                home.path("suite.yaml").display()
            );
            let said = home.shell("s", &line).ends_with(2);
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
            assert!(!said.contains("runs execute"), "{said}");
            assert!(!home.path("bin/s").exists());
        }
    }
}

#[test]
fn a_connection_that_is_lost_cleans_up_as_ctrl_c_does() {
    let home = Home::new();
    let running = home.bench("s", "0001=sleep:60000", &["--device=cpu"]);
    running.until_records(1);
    running.until_it_runs();
    running.signal(Signal::HUP);
    running.ends_with(3);
    let (session, records) = home.read("s");
    assert!(!session.complete && session.ended_at.is_some());
    let ends: Vec<_> = outcomes(&records)
        .into_iter()
        .map(|(.., end)| end)
        .collect();
    assert_eq!(ends, ["ok", "interrupted"]);
    assert!(!home.path("s/work").exists(), "a run's folder was left");
}
