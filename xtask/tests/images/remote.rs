//! The engine of these tests, reached as one on another machine is: by TCP, by TLS, through SSH.

use std::{
    fs, io,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{Checkout, check, server::free_port};

/// The socket of the engine that these tests use.
fn socket() -> String {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    let socket = host.strip_prefix("unix://").map(str::to_owned);
    socket.unwrap_or_else(|| "/var/run/docker.sock".to_owned())
}

/// Builds into the engine, looks for the image there by its socket, and loads it anew.
#[track_caller]
fn builds_and_loads(image: &str, reach: &dyn Fn(&mut Command)) {
    let checkout = Checkout::new(image);
    let command = |words: &[&str]| {
        let mut command = checkout.command(words);
        reach(&mut command);
        command
    };
    let named = format!("torchgauge/{image}:");
    check(&mut command(&["build", image]), 0, &[&named]);
    let listed = checkout.json(&["list", "--format", "json"], 0);
    assert_eq!(
        listed[0]["engines"].as_array().unwrap().len(),
        1,
        "{listed}"
    );
    let archive = checkout.home.path().join("image.tar");
    let archive = archive.to_str().unwrap();
    checkout.check(&["export", image, "--to", archive], 0, &[]);
    check(&mut command(&["prune", image]), 0, &["removed"]);
    check(&mut command(&["load", archive]), 0, &[&named]);
    check(&mut command(&["prune", image]), 0, &["removed"]);
}

#[test]
fn an_engine_is_built_into_and_loaded_by_tcp() {
    let host = format!("tcp://127.0.0.1:{}", forwarded(socket()));
    builds_and_loads("cli-tcp", &|command| {
        command.env("DOCKER_HOST", &host);
    });
}

#[test]
fn an_engine_is_built_into_and_loaded_by_tls() {
    let guard = TlsGuard::start();
    builds_and_loads("cli-tls", &|command| guard.reach(command, "certificates"));

    // Without a certificate that the engine's machine knows, nobody gets in.
    let checkout = Checkout::new("cli-tls-refused");
    let refused = |certificates: &str, expected: &[&str]| {
        let mut command = checkout.command(&["build", "cli-tls-refused"]);
        guard.reach(&mut command, certificates);
        check(&mut command, 4, expected);
    };
    refused(
        "strangers",
        &[
            "tcp://localhost:",
            "UnknownCA",
            "Check that an engine answers",
        ],
    );
    refused("nothing", &["cannot read", "ca.pem", "DOCKER_CERT_PATH"]);
}

#[test]
fn an_engine_is_built_into_and_loaded_through_ssh() {
    let server = SshServer::start();
    let (host, path) = (server.address(&socket()), server.path());
    let reach = |command: &mut Command| {
        command.env("DOCKER_HOST", &host).env("PATH", &path);
    };
    builds_and_loads("cli-ssh", &reach);
    assert_eq!(server.forwarding(), 0, "an ssh outlived its command");

    let checkout = Checkout::new("cli-ssh-away");
    let away = server.address("/nowhere/docker.sock");
    let mut command = checkout.command(&["build", "cli-ssh-away"]);
    command.env("PATH", &path).env("DOCKER_HOST", &away);
    check(&mut command, 4, &["ssh://", "Check that an engine answers"]);
    let stranger = format!("ssh://{}@127.0.0.1:{}", user(), free_port());
    check(
        command.env("DOCKER_HOST", &stranger),
        4,
        &["ssh ended", "Connection refused"],
    );
}

#[test]
fn a_session_stays_off_engines_on_other_machines() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("suite.yaml");
    fs::write(
        &suite,
        "version: 1\ndescription: x\nscenarios: [{name: a, model: resnet-tiny, axes: {batch: 2}}]\n",
    )
    .unwrap();
    for (host, code, expected) in [
        // Nothing listens there, and this machine does not step in.
        ("ssh://127.0.0.9:9", 4, "ssh://127.0.0.9:9"),
        ("ssh://-oProxyCommand=true", 2, "not an address for SSH"),
        ("tcp://engine", 2, "no port"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_torchgauge"));
        command
            .args(["bench", "--device", "cpu", "--suite"])
            .arg(&suite)
            .current_dir(&folder)
            .env("DOCKER_HOST", host)
            .env_remove("CI");
        check(&mut command, code, &[expected]);
    }
}

/// A port that leads to a socket.
fn forwarded(socket: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let Ok(engine) = UnixStream::connect(&socket) else {
                return;
            };
            let (from, to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
            thread::spawn(move || {
                let _ = io::copy(&mut &from, &mut &to);
                let _ = to.shutdown(Shutdown::Write);
            });
            thread::spawn(move || {
                let _ = io::copy(&mut &engine, &mut &client);
                let _ = client.shutdown(Shutdown::Write);
            });
        }
    });
    port
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

#[track_caller]
fn until_open(port: u16, what: &str) {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Ends a process with what it stands for.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that leads to the engine for whoever has a certificate of its authority, as
/// `dockerd --tlsverify` does.
struct TlsGuard {
    folder: tempfile::TempDir,
    port: u16,
    _process: Ended,
}

const TLS_TO_SOCKET: &str = r#"
import socket, ssl, sys, threading
port, folder, engine = int(sys.argv[1]), sys.argv[2], sys.argv[3]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder + "/ca.pem")
context.verify_mode = ssl.CERT_REQUIRED
context.load_cert_chain(folder + "/server-cert.pem", folder + "/server-key.pem")

def pump(source, to, ends):
    try:
        while piece := source.recv(65536):
            to.sendall(piece)
    except OSError:
        pass
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True)
    except OSError:
        return
    there = socket.socket(socket.AF_UNIX)
    there.connect(engine)
    threading.Thread(target=pump, args=(client, there, ()), daemon=True).start()
    pump(there, client, (client, there))

listener = socket.create_server(("127.0.0.1", port))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

impl TlsGuard {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let make = |words: &str| {
            let words = words.replace("DIR", &folder.path().display().to_string());
            run(Command::new("openssl").args(words.split_whitespace()));
        };
        fs::write(
            folder.path().join("names"),
            "subjectAltName=DNS:localhost\n",
        )
        .unwrap();
        for who in ["certificates", "strangers"] {
            fs::create_dir(folder.path().join(who)).unwrap();
            make(&format!(
                "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={who} -keyout DIR/{who}/ca.key \
                 -out DIR/{who}/ca.pem"
            ));
        }
        for (certificate, key, of, more) in [
            (
                "server-cert.pem",
                "server-key.pem",
                "certificates",
                "-extfile DIR/names",
            ),
            (
                "certificates/cert.pem",
                "certificates/key.pem",
                "certificates",
                "",
            ),
            ("strangers/cert.pem", "strangers/key.pem", "strangers", ""),
        ] {
            make(&format!(
                "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout DIR/{key} -out DIR/request"
            ));
            make(&format!(
                "x509 -req -in DIR/request -CA DIR/{of}/ca.pem -CAkey DIR/{of}/ca.key -days 2 {more} \
                 -CAcreateserial -out DIR/{certificate}"
            ));
        }
        let own = folder.path().join("certificates/ca.pem");
        fs::copy(&own, folder.path().join("ca.pem")).unwrap();
        // A stranger knows whom to believe, and is not known.
        fs::copy(own, folder.path().join("strangers/ca.pem")).unwrap();
        let port = free_port();
        let process = Command::new("python3")
            .args(["-c", TLS_TO_SOCKET, &port.to_string()])
            .arg(folder.path())
            .arg(socket())
            .stdin(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let process = Ended(process);
        until_open(port, "the guard did not start");
        Self {
            folder,
            port,
            _process: process,
        }
    }

    fn reach(&self, command: &mut Command, certificates: &str) {
        command
            .env("DOCKER_HOST", format!("tcp://localhost:{}", self.port))
            .env("DOCKER_TLS_VERIFY", "1")
            .env("DOCKER_CERT_PATH", self.folder.path().join(certificates));
    }
}

/// Who runs the tests.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// OpenSSH's server with a key that it knows.
struct SshServer {
    folder: tempfile::TempDir,
    port: u16,
    _process: Ended,
}

impl SshServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (path, port) = (folder.path(), free_port());
        for key in ["host", "user"] {
            let file = path.join(key);
            run(Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(file));
        }
        fs::copy(path.join("user.pub"), path.join("authorized")).unwrap();
        let shown = path.display();
        fs::write(
            path.join("sshd"),
            format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {shown}/host\nPidFile none\n\
                 AuthorizedKeysFile {shown}/authorized\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
            ),
        )
        .unwrap();
        // What the user's own configuration is for the `ssh` command.
        fs::write(
            path.join("config"),
            format!("IdentityFile {shown}/user\nUserKnownHostsFile {shown}/known\n"),
        )
        .unwrap();
        let key = fs::read_to_string(path.join("host.pub")).unwrap();
        fs::write(path.join("known"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        fs::create_dir(path.join("bin")).unwrap();
        let ssh = path.join("bin/ssh");
        let real = "for ssh in $(which -a ssh); do [ \"$ssh\" = \"$0\" ] || break; done";
        let script = format!("#!/bin/sh\n{real}\nexec \"$ssh\" -F {shown}/config \"$@\"\n");
        fs::write(&ssh, script).unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
        // Where it wants to be before it lets root in.
        let _ = fs::create_dir_all("/run/sshd");
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-f"])
            .arg(path.join("sshd"))
            .stdin(Stdio::null())
            .spawn()
            .expect("OpenSSH's server is installed (`apt-get install openssh-server`)");
        let process = Ended(process);
        until_open(port, "sshd did not start");
        Self {
            port,
            folder,
            _process: process,
        }
    }

    fn address(&self, socket: &str) -> String {
        format!("ssh://{}@127.0.0.1:{}{socket}", user(), self.port)
    }

    /// A `PATH` whose `ssh` knows this server and its key.
    fn path(&self) -> String {
        let own = self.folder.path().join("bin");
        let usual = std::env::var("PATH").unwrap_or_default();
        format!("{}:{usual}", own.display())
    }

    /// How many `ssh` of this server's configuration run.
    fn forwarding(&self) -> usize {
        let configuration = self.folder.path().join("config");
        let is_ours = |process: &Path| {
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&configuration.display().to_string())
        };
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        processes.filter(|entry| is_ours(&entry.path())).count()
    }
}
