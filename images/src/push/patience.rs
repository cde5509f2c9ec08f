//! How long a registry is waited for, which of its failures pass, and what they say.

use std::{io, pin::pin, time::Duration};

use oci_client::errors::{OciDistributionError, OciErrorCode};

pub(super) type Answer<T> = Result<T, OciDistributionError>;

/// How long a registry is waited for.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// One that takes nothing and says nothing for so long is given up on.
    pub(super) silence: Duration,
    /// The pauses before it is tried again.
    pub(super) pauses: [Duration; 2],
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            silence: Duration::from_mins(2),
            pauses: [1, 4].map(Duration::from_secs),
        }
    }
}

impl Patience {
    /// Waits for an answer unless the registry falls silent. `moves` says whether it did anything
    /// since it was last asked.
    ///
    /// The client's own `read_timeout` will not do: it also counts the time in which a body is sent.
    pub(super) async fn hear<T>(
        &self,
        answer: impl Future<Output = Answer<T>>,
        mut moves: impl FnMut() -> bool,
    ) -> Answer<T> {
        let mut answer = pin!(answer);
        loop {
            if let Ok(answer) = tokio::time::timeout(self.silence, &mut answer).await {
                return answer;
            }
            if !moves() {
                let words = format!("no data was taken or sent for {:?}", self.silence);
                return Err(io::Error::new(io::ErrorKind::TimedOut, words).into());
            }
        }
    }
}

/// Whether the same may go well a moment later.
pub(super) fn is_passing(error: &OciDistributionError) -> bool {
    match (status(error), error) {
        (Some(code), _) => code == 429 || code >= 500,
        (None, OciDistributionError::RequestError(_)) => {
            !says(&cause(error), UNTRUSTED) && !says(&cause(error), NO_TLS)
        }
        (None, OciDistributionError::IoError(error)) => error.kind() == io::ErrorKind::TimedOut,
        // Whatever its token service answers but a token, without the status: who is refused is told so.
        (None, OciDistributionError::AuthenticationFailure(_)) => {
            let all = cause(error).to_lowercase();
            !says(&all, &["unauthorized", "denied", "incorrect", "forbidden"])
        }
        _ => false,
    }
}

/// The HTTP status that an error came with, or what it means.
fn status(error: &OciDistributionError) -> Option<u16> {
    match error {
        OciDistributionError::RequestError(error) => Some(error.status()?.as_u16()),
        OciDistributionError::ServerError { code, .. } => Some(*code),
        OciDistributionError::UnauthorizedError { .. } => Some(401),
        OciDistributionError::RegistryError { envelope, .. } => {
            let has = |code| envelope.errors.iter().any(|error| error.code == code);
            has(OciErrorCode::Toomanyrequests).then_some(429)
        }
        _ => None,
    }
}

/// What TLS says of an authority that this machine does not know.
const UNTRUSTED: &[&str] = &["UnknownIssuer", "invalid peer certificate"];
/// What TLS says of an answer that is none of its own.
const NO_TLS: &[&str] = &["InvalidContentType", "corrupt message"];
/// What is shown of an error: what stands before a registry may answer with a whole page.
const SHOWN_CHARS: usize = 400;
/// What to do about a registry that shows something else than it was given.
pub(super) const CHANGES: &str =
    "it, or a proxy before it, changes what it is given: pull from another one";

fn says(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// What went wrong, on one line.
pub(super) fn cause(error: &OciDistributionError) -> String {
    let all = engine::chain(error);
    // Registries sign the addresses that they are asked at.
    let shown = all
        .split_whitespace()
        .map(|word| match word.split_once('?') {
            Some((start, _)) if start.contains("://") => start,
            _ => word,
        });
    let mut shown = shown.collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = shown.char_indices().nth(SHOWN_CHARS) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// What to do about it.
pub(super) fn advice(error: &OciDistributionError) -> &'static str {
    let all = cause(error);
    match (status(error), error) {
        (Some(401), _) | (_, OciDistributionError::AuthenticationFailure(_)) => {
            "log in with `docker login`"
        }
        (Some(403), _) => "log in with `docker login`, as one who may push there",
        (Some(429), _) => "push again later, and what it has is not sent twice",
        _ if says(&all, &["UNAUTHORIZED", "DENIED"]) => {
            "log in with `docker login`, as one who may push there"
        }
        _ if says(&all, UNTRUSTED) => {
            "put its authority's certificate into /etc/docker/certs.d/REGISTRY/ca.crt, or name it in \
             SSL_CERT_FILE"
        }
        _ if says(&all, NO_TLS) => "where it has no TLS, pass --plain-http",
        (_, OciDistributionError::DigestError(_)) => CHANGES,
        (_, OciDistributionError::RequestError(error)) if error.is_connect() => {
            "check its address, and that it can be reached from here"
        }
        (None, OciDistributionError::RequestError(_) | OciDistributionError::IoError(_)) => {
            "check the network; push again, and layers that it has are not sent twice"
        }
        _ => "its log has details; push again once it is fixed; what it has is not sent twice",
    }
}
