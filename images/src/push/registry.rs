//! A registry that images are pushed to.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Once,
    time::Duration,
};

use engine::Login;
use futures_util::StreamExt as _;
use oci_client::{
    Client, Reference, RegistryOperation,
    client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol},
    errors::OciDistributionError,
    secrets::RegistryAuth,
};
use serde::Serialize;
use tokio::io::AsyncReadExt as _;

use super::compress::Blob;
use crate::{
    Digest, Error, Result, error::at, load::blocking, login::login, progress::Action, store::Cache,
};

/// Where Docker looks for the certificates of registries.
const CERTIFICATES: &str = "/etc/docker/certs.d";
/// A registry that says nothing for so long is given up on.
const SILENCE: Duration = Duration::from_mins(2);
/// How often a blob is sent whose connection was cut.
const ATTEMPTS: u32 = 3;
/// What is read of a file at once.
const PIECE_BYTES: usize = 1 << 20;

/// A repository of a registry: `registry.example:5000/team/images`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    registry: String,
    repository: String,
    /// Whether it is spoken to without TLS.
    pub plain_http: bool,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` {why}; expected a registry and a repository, such as \
                 registry.example:5000/team/images"
            )
        };
        let (registry, repository) = text.split_once('/').unwrap_or((text, ""));
        if !registry.contains(['.', ':']) && registry != "localhost" {
            return Err(wrong("names no registry"));
        }
        let last = repository.rsplit('/').next().unwrap_or(repository);
        if last.contains([':', '@']) {
            return Err(wrong("has a tag or a digest, which the image gives"));
        }
        text.parse::<Reference>()
            .map_err(|error| wrong(&format!("is no repository ({error})")))?;
        if repository.is_empty() {
            return Err(wrong("names no repository"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            plain_http: false,
        })
    }
}

/// An image that a registry has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pushed {
    /// What to pull it by: `REGISTRY/REPOSITORY@sha256:…`.
    pub reference: String,
    /// The tag that it has besides.
    pub tag: String,
    /// The digest of its manifest.
    pub digest: Digest,
    /// What its layers take there.
    pub size_bytes: u64,
    /// What of them was sent.
    pub sent_bytes: u64,
}

pub(super) struct Registry {
    client: Client,
    to: Destination,
    image: Reference,
    auth: RegistryAuth,
}

impl Registry {
    /// Makes ready to speak to it, as whom the docker command is logged in.
    pub(super) fn open(to: &Destination, tag: &str) -> Result<Self> {
        static PROVIDER: Once = Once::new();
        // Another one that is installed already serves as well.
        PROVIDER.call_once(|| _ = rustls::crypto::ring::default_provider().install_default());
        let config = ClientConfig {
            protocol: if to.plain_http {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            // What every registry takes.
            use_monolithic_push: true,
            extra_root_certificates: certificates(&to.registry)?,
            connect_timeout: Some(Duration::from_secs(30)),
            read_timeout: Some(SILENCE),
            user_agent: concat!("torchgauge/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client =
            Client::try_from(config).map_err(|error| Error::of_registry(&to.registry, error))?;
        let image = Reference::with_tag(to.registry.clone(), to.repository.clone(), tag.to_owned());
        Ok(Self {
            client,
            image,
            auth: match login(&to.registry)? {
                Some(Login::User { name, password }) => RegistryAuth::Basic(name, password),
                Some(Login::IdentityToken(_)) => {
                    return Err(Error::of_registry(&to.registry, IDENTITY_TOKEN));
                }
                None => RegistryAuth::Anonymous,
            },
            to: to.clone(),
        })
    }

    /// Sends a layer unless the registry has it. How many bytes went.
    pub(super) async fn send(&self, name: &str, blob: &Blob, cache: &Cache) -> Result<u64> {
        if self.has(blob.digest).await? {
            return Ok(0);
        }
        let file = blob.file.clone();
        let found = blocking(move || Digest::of_file(&file).map_err(at(&file))).await?;
        if found != blob.digest {
            cache.remove(blob.file.parent().unwrap_or(&blob.file))?;
            return Err(Error::DamagedBlob {
                layer: name.to_owned(),
                expected: blob.digest,
                found,
            });
        }
        for attempt in 1.. {
            match self.stream(name, blob, cache).await {
                Ok(()) => break,
                Err(error) if attempt < ATTEMPTS && is_passing(&error) => {
                    cache.note(&format!("{}: {}; sending it again", self.to, words(&error)));
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(blob.size_bytes)
    }

    async fn stream(
        &self,
        name: &str,
        blob: &Blob,
        cache: &Cache,
    ) -> Result<(), OciDistributionError> {
        let file = tokio::fs::File::open(&blob.file).await?;
        let mut meter = cache.start(Action::Push, name, Some(blob.size_bytes));
        let pieces = futures_util::stream::unfold((file, 0), move |(mut file, done)| {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            async move {
                let read = (&mut file)
                    .take(PIECE_BYTES as u64)
                    .read_to_end(&mut piece)
                    .await;
                match read {
                    Ok(0) => None,
                    Ok(n) => {
                        let piece = bytes::Bytes::from(piece);
                        Some((Ok(piece), (file, done + n as u64)))
                    }
                    Err(error) => Some((Err(error.into()), (file, done))),
                }
            }
        });
        let mut done = 0;
        let pieces = pieces.inspect(move |piece: &Result<bytes::Bytes, OciDistributionError>| {
            done += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            meter.advance_to(done);
        });
        let digest = blob.digest.to_string();
        let sent = self.client.push_blob_stream(
            &self.image,
            Box::pin(pieces),
            &digest,
            Some(blob.size_bytes),
        );
        sent.await.map(drop)
    }

    /// Whether the registry has a blob.
    async fn has(&self, digest: Digest) -> Result<bool> {
        let found = again(|| self.ask(digest)).await;
        found.map_err(|error| self.failed(&error))
    }

    async fn ask(&self, digest: Digest) -> Result<bool, OciDistributionError> {
        let host = self.image.resolve_registry();
        self.client.store_auth_if_needed(host, &self.auth).await;
        // A registry may give more rights to who asks to push.
        let push = RegistryOperation::Push;
        self.client.auth(&self.image, &self.auth, push).await?;
        self.client
            .blob_exists(&self.image, &digest.to_string())
            .await
    }

    pub(super) async fn send_config(&self, config: String, digest: Digest) -> Result<()> {
        if !self.has(digest).await? {
            let digest = digest.to_string();
            let push = || self.client.push_blob(&self.image, config.clone(), &digest);
            again(push).await.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Sends the manifest, and reads it back: a registry that keeps something else than it was given
    /// is no place to pull from.
    pub(super) async fn send_manifest(&self, manifest: String, digest: Digest) -> Result<()> {
        const KIND: &str = "application/vnd.oci.image.manifest.v1+json";
        let failed = |error| self.failed(&error);
        let push = || {
            let kind = KIND.parse().expect("a header's value");
            self.client
                .push_manifest_raw(&self.image, manifest.clone(), kind)
        };
        again(push).await.map_err(failed)?;
        let pull = || {
            self.client
                .pull_manifest_raw(&self.image, &self.auth, &[KIND])
        };
        let (found, _) = again(pull).await.map_err(failed)?;
        let found = Digest::of(&found);
        if found != digest {
            return Err(Error::of_registry(
                &self.to.to_string(),
                format!(
                    "it was given the manifest {digest} and shows {found} in its place; {CHANGES}"
                ),
            ));
        }
        Ok(())
    }

    fn failed(&self, error: &OciDistributionError) -> Error {
        Error::of_registry(&self.to.to_string(), words(error))
    }
}

/// Asks again where that may help. What is asked for may be asked for twice.
async fn again<T, F: Future<Output = Result<T, OciDistributionError>>>(
    ask: impl Fn() -> F,
) -> Result<T, OciDistributionError> {
    let mut attempt = 1;
    loop {
        match ask().await {
            Err(error) if attempt < ATTEMPTS && is_passing(&error) => attempt += 1,
            answer => return answer,
        }
    }
}

/// Whether the same may go well a moment later.
fn is_passing(error: &OciDistributionError) -> bool {
    match error {
        OciDistributionError::RequestError(error) => error.status().is_none(),
        OciDistributionError::ServerError { code, .. } => *code >= 500,
        _ => false,
    }
}

/// What to do about a registry that shows something else than it was given.
const CHANGES: &str =
    "it, or what stands before it, changes what it is given: pull from another one";

/// An error with what to do about it.
fn words(error: &OciDistributionError) -> String {
    let mut all = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !all.contains(&cause_words) {
            all = format!("{all}: {cause_words}");
        }
        source = cause.source();
    }
    // Registries sign the addresses that they are asked at.
    let shown = all.split(' ').map(|word| match word.split_once('?') {
        Some((start, _)) if start.contains("://") => start,
        _ => word,
    });
    all = shown.collect::<Vec<_>>().join(" ");
    let says = |words: &[&str]| words.iter().any(|word| all.contains(word));
    let help = match error {
        OciDistributionError::AuthenticationFailure(_)
        | OciDistributionError::UnauthorizedError { .. } => "log in with `docker login`",
        _ if says(&["401", "UNAUTHORIZED", "Unauthorized", "403", "DENIED"]) => {
            "log in with `docker login`, as one who may push there"
        }
        _ if says(&["UnknownIssuer", "invalid peer certificate"]) => {
            "put its authority's certificate into /etc/docker/certs.d/REGISTRY/ca.crt, or name it in \
             SSL_CERT_FILE"
        }
        _ if says(&["InvalidContentType", "corrupt message"]) => {
            "where it speaks without TLS, say so with --plain-http"
        }
        OciDistributionError::DigestError(_) => CHANGES,
        OciDistributionError::RequestError(error) if error.is_connect() => {
            "check its address, and that it can be reached from here"
        }
        _ => "its log says more; push again when it is mended, and what it has is not sent twice",
    };
    format!("{all}; {help}")
}

/// What to do about a login that pulls and does not push.
const IDENTITY_TOKEN: &str = "the docker command is logged in there with an identity token, which \
                              `images push` cannot use; run `docker login` with a user and a \
                              password instead, in Azure with a service principal or with what \
                              `az acr token create` gives";

/// What the docker command knows of a registry's authority.
fn certificates(registry: &str) -> Result<Vec<Certificate>> {
    let folder = Path::new(CERTIFICATES).join(registry);
    let file: PathBuf = folder.join("ca.crt");
    match fs::read(&file) {
        Ok(data) => Ok(vec![Certificate {
            encoding: CertificateEncoding::Pem,
            data,
        }]),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(at(&file)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_registry_and_a_repository() {
        for text in [
            "registry.example:5000/team/images",
            "localhost/x",
            "r.example/a/b/c",
        ] {
            let read: Destination = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        for (text, word) in [
            ("team/images", "names no registry"),
            ("registry.example", "names no repository"),
            ("registry.example/", "repository"),
            ("registry.example/x:tag", "a tag or a digest"),
            ("registry.example/x@sha256:00", "a tag or a digest"),
            ("registry.example/UPPER", "is no repository"),
            ("", "names no registry"),
        ] {
            let error = text.parse::<Destination>().unwrap_err();
            assert!(
                error.contains(word) && error.contains("expected"),
                "{error}"
            );
        }
    }
}
