//! A registry with one image in it, over plain HTTP on this machine: as much of the distribution
//! API as a pull by digest needs.

use std::{collections::BTreeMap, sync::Arc};

use images::Digest;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::bases::Parts;

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

pub(crate) struct Registry {
    port: u16,
    manifest: Digest,
    server: JoinHandle<()>,
}

impl Registry {
    pub(crate) async fn serve(image: Parts) -> Self {
        let mut blobs: BTreeMap<String, (&'static str, Vec<u8>)> = BTreeMap::new();
        let mut add = |kind: &'static str, content: Vec<u8>| {
            let digest = Digest::of(&content);
            let size = content.len();
            blobs.insert(digest.to_string(), (kind, content));
            (digest, size)
        };
        let describe = |media_type: &str, (digest, size): (Digest, usize)| {
            serde_json::json!({
                "mediaType": media_type, "digest": digest.to_string(), "size": size,
            })
        };
        let config = describe(
            "application/vnd.docker.container.image.v1+json",
            add("application/octet-stream", image.config.into_bytes()),
        );
        let layers: Vec<_> = image
            .layers
            .into_iter()
            .map(|layer| {
                describe(
                    "application/vnd.docker.image.rootfs.diff.tar.gzip",
                    add("application/octet-stream", layer),
                )
            })
            .collect();
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
        });
        let (manifest, _) = add(MANIFEST, manifest.to_string().into_bytes());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let blobs = Arc::new(blobs);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&blobs)));
            }
        });
        Self {
            port,
            manifest,
            server,
        }
    }

    /// The image by this name and its digest.
    pub(crate) fn reference(&self, name: &str) -> String {
        format!("localhost:{}/{name}@{}", self.port, self.manifest)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers one request: whatever a path ends in, where that is a digest.
async fn answer(mut stream: TcpStream, blobs: Arc<BTreeMap<String, (&'static str, Vec<u8>)>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => request.extend_from_slice(&buffer[..n]),
        }
        // A greeting of TLS, which any server of plain HTTP takes for a bad request.
        if request.starts_with(&[0x16, 0x03]) {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return;
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.split_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let wanted = path.rsplit('/').next().unwrap_or("");
    let nothing: &[u8] = b"{}";
    let (status, kind, body) = match blobs.get(wanted) {
        Some((kind, content)) => ("200 OK", *kind, content.as_slice()),
        None if path == "/v2/" => ("200 OK", "application/json", nothing),
        None => ("404 Not Found", "application/json", nothing),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Docker-Content-Digest: {wanted}\r\nDocker-Distribution-Api-Version: registry/2.0\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    if method != "HEAD" {
        let _ = stream.write_all(body).await;
    }
    let _ = stream.shutdown().await;
}
