//! A tiny image out of nothing, an engine to run it, and both cleaned up.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use engine::{Container, ContainerSpec, Endpoint, Engine, Exit, Owner};
use futures_util::stream;
use sha2::{Digest as _, Sha256};

/// Label of everything that these tests make.
pub(crate) const LABEL: &str = "org.torchgauge.engine-test";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// An engine, an image of one test's own in it, and a scratch folder.
pub(crate) struct Bed {
    pub(crate) engine: Engine,
    pub(crate) image: String,
    pub(crate) session: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Bed {
    /// # Panics
    /// Where no engine answers: engine tests never skip. The message says what was
    /// tried and how to start one.
    pub(crate) async fn new() -> Self {
        let engine = connect().await;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let session = format!("engine-test-{}-{number}", std::process::id());
        let image = format!("torchgauge-engine-test:{}-{number}", std::process::id());
        let archive = archive(&image, &session);
        engine
            .load(chunks(&archive), |_| {})
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        Self {
            engine,
            image,
            session,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A hardened container that runs the probe.
    pub(crate) fn spec(&self, words: &[&str]) -> ContainerSpec {
        let mut labels = Owner::this_process(&self.session, "run").labels();
        labels.insert(LABEL.to_owned(), self.session.clone());
        ContainerSpec {
            image: self.image.clone(),
            command: ["/probe"]
                .iter()
                .chain(words)
                .map(|word| (*word).to_owned())
                .collect(),
            labels,
            ..Default::default()
        }
    }

    pub(crate) async fn start(&self, spec: &ContainerSpec) -> Container {
        let mut container = self
            .engine
            .create(spec)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        container.start().await.unwrap_or_else(|e| panic!("{e}"));
        container
    }

    /// Runs to the end, and gives the exit and the output.
    pub(crate) async fn run(&self, spec: &ContainerSpec) -> (Exit, String) {
        let container = self.start(spec).await;
        let exit = container
            .wait(Duration::from_mins(2))
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        let log = self.folder.path().join("log");
        container
            .save_logs(&log, 16 << 20)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        container.remove().await.unwrap_or_else(|e| panic!("{e}"));
        (exit, std::fs::read_to_string(log).unwrap())
    }

    /// Whether the engine has an init process to give.
    pub(crate) async fn has_init(&self) -> bool {
        let container = self.start(&self.spec(&["exit", "0"])).await;
        let has_init = container.fallbacks().iter().all(|one| one.what != "init");
        container.remove().await.unwrap();
        has_init
    }

    pub(crate) async fn containers_left(&self) -> Vec<engine::Leftover> {
        self.engine
            .list_containers(&format!("{LABEL}={}", self.session))
            .await
            .unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // A runtime of its own: the test's may be unwinding.
        let (engine, image) = (self.engine.clone(), self.image.clone());
        let cleaning = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(async move {
                    let _ = engine.cleanup().await;
                    let _ = engine.untag(&image).await;
                });
        });
        let _ = cleaning.join();
    }
}

/// The engine that the docker command would use, or `TORCHGAUGE_TEST_ENGINE`.
pub(crate) async fn connect() -> Engine {
    let endpoint = match std::env::var("TORCHGAUGE_TEST_ENGINE") {
        Ok(address) => Endpoint::parse(&address).unwrap_or_else(|error| panic!("{error}")),
        Err(_) => Endpoint::Auto,
    };
    Engine::connect(&endpoint)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn chunks(
    archive: &[u8],
) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static + use<> {
    let chunks: Vec<io::Result<Bytes>> = archive
        .chunks(1 << 16)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    stream::iter(chunks)
}

/// A docker-archive: one layer with the probe in it.
pub(crate) fn archive(tag: &str, label: &str) -> Vec<u8> {
    let probe = std::fs::read(probe()).unwrap();
    let layer = tar(&[("probe", &probe, 0o755)]);
    let diff_id = format!("sha256:{}", hex(&layer));
    let labels = BTreeMap::from([(LABEL, label)]);
    let config = serde_json::json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {
            "Env": ["PATH=/", "GREETING=hello"],
            "Labels": labels,
            "Healthcheck": {
                "Test": ["CMD", "/probe", "write", "/results", "forged"],
                "Interval": 100_000_000,
            },
            "Volumes": {"/data": {}},
        },
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created_by": "engine tests"}],
    })
    .to_string();
    let name = format!("{}.json", hex(config.as_bytes()));
    let manifest =
        serde_json::json!([{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}])
            .to_string();
    tar(&[
        (&name, config.as_bytes(), 0o644),
        ("layer.tar", &layer, 0o644),
        ("manifest.json", manifest.as_bytes(), 0o644),
    ])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn tar(files: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content, mode) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        tar.append_data(&mut header, name, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

/// The probe, compiled once a test process.
fn probe() -> &'static Path {
    static PROBE: OnceLock<PathBuf> = OnceLock::new();
    PROBE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/probe.rs");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = target.join(format!("probe-{}", std::process::id()));
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc)
            .args([
                "--edition=2024",
                "-Copt-level=1",
                "-Cstrip=symbols",
                "-Ctarget-feature=+crt-static",
            ])
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .output()
            .expect("rustc runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // One name for all: test processes do not pile up binaries.
        let settled = target.join("probe");
        std::fs::rename(program, &settled).unwrap();
        settled
    })
}
