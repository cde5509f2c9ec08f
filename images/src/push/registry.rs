//! A registry that images are pushed to.

use std::{
    fmt, fs, io, mem,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::TryStreamExt as _;
use oci_client::{
    Client, Reference, RegistryOperation,
    client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol},
    secrets::RegistryAuth,
};
use serde::Serialize;
use tokio_util::io::ReaderStream;

use super::{
    compress::Blob,
    patience::{Answer, CHANGES, Patience, advice, cause, is_passing},
};
use crate::{
    Digest, Error, Result, error::at, load::blocking, login::login, progress::Action, store::Cache,
};

/// Where Docker looks for the certificates of registries.
const CERTIFICATES: &str = "/etc/docker/certs.d";
/// What is read of a file at once, and by which a slow line is seen to move.
const PIECE_BYTES: usize = 1 << 16;
/// How many times longer a registry may be silent once it has all of a blob: where it keeps them in
/// an object store, it reads gigabytes again and moves them before it answers.
const WITH_ALL_OF_IT: u32 = 8;

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
    pub digest: Digest,
    pub size_bytes: u64,
    pub sent_bytes: u64,
}

pub(super) struct Registry {
    client: Client,
    to: Destination,
    image: Reference,
    auth: RegistryAuth,
    pub(super) patience: Patience,
}

impl Registry {
    /// Makes ready to speak to it, as whom the docker command is logged in.
    pub(super) fn open(to: &Destination, tag: &str) -> Result<Self> {
        // TLS by ring, unless this process has another provider already.
        _ = rustls::crypto::ring::default_provider().install_default();
        let config = ClientConfig {
            protocol: if to.plain_http {
                ClientProtocol::Http
            } else {
                ClientProtocol::Https
            },
            // What every registry takes. Going on within a blob would need pieces and a word on
            // what is there: Debian's 2.8 gives up an upload whose connection was cut, Google's
            // takes no pieces by its documentation, GitHub's none above 4 MiB (ocx-sh/ocx#237),
            // and Amazon's does not say what it has (aws/containers-roadmap#2831).
            use_monolithic_push: true,
            extra_root_certificates: certificates(&to.registry)?,
            connect_timeout: Some(Duration::from_secs(30)),
            user_agent: concat!("torchgauge/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client =
            Client::try_from(config).map_err(|error| Error::of_registry(&to.registry, error))?;
        let image = Reference::with_tag(to.registry.clone(), to.repository.clone(), tag.to_owned());
        Ok(Self {
            client,
            image,
            auth: match login(&to.registry)?.map(|login| (login.username, login.password)) {
                Some((Some(name), Some(password))) => RegistryAuth::Basic(name, password),
                Some(_) => return Err(Error::of_registry(&to.registry, IDENTITY_TOKEN)),
                None => RegistryAuth::Anonymous,
            },
            to: to.clone(),
            patience: Patience::default(),
        })
    }

    /// Sends a layer unless the registry has it. How many bytes went.
    pub(super) async fn send(&self, name: &str, blob: &Blob, cache: &Cache) -> Result<u64> {
        if self.again(cache, || self.has(blob.id.digest)).await? {
            return Ok(0);
        }
        let file = blob.file.clone();
        let found = blocking(move || Digest::of_file(&file).map_err(at(&file))).await?;
        if found != blob.id.digest {
            cache.remove(blob.file.parent().unwrap_or(&blob.file))?;
            return Err(Error::Trouble(format!(
                "the compressed layer {name} was {}, and is {found} now: it was damaged in the cache, \
                 and is removed. Run again",
                blob.id.digest
            )));
        }
        let is_asked = AtomicBool::new(true);
        let push = || async {
            // Of an attempt before, the answer alone may have been lost.
            if is_asked.swap(false, Ordering::Relaxed) || !self.has(blob.id.digest).await? {
                self.stream(name, blob, cache).await?;
            }
            Ok(blob.id.size_bytes)
        };
        self.again(cache, push).await
    }

    async fn stream(&self, name: &str, blob: &Blob, cache: &Cache) -> Answer<()> {
        let file = tokio::fs::File::open(&blob.file).await?;
        let mut meter = cache.start(Action::Push, name, Some(blob.id.size_bytes));
        let sent = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent);
        let pieces = ReaderStream::with_capacity(file, PIECE_BYTES).inspect_ok(move |piece| {
            let bytes = piece.len() as u64;
            meter.advance_to(counted.fetch_add(bytes, Ordering::Relaxed) + bytes);
        });
        let digest = blob.id.digest.to_string();
        let push = self.client.push_blob_stream(
            &self.image,
            Box::pin(pieces.map_err(Into::into)),
            &digest,
            Some(blob.id.size_bytes),
        );
        let (mut before, mut waited) = (0, 0);
        let moves = || {
            let now = sent.load(Ordering::Relaxed);
            waited += u32::from(now == blob.id.size_bytes);
            mem::replace(&mut before, now) != now || (1..WITH_ALL_OF_IT).contains(&waited)
        };
        self.patience.hear(push, moves).await.map(drop)
    }

    /// Whether the registry has a blob.
    async fn has(&self, digest: Digest) -> Answer<bool> {
        let ask = async {
            let host = self.image.resolve_registry();
            self.client.store_auth_if_needed(host, &self.auth).await;
            // A registry may give more rights to who asks to push.
            let push = RegistryOperation::Push;
            self.client.auth(&self.image, &self.auth, push).await?;
            let digest = digest.to_string();
            self.client.blob_exists(&self.image, &digest).await
        };
        self.patience.hear(ask, || false).await
    }

    pub(super) async fn send_config(
        &self,
        config: String,
        digest: Digest,
        cache: &Cache,
    ) -> Result<()> {
        let name = digest.to_string();
        let push = || async {
            if !self.has(digest).await? {
                let push = self.client.push_blob(&self.image, config.clone(), &name);
                self.patience.hear(push, || false).await?;
            }
            Ok(())
        };
        self.again(cache, push).await
    }

    /// Sends the manifest, and reads it back: a registry that keeps something else than it was given
    /// is no place to pull from.
    pub(super) async fn send_manifest(
        &self,
        manifest: String,
        digest: Digest,
        cache: &Cache,
    ) -> Result<()> {
        const KIND: &str = "application/vnd.oci.image.manifest.v1+json";
        let push = || {
            let kind = KIND.parse().expect("a header's value");
            let push = self
                .client
                .push_manifest_raw(&self.image, manifest.clone(), kind);
            self.patience.hear(push, || false)
        };
        self.again(cache, push).await?;
        let pull = || {
            let pull = self
                .client
                .pull_manifest_raw(&self.image, &self.auth, &[KIND]);
            self.patience.hear(pull, || false)
        };
        let (found, _) = self.again(cache, pull).await?;
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

    /// Does what may be done twice, and does it again where that may help.
    async fn again<T, F: Future<Output = Answer<T>>>(
        &self,
        cache: &Cache,
        ask: impl Fn() -> F,
    ) -> Result<T> {
        let mut pauses = self.patience.pauses.iter();
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let (to, cause) = (self.to.to_string(), cause(&error));
            match pauses.next() {
                Some(pause) if is_passing(&error) => {
                    cache.note(&format!("{to}: {cause}; trying again in {pause:?}"));
                    tokio::time::sleep(*pause).await;
                }
                _ => {
                    let cause = format!("{cause}; {}", advice(&error));
                    return Err(Error::of_registry(&to, cause));
                }
            }
        }
    }
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
        let refusals = [
            "team/images",
            "registry.example",
            "registry.example/",
            "registry.example/x:tag",
            "registry.example/x@sha256:00",
            "registry.example/UPPER",
            "",
        ]
        .map(|text| text.parse::<Destination>().unwrap_err());
        insta::assert_snapshot!(refusals.join("\n"), @r"
        `team/images` names no registry; expected a registry and a repository, such as registry.example:5000/team/images
        `registry.example` names no repository; expected a registry and a repository, such as registry.example:5000/team/images
        `registry.example/` is no repository (invalid reference format); expected a registry and a repository, such as registry.example:5000/team/images
        `registry.example/x:tag` has a tag or a digest, which the image gives; expected a registry and a repository, such as registry.example:5000/team/images
        `registry.example/x@sha256:00` has a tag or a digest, which the image gives; expected a registry and a repository, such as registry.example:5000/team/images
        `registry.example/UPPER` is no repository (invalid reference format); expected a registry and a repository, such as registry.example:5000/team/images
        `` names no registry; expected a registry and a repository, such as registry.example:5000/team/images
        ");
    }
}
