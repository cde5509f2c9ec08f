//! Debian's registry, for tests that push and pull.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Debian's registry, on a port of its own.
pub(crate) struct Registry {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
    process: Child,
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

impl Registry {
    pub(crate) fn plain() -> Self {
        Self::start("", "unlimited", tempfile::tempdir().expect("a folder"))
    }

    /// One that takes files of so many KiB alone.
    pub(crate) fn full(kib: u32) -> Self {
        Self::start(
            "",
            &(kib * 2).to_string(),
            tempfile::tempdir().expect("a folder"),
        )
    }

    /// With TLS by an authority of its own, and the user `ci` whose password is `secret`.
    pub(crate) fn guarded() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let make = |words: &str| {
            let words = words.replace("DIR", &folder.path().display().to_string());
            run(Command::new("openssl").args(words.split_whitespace()));
        };
        make(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -keyout DIR/ca.key -out DIR/ca.crt",
        );
        make("req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout DIR/key -out DIR/request");
        fs::write(path("names"), "subjectAltName=DNS:localhost\n").expect("a file");
        make(
            "x509 -req -in DIR/request -CA DIR/ca.crt -CAkey DIR/ca.key -days 2 -extfile DIR/names \
             -CAcreateserial -out DIR/crt",
        );
        let users = run(Command::new("htpasswd").args(["-Bbn", "ci", "secret"]));
        fs::write(path("users"), users).expect("users");
        let more = format!(
            "  tls: {{certificate: {}, key: {}}}\nauth: {{htpasswd: {{realm: test, path: {}}}}}\n",
            path("crt"),
            path("key"),
            path("users")
        );
        Self::start(&more, "unlimited", folder)
    }

    fn start(more: &str, file_blocks: &str, folder: tempfile::TempDir) -> Self {
        let port = free_port();
        let settings = format!(
            "version: 0.1\nlog: {{level: error}}\n\
             storage: {{filesystem: {{rootdirectory: {}/data}}, delete: {{enabled: true}}}}\n\
             http:\n  addr: 127.0.0.1:{port}\n{more}",
            folder.path().display()
        );
        let file = folder.path().join("settings.yml");
        fs::write(&file, settings).expect("settings");
        let process = Command::new("sh")
            .args([
                "-c",
                "ulimit -f $1; exec docker-registry serve $2",
                "sh",
                file_blocks,
            ])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        let mut registry = Self {
            folder,
            port,
            process,
        };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = registry.process.try_wait().expect("a process");
            assert!(
                ended.is_none() && begun.elapsed() < Duration::from_secs(30),
                "these tests need Debian's registry: apt-get install docker-registry"
            );
            thread::sleep(Duration::from_millis(50));
        }
        registry
    }

    pub(crate) fn repository(&self) -> String {
        format!("localhost:{}/team/images", self.port)
    }

    /// Logs a user in, in a folder that stands for `~/.docker`.
    pub(crate) fn log_in(&self, docker: &Path, user: &str) {
        let host = format!("localhost:{}", self.port);
        let auth = run(Command::new("sh").args(["-c", "printf %s \"$1\" | base64", "sh", user]));
        let auth = String::from_utf8(auth).expect("text");
        let settings = serde_json::json!({"auths": {host: {"auth": auth.trim()}}});
        fs::create_dir_all(docker).expect("a folder");
        fs::write(docker.join("config.json"), settings.to_string()).expect("a file");
    }

    /// Has Podman trust its authority, in its user's folder, until what this gives goes.
    pub(crate) fn trusted_by_podman(&self) -> Trust {
        let home = PathBuf::from(std::env::var_os("HOME").expect("a home"));
        let folder = home.join(".config/containers/certs.d");
        let folder = folder.join(format!("localhost:{}", self.port));
        fs::create_dir_all(&folder).expect("a folder");
        fs::copy(self.path("ca.crt"), folder.join("ca.crt")).expect("a copy");
        Trust { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// An authority among those that Podman trusts.
pub(crate) struct Trust {
    folder: PathBuf,
}

impl Drop for Trust {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[track_caller]
pub(crate) fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; apt-get install docker-registry apache2-utils openssl")
    });
    assert!(output.status.success(), "{command:?}: {output:?}");
    output.stdout
}
