//! Bringing an assembled image into an engine: only what is missing, checked afterwards.

mod inside;
pub mod inventory;
pub(crate) mod own;
pub(crate) mod ready_made;
pub(crate) mod sandbox;

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::Instant,
};

use engine::{Apptainer, Engine, Unpacked};
use futures_util::{StreamExt as _, future, stream};
use record::ImageFacts;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::io::{ReaderStream, SyncIoBridge};

use crate::{
    Assembly, Digest, Error, Result, atomic_write,
    digest::HashingWriter,
    error::at,
    oci::{archive as oci, archive::ArchiveLayer, zstd_encoder},
    progress::Action,
    spec::reserved::LABEL_IMAGE,
    store::Cache,
};

/// Bytes that travel to the engine in one piece.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes that wait for the engine at most.
const WAITING_BYTES: usize = 4 * CHUNK_BYTES;

/// How an image came into the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loaded {
    AlreadyThere,
    /// Only the layers that the engine lacked were sent.
    Thin,
    /// All of it was sent.
    Full,
}

/// What sending an image took.
#[derive(Debug, Clone, Copy)]
struct Sent {
    seconds: f64,
    /// Bytes of the layers that were sent.
    bytes: u64,
}

/// An assembled image, unpacked for what is to run it: what it is made of, and where it is.
pub async fn unpacked(
    assembly: &Arc<Assembly>,
    by: &Unpacked,
    cache: &Cache,
) -> Result<(ImageFacts, engine::ImageFacts)> {
    let origin = sandbox::Origin::Assembly(Arc::clone(assembly));
    let (found, load_seconds) = sandbox::sandbox(origin, by, cache).await?;
    let facts = ImageFacts {
        id: Some(found.id.clone()),
        load_seconds,
        ..assembly.facts.clone()
    };
    Ok((facts, found))
}

/// An image that its digest names, or its archive, unpacked in the cache by Apptainer, whoever made it.
pub async fn unpacked_from(reference: &str, cache: &Cache) -> Result<engine::ImageFacts> {
    let unpinned = || {
        Error::Input(format!(
            "image {reference}: expected REGISTRY/REPOSITORY@sha256:DIGEST, or an archive"
        ))
    };
    let origin = sandbox::Origin::of(reference).ok_or_else(unpinned)?;
    let by = Unpacked::Apptainer(Apptainer::default());
    Ok(sandbox::sandbox(origin, &by, cache).await?.0)
}

/// An image that the engine has.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    /// Its ID in this engine: the digest of its configuration or of its manifest.
    pub id: String,
    /// What it is made of, with its name in the engine.
    pub facts: ImageFacts,
    pub loaded: Loaded,
}

/// Makes sure that the engine has an image.
///
/// The image has its name only while it is whole: whatever an engine says about a load, its ID and
/// its layers are compared with what was worked out beforehand.
pub async fn ensure(engine: &Engine, assembly: &Arc<Assembly>, cache: &Cache) -> Result<Ready> {
    let ready = |id: String, loaded: Loaded, sent: Option<Sent>| Ready {
        facts: ImageFacts {
            id: Some(id.clone()),
            load_seconds: sent.map(|sent| sent.seconds),
            loaded_bytes: sent.map(|sent| sent.bytes),
            ..assembly.facts.clone()
        },
        id,
        loaded,
    };
    if let Check::Right(id) = check(engine, assembly).await? {
        return Ok(ready(id, Loaded::AlreadyThere, None));
    }
    let _lock = lock(assembly, cache).await?;
    // Whoever held the lock may have loaded it.
    match check(engine, assembly).await? {
        Check::Right(id) => return Ok(ready(id, Loaded::AlreadyThere, None)),
        Check::Wrong(_) => engine.untag(&assembly.reference).await?,
        Check::Absent => {}
    }
    let present = layers_present(engine, assembly).await?;
    if present > 0 {
        match load(engine, assembly, present, cache).await {
            // A full load would fail by these as well, and say less of it.
            Err(error) if is_final(&error) => {
                return Err(give_up(engine, assembly, cache, error).await);
            }
            // Whatever else went wrong, the full load below will say it again if it matters.
            Err(_) => {}
            Ok(sent) => {
                if let Ok(Check::Right(id)) = check(engine, assembly).await {
                    return Ok(ready(id, Loaded::Thin, Some(sent)));
                }
            }
        }
        cache.note(
            "the engine did not take a load of the missing layers alone; loading all of them",
        );
        engine.untag(&assembly.reference).await?;
    }
    let sent = match load(engine, assembly, 0, cache).await {
        Ok(sent) => sent,
        Err(error) => return Err(give_up(engine, assembly, cache, error).await),
    };
    let found = match check(engine, assembly).await? {
        Check::Right(id) => return Ok(ready(id, Loaded::Full, Some(sent))),
        Check::Wrong(found) => found,
        Check::Absent => "nothing".to_owned(),
    };
    engine.untag(&assembly.reference).await?;
    let expected = format!("{} or {}", assembly.config_id, assembly.manifest_id);
    Err(wrong(&assembly.reference, &found, &expected))
}

fn is_final(error: &Error) -> bool {
    match error {
        Error::StaleLayer { .. } => true,
        Error::Engine(error) => error.is_engine_gone(),
        _ => false,
    }
}

/// Leaves nothing behind that a failed load may have made, and nothing that made it fail.
async fn give_up(engine: &Engine, assembly: &Assembly, cache: &Cache, error: Error) -> Error {
    // The load's error says more than one about clearing up after it would.
    let _ = engine.untag(&assembly.reference).await;
    if matches!(error, Error::StaleLayer { .. }) {
        cache.forget_notes();
    }
    error
}

fn wrong(reference: &str, found: &str, expected: &str) -> Error {
    Error::Trouble(format!(
        "tag {reference} points to {found} after loading, expected {expected}; the tag was removed: \
         retry, and if it happens again, check the engine's storage"
    ))
}

async fn lock(assembly: &Arc<Assembly>, cache: &Cache) -> Result<File> {
    let name = format!("load-{}", assembly.reference.replace(['/', ':'], "-"));
    let cache = cache.clone();
    blocking(move || cache.lock(&name)).await
}

/// Work that does not wait for the network goes to a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(background)?
}

fn background(error: tokio::task::JoinError) -> Error {
    at(Path::new("background work"))(io::Error::other(error))
}

enum Check {
    Absent,
    Right(String),
    Wrong(String),
}

/// Whether the engine has the image under its name, with the right ID and layers.
async fn check(engine: &Engine, assembly: &Assembly) -> Result<Check> {
    let Some(found) = engine.image(&assembly.reference).await? else {
        return Ok(Check::Absent);
    };
    let ids = [
        assembly.config_id.to_string(),
        assembly.manifest_id.to_string(),
    ];
    let layers: Vec<String> = assembly
        .layers
        .iter()
        .map(|layer| layer.id.digest.to_string())
        .collect();
    Ok(if ids.contains(&found.id) && found.layers == layers {
        Check::Right(found.id)
    } else {
        Check::Wrong(found.id)
    })
}

/// How many of the image's layers, from the base up, some image of the engine has in this order.
/// Engines find a layer by everything below it, so only such a run counts.
async fn layers_present(engine: &Engine, assembly: &Assembly) -> Result<usize> {
    let mut most = 0;
    for image in engine.list_images(LABEL_IMAGE).await? {
        // One that cannot be read is no reason to stop: a full load is always right.
        let Ok(Some(facts)) = engine.image(&image.id).await else {
            continue;
        };
        let same = assembly
            .layers
            .iter()
            .zip(&facts.layers)
            .take_while(|(ours, theirs)| ours.id.digest.to_string() == **theirs)
            .count();
        most = most.max(same);
    }
    Ok(most)
}

/// Streams the image to the engine, without its first `present` layers.
async fn load(
    engine: &Engine,
    assembly: &Arc<Assembly>,
    present: usize,
    cache: &Cache,
) -> Result<Sent> {
    let began = Instant::now();
    let writing = Arc::clone(assembly);
    let total = oci::archive_bytes(&assembly.archive_layers(present));
    let mut meter = cache.start(Action::Load, &assembly.reference, Some(total));
    let (to, from) = tokio::io::duplex(WAITING_BYTES);
    let (broken, is_broken) = oneshot::channel();
    let writer = tokio::spawn(blocking(move || {
        let to = io::BufWriter::with_capacity(CHUNK_BYTES, SyncIoBridge::new(to));
        let layers = writing.archive_layers(present);
        let written = oci::write_archive(&writing.reference, &writing.documents, &layers, to);
        if written.is_err() {
            let _ = broken.send(());
        }
        written
    }));
    // What was written of an archive ends like a whole one: the engine has to know that it is none.
    let end = stream::once(is_broken).filter_map(|broken| {
        future::ready(
            broken
                .ok()
                .map(|()| Err(io::ErrorKind::UnexpectedEof.into())),
        )
    });
    let stream = ReaderStream::with_capacity(from, CHUNK_BYTES).chain(end);
    let report = move |bytes: u64| meter.advance_to(bytes.min(total));
    let loaded = engine.load(stream, report).await;
    match writer.await.map_err(background)? {
        // The engine only knows that the archive broke off, unless it broke it off itself.
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(loaded.map(|()| Sent {
            seconds: began.elapsed().as_secs_f64(),
            bytes: total,
        })?),
    }
}

fn is_broken_pipe(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}

impl Assembly {
    fn archive_layers(&self, present: usize) -> Vec<ArchiveLayer<'_>> {
        self.layers
            .iter()
            .enumerate()
            .map(|(number, layer)| ArchiveLayer {
                name: layer.name,
                id: layer.id,
                source: (number >= present).then_some(&layer.source),
            })
            .collect()
    }

    /// Writes the image as an archive that `docker image load` and `podman load` take; compressed by
    /// zstd where its name ends in `.zst`.
    /// Returns its digest.
    pub fn write_archive(&self, to: &Path, cache: &Cache) -> Result<Digest> {
        let is_zstd = to.extension().is_some_and(|end| end == "zst");
        let layers = self.archive_layers(0);
        let mut meter = cache.start(
            Action::Save,
            &self.reference,
            Some(oci::archive_bytes(&layers)),
        );
        atomic_write::whole(to, |file| {
            let file = io::BufWriter::with_capacity(CHUNK_BYTES, file);
            let mut hashing = HashingWriter::new(file);
            let mut write = |to: &mut dyn Write| {
                let to = HashingWriter::new(to).heard(|done| meter.advance_to(done));
                oci::write_archive(&self.reference, &self.documents, &layers, to)
            };
            if is_zstd {
                let mut encoder = zstd_encoder(&mut hashing).map_err(at(to))?;
                write(&mut encoder)?;
                encoder.finish().map_err(at(to))?;
            } else {
                write(&mut hashing)?;
            }
            let (mut file, digest, _) = hashing.finish();
            file.flush().map_err(at(to))?;
            Ok(digest)
        })
    }
}
