//! The metrics over HTTP, for Prometheus and for whoever asks.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle, time::timeout};

use super::Exposition;

/// As the `OpenMetrics` specification names its text form.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A client that takes longer, to ask or to read the answer, is let go.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at once. Others wait in the kernel's queue, where they take no file of this process.
const MOST_CONNECTIONS: usize = 32;

/// Why the metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "`{0}` is no address to listen on; expected PORT (on this machine alone) or ADDRESS:PORT, \
         such as 9464 or 0.0.0.0:9464"
    )]
    Address(String),
    #[error("cannot listen on {address}: {source}; give another with --metrics-listen")]
    Bind {
        address: SocketAddr,
        source: io::Error,
    },
}

/// Reads `9464`, `:9464`, `127.0.0.1:9464` or `[::1]:9464`. A port alone is one of this machine
/// alone: metrics are for others only where somebody says so.
pub fn address(text: &str) -> Result<SocketAddr, ListenError> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let named = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok());
    if let Some(port) = named {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse()
        .map_err(|_| ListenError::Address(text.to_owned()))
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on the address; port 0 takes any that is free.
    pub async fn listen(address: SocketAddr, exposition: Exposition) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let task = tokio::spawn(async move {
            let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
            while let Ok(place) = Arc::clone(&room).acquire_owned().await {
                let Ok((stream, _)) = listener.accept().await else {
                    // Out of file descriptors, or a client that was gone at once.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let exposition = exposition.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let answer = answer(&request, &exposition);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let served = http1::Builder::new()
                        .keep_alive(false)
                        .serve_connection(TokioIo::new(stream), service);
                    // A client that goes away half way is its own affair.
                    let _ = timeout(PATIENCE, served).await;
                    drop(place);
                });
            }
        });
        Ok(Self { address, task })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(request: &Request<Incoming>, exposition: &Exposition) -> Response<Full<Bytes>> {
    let plain = |status, text: &'static str| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET alone\n");
        let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    let mut response = Response::new(Full::from(exposition.text()));
    let kind = hyper::header::HeaderValue::from_static(OPENMETRICS);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn half_open_connections_take_no_more_than_their_share() {
        use std::{
            io::{Read as _, Write as _},
            net::TcpStream,
        };
        let exposition = Exposition::new(&[]);
        let server = Server::listen("127.0.0.1:0".parse().unwrap(), exposition)
            .await
            .unwrap();
        let address = server.address();
        let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = files();
        let connect = |_| TcpStream::connect(address).unwrap();
        let mut held: Vec<_> = (0..100).map(connect).collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        // One side of each connection is this test's own; other tests open files, too.
        let taken = files() - before - held.len();
        assert!(taken < 60, "{taken}");
        held.truncate(MOST_CONNECTIONS);
        // Whoever asks is answered once those that say nothing were let go.
        let asked = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                .unwrap();
            stream.set_read_timeout(Some(PATIENCE * 6)).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let answer = asked.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(held);
    }

    #[test]
    fn a_port_alone_is_for_this_machine_alone() {
        for text in ["9464", ":9464", "127.0.0.1:9464", "localhost:9464"] {
            assert_eq!(address(text).unwrap().to_string(), "127.0.0.1:9464");
        }
        assert_eq!(address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
        for text in ["", "host:port", "99999", "10.0.0.1", "http://x:1/"] {
            let error = address(text).unwrap_err().to_string();
            assert!(error.contains("no address to listen on"), "{error}");
        }
    }
}
