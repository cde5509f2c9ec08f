//! The image of the tests: one static program, so that none is needed from anywhere.

use std::{collections::BTreeMap, fs, io, path::Path, process::Command, sync::OnceLock};

use bench_suite::executors::container::ContainerImage;
use bytes::Bytes;
use engine::Engine;
use futures_util::stream;
use sha2::{Digest as _, Sha256};

/// Its name in the engine.
pub(crate) const NAME: &str = "torchgauge-bench-test:1";

/// Brings it in.
pub(crate) async fn load(engine: &Engine) {
    let archive = archive();
    let chunks: Vec<io::Result<Bytes>> = archive
        .chunks(1 << 16)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    engine
        .load(stream::iter(chunks), |_| {})
        .await
        .unwrap_or_else(|error| panic!("{error}"));
}

/// It, with the workload in this mode.
pub(crate) fn with_mode(mode: &str) -> ContainerImage {
    ContainerImage {
        image: NAME.into(),
        entrypoint: None,
        environment: BTreeMap::from([("MODE".to_owned(), mode.to_owned())]),
    }
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

/// A docker-archive with the workload as its entry point.
fn archive() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        // Setuid, and root's: in no run is it more than the container's user.
        let layer = tar(&[("workload", &workload(), 0o4755)]);
        let hex = |bytes: &[u8]| format!("{:x}", Sha256::digest(bytes));
        let config = serde_json::json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {"Entrypoint": ["/workload"], "Env": ["PATH=/"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer))]},
        })
        .to_string();
        let name = format!("{}.json", hex(config.as_bytes()));
        let manifest =
            serde_json::json!([{"Config": name, "RepoTags": [NAME], "Layers": ["layer.tar"]}])
                .to_string();
        tar(&[
            (&name, config.as_bytes(), 0o644),
            ("layer.tar", &layer, 0o644),
            ("manifest.json", manifest.as_bytes(), 0o644),
        ])
    })
}

/// The workload, compiled once a test process.
fn workload() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/workload.rs");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("workload");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args([
            "--edition=2024",
            "-Cstrip=symbols",
            "-Ctarget-feature=+crt-static",
            "-o",
        ])
        .args([&program, &source])
        .output()
        .expect("rustc runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::read(program).unwrap()
}
