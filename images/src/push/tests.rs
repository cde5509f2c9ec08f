//! Pushing over a slow line, a dead one, and to a registry that is busy.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use oci_client::errors::OciDistributionError;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
    time::Instant,
};

use super::{
    compress::Blob,
    patience::{Patience, is_passing},
    registry::{Destination, Registry},
};
use crate::{
    Action, Digest, Error, Meter, Progress, Result, Silent,
    oci::layer::LayerId,
    store::{Cache, PUSHED},
};

const SILENCE: Duration = Duration::from_millis(500);

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answer(&'static str),
    /// So many bytes are taken every 10 ms.
    Trickle(usize),
    /// Nothing is taken, nor answered.
    Stall,
    /// All is taken, and the line is cut.
    Hang,
}

/// What a registry does at one request after the other of a method, and what it was asked.
#[derive(Default)]
struct Script {
    acts: Vec<(&'static str, VecDeque<Act>)>,
    asked: Vec<String>,
}

impl Script {
    fn next(&mut self, method: &str) -> Act {
        self.asked.push(method.to_owned());
        let acts = self.acts.iter_mut().find(|(name, _)| *name == method);
        acts.and_then(|(_, acts)| acts.pop_front())
            .unwrap_or(match method {
                "HEAD" => Act::Answer("404 Not Found"),
                "POST" => Act::Answer("202 Accepted"),
                "PUT" => Act::Answer("201 Created"),
                _ => Act::Answer("200 OK"),
            })
    }
}

struct Canned {
    port: u16,
    script: Arc<Mutex<Script>>,
    server: JoinHandle<()>,
}

impl Canned {
    fn serve(acts: &[(&'static str, &[Act])]) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // So that little of a blob is under way.
        socket.set_recv_buffer_size(1 << 16).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(16).unwrap();
        let port = listener.local_addr().unwrap().port();
        let acts = acts
            .iter()
            .map(|(method, acts)| (*method, acts.iter().copied().collect()));
        let script = Arc::new(Mutex::new(Script {
            acts: acts.collect(),
            asked: Vec::new(),
        }));
        let told = Arc::clone(&script);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&told)));
            }
        });
        Self {
            port,
            script,
            server,
        }
    }

    /// How often it was asked with a method.
    fn asked(&self, method: &str) -> usize {
        let script = self.script.lock().unwrap();
        script.asked.iter().filter(|asked| *asked == method).count()
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begun = head.len();
        if !matches!(stream.read_line(&mut head).await, Ok(1..)) {
            return;
        }
        let line = head[begun..].to_lowercase();
        if let Some(n) = line.strip_prefix("content-length: ") {
            length = n.trim().parse().unwrap();
        }
    }
    let method = head.split(' ').next().unwrap_or_default();
    let act = script.lock().unwrap().next(method);
    if let Act::Stall = act {
        std::future::pending::<()>().await;
    }
    let mut body = vec![0; 1 << 20];
    let mut left: usize = length;
    while left > 0 {
        let mut most = left.min(body.len());
        if let Act::Trickle(bytes) = act {
            tokio::time::sleep(Duration::from_millis(10)).await;
            most = most.min(bytes);
        }
        match stream.read(&mut body[..most]).await {
            Ok(0) | Err(_) => return,
            Ok(n) => left -= n,
        }
    }
    let status = match act {
        Act::Answer(status) => status,
        Act::Trickle(_) => "201 Created",
        Act::Stall | Act::Hang => return,
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nLocation: /v2/team/images/blobs/uploads/1?_state=secret\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Keeps what is said.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Progress for Notes {
    fn start(&self, _: Action, _: &str, _: Option<u64>) -> Box<dyn Meter> {
        Box::new(Silent)
    }

    fn note(&self, text: &str) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(text.to_owned());
    }
}

/// Sends a blob of so many bytes: what came of it, and what was said on the way.
async fn send(to: &Canned, bytes: usize) -> (Result<u64>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let notes = Notes::default();
    let cache = Cache::at(folder.path()).unwrap();
    let cache = cache.with_progress(notes.clone());
    let place = cache.folder(PUSHED).join("layer");
    std::fs::create_dir(&place).unwrap();
    let content = vec![7; bytes];
    let blob = Blob {
        id: LayerId {
            digest: Digest::of(&content),
            size_bytes: bytes as u64,
        },
        file: place.join("blob"),
    };
    std::fs::write(&blob.file, content).unwrap();
    let mut destination: Destination = format!("localhost:{}/team/images", to.port)
        .parse()
        .unwrap();
    destination.plain_http = true;
    let mut registry = Registry::open(&destination, "tag").unwrap();
    registry.patience = Patience {
        silence: SILENCE,
        pauses: [Duration::from_millis(10); 2],
    };
    let sent = registry.send("libtorch", &blob, &cache).await;
    let notes = notes.0.lock().unwrap().clone();
    (sent, notes)
}

/// The text of an error, as [`of_any_port`] gives it.
fn refusal(error: &Error, registry: &Canned) -> String {
    assert!(matches!(error, Error::Trouble(_)), "{error:?}");
    of_any_port(&error.to_string(), registry)
}

/// A text with the port replaced, which is another one each time, and the blob's digest, which is the
/// compressor's.
fn of_any_port(text: &str, registry: &Canned) -> String {
    let text = match text.split_once("sha256:") {
        Some((start, rest)) => format!("{start}DIGEST{}", &rest[64..]),
        None => text.to_owned(),
    };
    text.replace(&registry.port.to_string(), "PORT")
}

/// By a clock that moves on when everything waits, so that a machine that is busy does not look like a
/// line that is silent.
#[tokio::test(start_paused = true)]
async fn a_slow_line_is_waited_for_as_long_as_it_moves() {
    let slow = Canned::serve(&[("PUT", &[Act::Trickle(1 << 16)])]);
    let begun = Instant::now();
    let (sent, notes) = send(&slow, 16 << 20).await;
    assert_eq!(sent.unwrap(), 16 << 20);
    assert!(begun.elapsed() > SILENCE * 3, "{:?}", begun.elapsed());
    assert_eq!((slow.asked("PUT"), notes), (1, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_dead_line_is_given_up_on() {
    let mut refusals = Vec::new();
    for method in ["PUT", "HEAD"] {
        let dead = Canned::serve(&[(method, &[Act::Stall; 3])]);
        let limit = Duration::from_mins(1);
        let (sent, notes) = tokio::time::timeout(limit, send(&dead, 16 << 20))
            .await
            .expect("it is given up on");
        refusals.push(refusal(&sent.unwrap_err(), &dead));
        assert_eq!((dead.asked(method), notes.len()), (3, 2), "{notes:?}");
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    localhost:PORT/team/images: no data was taken or sent for 500ms; check the network; push again, and layers that it has are not sent twice
    localhost:PORT/team/images: no data was taken or sent for 500ms; check the network; push again, and layers that it has are not sent twice
    ");
}

#[tokio::test]
async fn what_a_registry_has_is_not_sent_for_an_answer_that_was_lost() {
    let heads = [Act::Answer("404 Not Found"), Act::Answer("200 OK")];
    let lossy = Canned::serve(&[("HEAD", &heads), ("PUT", &[Act::Hang])]);
    let (sent, notes) = send(&lossy, 1 << 20).await;
    assert_eq!(sent.unwrap(), 1 << 20);
    assert_eq!((lossy.asked("PUT"), notes.len()), (1, 1), "{notes:?}");
}

#[tokio::test]
async fn a_registry_that_is_busy_is_asked_again() {
    let twice = [
        Act::Answer("503 Service Unavailable"),
        Act::Answer("429 Too Many Requests"),
    ];
    let mut told = Vec::new();
    for method in ["HEAD", "POST", "PUT"] {
        let registry = Canned::serve(&[(method, &twice)]);
        let (sent, notes) = send(&registry, 1 << 16).await;
        assert_eq!(sent.unwrap(), 1 << 16, "{method}");
        told.extend(notes.iter().map(|note| of_any_port(note, &registry)));
        let registry = Canned::serve(&[(method, &[twice[1]; 3])]);
        let (sent, _) = send(&registry, 1 << 16).await;
        told.push(refusal(&sent.unwrap_err(), &registry));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    localhost:PORT/team/images: HTTP status server error (503 Service Unavailable) for url (http://localhost:PORT/v2/team/images/blobs/DIGEST); trying again in 10ms
    localhost:PORT/team/images: HTTP status client error (429 Too Many Requests) for url (http://localhost:PORT/v2/team/images/blobs/DIGEST); trying again in 10ms
    localhost:PORT/team/images: HTTP status client error (429 Too Many Requests) for url (http://localhost:PORT/v2/team/images/blobs/DIGEST); push again later, and what it has is not sent twice
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/, code: 503, message:; trying again in 10ms
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/, code: 429, message:; trying again in 10ms
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/, code: 429, message:; push again later, and what it has is not sent twice
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/1 code: 503, message:; trying again in 10ms
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/1 code: 429, message:; trying again in 10ms
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/1 code: 429, message:; push again later, and what it has is not sent twice
    ");
}

#[tokio::test]
async fn a_refusal_is_final() {
    let mut refusals = Vec::new();
    for (method, status) in [
        ("HEAD", "401 Unauthorized"),
        ("POST", "403 Forbidden"),
        ("PUT", "400 Bad Request"),
    ] {
        let registry = Canned::serve(&[(method, &[Act::Answer(status)])]);
        let (sent, notes) = send(&registry, 1 << 16).await;
        let error = refusal(&sent.unwrap_err(), &registry);
        assert!(!error.contains("secret"), "{error}");
        refusals.push(error);
        assert_eq!(notes, Vec::<String>::new());
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    localhost:PORT/team/images: HTTP status client error (401 Unauthorized) for url (http://localhost:PORT/v2/team/images/blobs/DIGEST); log in with `docker login`
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/, code: 403, message:; log in with `docker login`, as one who may push there
    localhost:PORT/team/images: Server error: url http://localhost:PORT/v2/team/images/blobs/uploads/1 code: 400, message:; its log has details; push again once it is fixed; what it has is not sent twice
    ");
}

#[test]
fn a_token_service_is_asked_again_unless_it_refuses() {
    let failed = |words: &str| OciDistributionError::AuthenticationFailure(words.to_owned());
    for words in [
        "",
        "upstream connect error",
        "{\"errors\":[{\"code\":\"TOOMANYREQUESTS\"}]}",
    ] {
        assert!(is_passing(&failed(words)), "{words}");
    }
    for words in [
        "{\"details\":\"incorrect username or password\"}",
        "UNAUTHORIZED",
        "DENIED",
    ] {
        assert!(!is_passing(&failed(words)), "{words}");
    }
}
