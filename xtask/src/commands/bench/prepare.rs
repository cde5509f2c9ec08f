//! Making images: loaded into an engine, or as files.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bench_suite::executors::{ImageSource, Loaded, LocalRuntime, SourceError};
use engine::{Endpoint, Engine};
use futures_util::future::BoxFuture;
use images::{Assembly, Cache, Image, LockState, LockUse, Parts, Sources};
use record::{ImageFacts, ImageLock, ImageParts};

use crate::{
    cli::SourceArgs,
    error::{Error, Result},
    printer::Printer,
};

/// The user's cache; the printer shows what is done with it.
pub(crate) fn cache(printer: &Printer) -> Result<Cache> {
    Ok(Cache::user()?.with_progress(printer.clone()))
}

/// Where the parts of images come from.
pub(crate) fn sources(args: &SourceArgs, root: &Path) -> Sources {
    Sources {
        workspace: root.to_owned(),
        target: root.join("target"),
        libtorch: args.libtorch.clone(),
        scenario_binary: args.scenario_binary.clone(),
        base_archive: args.base_archive.clone(),
        locks: LockUse::Preferred,
        cache_bytes: args.cache_size.0,
    }
}

/// Makes the images that the user named; executors ask for no others.
pub(super) struct Supply {
    images: BTreeMap<String, Image>,
    sources: Sources,
    printer: Printer,
    /// Unpacked libraries lie in it: nobody clears it while they run.
    in_use: Mutex<Option<Cache>>,
}

impl Supply {
    pub(super) fn new(images: &[Image], sources: Sources, printer: &Printer) -> Self {
        let named = |image: &Image| (image.name.clone(), image.clone());
        Self {
            images: images.iter().map(named).collect(),
            sources,
            printer: printer.clone(),
            in_use: Mutex::default(),
        }
    }

    async fn load(&self, name: &str, engine: &Engine) -> Result<Loaded> {
        let cache = cache(&self.printer)?;
        let assembly = assembled(
            self.images[name].clone(),
            &self.sources,
            &cache,
            &self.printer,
        )
        .await?;
        let ready = images::ensure(engine, &assembly, &cache).await?;
        let mut notes = Vec::new();
        if let LockState::Differs(why) = &ready.facts.lock {
            let note = format!("{name} is not the locked image: {why}");
            self.printer.note(&note);
            notes.push(note);
        }
        let parts = Parts::from(&*assembly);
        Ok(Loaded {
            facts: facts_of(&ready.facts, (&ready.reference, &ready.id), parts),
            id: ready.id,
            notes,
        })
    }

    async fn unpack(&self, name: &str) -> Result<(LocalRuntime, ImageFacts)> {
        let image = self.images[name].clone();
        let (sources, printer) = (self.sources.clone(), self.printer.clone());
        let (cache, runtime, facts) = blocking(move || {
            let cache = cache(&printer)?;
            sources.check(&cache)?;
            let libtorch = images::libtorch_of(&image, &sources, &cache)?;
            let scenario = images::scenario_of(&libtorch, &sources, &cache)?;
            cache.trim(sources.cache_bytes)?;
            let runtime = images::LocalRuntime::new(&scenario, &libtorch);
            let facts = ImageFacts {
                name: image.name.clone(),
                libtorch_version: libtorch.version.clone(),
                flavour: libtorch.name.clone(),
                size_bytes: Some(libtorch.size_bytes()),
                scenario_sha256: Some(scenario.sha256.hex()),
                ..ImageFacts::default()
            };
            Ok((cache, runtime, facts))
        })
        .await?;
        *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = Some(cache);
        let runtime = LocalRuntime {
            program: runtime.binary,
            library_path: runtime.library_path,
        };
        Ok((runtime, facts))
    }
}

impl ImageSource for Supply {
    fn load<'a>(
        &'a self,
        image: &'a str,
        engine: &'a Engine,
    ) -> BoxFuture<'a, Result<Loaded, SourceError>> {
        Box::pin(async move { Ok(self.load(image, engine).await?) })
    }

    fn unpack<'a>(
        &'a self,
        image: &'a str,
    ) -> BoxFuture<'a, Result<(LocalRuntime, ImageFacts), SourceError>> {
        Box::pin(async move { Ok(self.unpack(image).await?) })
    }

    fn note(&self, text: &str) {
        self.printer.note(text);
    }
}

/// Assembles an image away from the threads that talk to the engine. A lock that is missing is
/// written, where all comes from where the spec says.
pub(crate) async fn assembled(
    image: Image,
    sources: &Sources,
    cache: &Cache,
    printer: &Printer,
) -> Result<Arc<Assembly>> {
    {
        let (sources, cache) = (sources.clone(), cache.clone());
        blocking(move || Ok(sources.check(&cache)?)).await?;
    }
    let image = with_base(image, cache).await?;
    let (sources, cache, printer) = (sources.clone(), cache.clone(), printer.clone());
    blocking(move || {
        let assembly = images::assemble(&image, &sources, &cache)?;
        if let Some(file) = images::write_missing_lock(&image, &sources, &assembly)? {
            printer.note(&format!("locked {} in {}", image.name, file.display()));
        }
        Ok(Arc::new(assembly))
    })
    .await
}

/// The image, once a base that only an engine has is in the cache.
pub(crate) async fn with_base(image: Image, cache: &Cache) -> Result<Image> {
    if matches!(image.spec.base, images::Base::Image(_)) {
        let engine = Engine::connect(&Endpoint::auto()).await?;
        images::fetch_base(&image, &engine, cache).await?;
    }
    Ok(image)
}

fn facts_of(facts: &images::ImageFacts, (reference, id): (&str, &str), parts: Parts) -> ImageFacts {
    ImageFacts {
        name: facts.name.clone(),
        reference: Some(reference.to_owned()),
        id: Some(id.to_owned()),
        libtorch_version: facts.libtorch_version.clone(),
        flavour: facts.libtorch_name.clone(),
        base: Some(facts.base.clone()),
        size_bytes: Some(facts.size_bytes()),
        scenario_sha256: Some(facts.scenario_sha256.hex()),
        lock: Some(lock_of(&facts.lock)),
        ..made_of(parts)
    }
}

/// How an image stands to its lock, in a session's words.
pub(crate) fn lock_of(state: &LockState) -> ImageLock {
    match state {
        LockState::Matches => ImageLock::Matches,
        LockState::OtherScenario(cause) => ImageLock::OtherScenario {
            cause: cause.clone(),
        },
        LockState::Differs(cause) => ImageLock::Differs {
            cause: cause.clone(),
        },
        LockState::Unlocked => ImageLock::Unlocked,
    }
}

/// What an image is made of, in a session's words.
pub(crate) fn made_of(parts: Parts) -> ImageFacts {
    ImageFacts {
        libtorch_version: parts.versions.get("torch").cloned().unwrap_or_default(),
        layers: parts.layers,
        parts: Some(ImageParts {
            versions: parts.versions,
            packages: parts.packages,
            environment: parts.environment,
            libraries: parts.libraries,
        }),
        ..ImageFacts::default()
    }
}

/// Work that takes long and does not wait for the network goes to a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|source| Error::Start {
            what: "work in the background".to_owned(),
            source: std::io::Error::other(source),
        })?
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_image_can_set_what_a_run_sets() {
        let machine = record::Machine::default();
        let cuda = protocol::Device::Cuda(0);
        let device = bench_suite::device::environment(cuda, &machine).into_iter();
        let reserved = images::reserved_environment();
        for (name, _) in device {
            assert!(reserved.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
