//! A base that an engine has, or can pull: saved into the cache once, by digest.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use engine::{Engine, ImageFacts, Store};

use crate::{
    Base, Digest, Error, Image, Result,
    error::at,
    load::sandbox::{Origin, sandbox},
    login::{login, registry_of},
    progress::{Action, Meter},
    store::Cache,
};

/// Where the archive of an image lies in the cache.
pub(super) fn saved_place(reference: &str, cache: &Cache) -> PathBuf {
    let key = Digest::of(reference.as_bytes()).short();
    cache.folder("bases").join(format!("image-{key}.tar"))
}

/// Makes sure that an image's base is in the cache where it is an image of an engine's: pulls it
/// where the engine lacks it, and saves it. Other bases need nothing.
///
/// The engine vouches for the reference's digest; the layers are checked against the saved
/// configuration when they are read, and against the lock where there is one.
pub async fn fetch_base(image: &Image, engine: &Engine, cache: &Cache) -> Result<()> {
    let Base::Image(reference) = &image.spec.base else {
        return Ok(());
    };
    let place = saved_place(reference, cache);
    if place.is_file() {
        return Ok(());
    }
    let id = match find(engine, reference).await? {
        Some(id) => id,
        None => pull(engine, reference, cache, NO_REGISTRY).await?.0,
    };
    save_to(&place, engine, &id, cache).await
}

/// The archive of an image that the engine has, or pulls by a digest, by its reference or ID; kept in
/// the cache, by its ID.
///
/// # Errors
/// [`Error::Input`] for an image that the engine lacks and that no digest names,
/// [`Error::Trouble`] for one that it cannot pull.
pub async fn saved_image(engine: &Engine, reference: &str, cache: &Cache) -> Result<PathBuf> {
    let unpinned = "; build or pull it first, or give the archive that `docker save` writes";
    let next = "Where no registry can be reached, give the archive that `docker save` writes";
    let (id, _) = find_or_pull(engine, reference, cache, next, unpinned).await?;
    let place = saved_place(&id, cache);
    if !place.is_file() {
        save_to(&place, engine, &id, cache).await?;
    }
    Ok(place)
}

async fn save_to(place: &Path, engine: &Engine, id: &str, cache: &Cache) -> Result<()> {
    let scratch = cache.scratch()?;
    let aside = scratch.path().join("image.tar");
    let meter = cache.start(Action::Save, id, None);
    save(engine, id, &aside, meter).await?;
    fs::rename(&aside, place).map_err(at(place))
}

/// The ID of an image that the engine has, by a digest of its manifest (as registries know it) or
/// by its ID (as one that was loaded is known).
pub(crate) async fn find(engine: &Engine, reference: &str) -> Result<Option<String>> {
    if let Some(found) = engine.image(reference).await? {
        return Ok(Some(found.id));
    }
    let Some((_, digest)) = reference.split_once('@') else {
        return Ok(None);
    };
    let found = engine.image(digest).await?.map(|found| found.id);
    Ok(found.filter(|id| id == digest))
}

/// What to do about a base that cannot be pulled.
const NO_REGISTRY: &str = "Where no registry can be reached, save the image on a machine that has it \
                           (`docker image save`) and load it here, or write `base: {archive: FILE}`";

/// What pulling an image took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pulled {
    /// `None` where the engine had it.
    pub(crate) seconds: Option<f64>,
    /// Compressed bytes of all layers, where they are known.
    pub(crate) bytes: Option<u64>,
}

/// The ID of an image that the engine has, or has to pull, and what this took. Nothing is pulled by a
/// name that may come to mean another image: `unpinned` ends the sentence that says so, and `next` is
/// what to do where the engine cannot pull.
async fn find_or_pull(
    engine: &Engine,
    reference: &str,
    cache: &Cache,
    next: &str,
    unpinned: &str,
) -> Result<(String, Pulled)> {
    if let Some(id) = find(engine, reference).await? {
        return Ok((id, Pulled::default()));
    }
    if !is_pinned(reference) {
        let engine = engine.facts().describe();
        return Err(Error::Input(format!(
            "image {reference} is not in {engine}{unpinned}"
        )));
    }
    pull(engine, reference, cache, next).await
}

/// The same with what is known of the image, which must be for this machine; `unfit` is the error
/// where it is not. Without an engine it is unpacked, also out of an archive.
pub(crate) async fn found_in(
    store: Store<'_>,
    reference: &str,
    cache: &Cache,
    (next, unpinned): (&str, &str),
    unfit: impl Fn(String) -> Error,
) -> Result<(ImageFacts, Pulled)> {
    let (found, pulled) = match store {
        Store::Engine(engine) => {
            let (id, pulled) = find_or_pull(engine, reference, cache, next, unpinned).await?;
            let found = engine.image(&id).await?;
            let gone = || unfit("the engine has it no more; run again".to_owned());
            (found.ok_or_else(gone)?, pulled)
        }
        Store::Unpacked(by) => {
            let Some(origin) = Origin::of(reference) else {
                return Err(Error::Input(format!(
                    "image {reference} is no file, and {} takes nothing from a registry by a name \
                     that may come to mean another image; give an archive (`docker image save`), or \
                     its digest: REGISTRY/REPOSITORY@sha256:DIGEST",
                    by.describe()
                )));
            };
            let (found, seconds) = sandbox(origin, by, cache).await?;
            let bytes = None;
            (found, Pulled { seconds, bytes })
        }
    };
    match &found.architecture {
        Some(other) if other != "amd64" => Err(unfit(format!("it is for {other}; expected amd64"))),
        _ => Ok((found, pulled)),
    }
}

/// Whether a reference says by its digest which image it means.
pub(crate) fn is_pinned(reference: &str) -> bool {
    let pinned = reference.rsplit_once('@');
    pinned.is_some_and(|(name, digest)| !name.is_empty() && digest.parse::<Digest>().is_ok())
}

/// Has the engine pull an image, and gives its ID and what that took; `next` is what to do
/// where it cannot.
pub(crate) async fn pull(
    engine: &Engine,
    reference: &str,
    cache: &Cache,
    next: &str,
) -> Result<(String, Pulled)> {
    let no = |cause: &str| {
        let engine = engine.facts().describe();
        Error::Trouble(format!(
            "the image {reference} is not in {engine}, and cannot be pulled: {cause}. {next}"
        ))
    };
    let began = Instant::now();
    let meter = Mutex::new(cache.start(Action::Download, reference, None));
    let pulled = engine
        .pull(
            reference,
            login(registry_of(reference))?,
            move |bytes, total| {
                let mut meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
                meter.set_total(total);
                meter.advance_to(bytes);
            },
        )
        .await;
    let bytes = pulled.map_err(|error| {
        let words = error.to_string();
        let cause = if words.contains("server gave HTTP response to HTTPS client") {
            "its registry answers without TLS, which the engine takes only from registries that its \
             settings name (Podman: `insecure = true` in registries.conf; Docker: \
             `insecure-registries` in daemon.json): "
        } else {
            ""
        };
        no(&format!("{cause}{words}"))
    })?;
    let seconds = Some(began.elapsed().as_secs_f64());
    let id = find(engine, reference).await?;
    let id = id.ok_or_else(|| no("the engine reported it as pulled, and does not have it"))?;
    Ok((id, Pulled { seconds, bytes }))
}

async fn save(engine: &Engine, id: &str, to: &Path, mut meter: Box<dyn Meter>) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(to).map_err(at(to))?);
    let mut done = 0;
    let saved = engine.save(id, |piece| {
        done += piece.len() as u64;
        meter.advance_to(done);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", to.display()));
        file.write_all(piece).map_err(named)
    });
    saved.await?;
    file.flush().map_err(at(to))
}
