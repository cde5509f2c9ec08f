//! From the user's choices to an executor: engine, images, libtorch, the scenario binary.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use bench_suite::{
    execute::{self, Container, ContainerImage, Executor, GpuProbe, LocalRuntime, Mock, Process},
    live::Live,
};
use engine::{Endpoint, Engine, GpuAccess, GpuHost};
use images::{Assembly, Cache, Catalog, Flavour, Image, LockState, LockUse, Parts, Sources};
use protocol::Device;
use record::{EngineFacts, ImageFacts, ImageLock, ImageParts};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{EngineChoice, SourceArgs},
    error::{Error, Result},
    printer::Printer,
};

/// Where runs execute.
pub(crate) enum Place {
    Containers(Engine, Live),
    Processes {
        why: String,
        live: Live,
    },
    /// Nowhere: the metrics are invented.
    Nowhere(Mock),
}

impl Place {
    /// `live` is where the monitors put their newest readings.
    pub(crate) async fn choose(
        choice: &EngineChoice,
        live: &Live,
        printer: &Printer,
    ) -> Result<Self> {
        let live = live.clone();
        if let EngineChoice::Mock(script) = choice {
            return Ok(Self::Nowhere(Mock::new(script)?.telling(live)));
        }
        if *choice == EngineChoice::Process {
            return Ok(Self::Processes {
                why: "asked for with --engine process".to_owned(),
                live,
            });
        }
        match Engine::connect(&Endpoint::auto()).await {
            Ok(engine) => {
                printer.note(&format!(
                    "runs execute in containers: {}",
                    engine.facts().describe()
                ));
                Ok(Self::Containers(engine, live))
            }
            Err(error) if *choice == EngineChoice::Docker => Err(error.into()),
            Err(error) => {
                printer.note(&format!("runs execute as plain processes, for {error}"));
                Ok(Self::Processes {
                    why: error.to_string(),
                    live,
                })
            }
        }
    }

    /// Removes what a session may have left in the engine.
    pub(crate) async fn clean_up(&self) {
        if let Self::Containers(engine, _) = self {
            // What cannot be removed now is swept by the next session.
            let _ = engine.cleanup().await;
        }
    }
}

/// The images that the user named, or the one that fits the device.
pub(crate) fn images(names: &[String], device: Device, root: &Path) -> Result<Vec<Image>> {
    let catalog = Catalog::new(&root.join("images"));
    let installed = || images::installed_version().is_some_and(|v| v.starts_with("2.11.0+cu"));
    let fitting = match device.is_cuda() {
        false => "torch-2.11.0-cpu",
        // The same libtorch, without 2 GB to download, which may not be possible.
        true if installed() => "torch-2.11.0-installed",
        true => "torch-2.11.0-cu130",
    };
    let default = [fitting.to_owned()];
    let names = if names.is_empty() { &default } else { names };
    let images: Vec<Image> = names
        .iter()
        .map(|name| catalog.image(name))
        .collect::<images::Result<_>>()?;
    for image in &images {
        if device.is_cuda() && image.spec.libtorch.flavour() == Flavour::Cpu {
            return Err(Error::NoCudaInImage {
                image: image.name.clone(),
                device,
            });
        }
    }
    Ok(images)
}

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
    }
}

/// Everything that a session needs besides its plan.
pub(crate) struct Ready {
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) engine: EngineFacts,
    pub(crate) images: Vec<ImageFacts>,
    pub(crate) notes: Vec<String>,
    /// The libraries of plain processes lie in it: nobody clears it while they run.
    _cache: Option<Cache>,
}

/// Makes ready whatever is missing: fetches, builds, assembles, loads.
pub(crate) async fn ready(
    place: &Place,
    images: Vec<Image>,
    devices: &[Device],
    sources: Sources,
    printer: &Printer,
) -> Result<Ready> {
    match place {
        Place::Containers(engine, live) => {
            containers(engine, live, images, devices, sources, printer).await
        }
        Place::Processes { why, live } => {
            let printer = printer.clone();
            let (why, live, devices) = (why.clone(), live.clone(), devices.to_vec());
            blocking(move || processes(&images, &devices, &sources, &why, live, &printer)).await
        }
        Place::Nowhere(mock) => Ok(nowhere(mock, &images)),
    }
}

async fn containers(
    engine: &Engine,
    live: &Live,
    images: Vec<Image>,
    devices: &[Device],
    sources: Sources,
    printer: &Printer,
) -> Result<Ready> {
    let cache = cache(printer)?;
    let mut made = BTreeMap::new();
    let mut facts = Vec::new();
    let mut notes = Vec::new();
    for image in images {
        let assembly = assembled(image, &sources, &cache, printer).await?;
        let ready = images::ensure(engine, &assembly, &cache).await?;
        if let LockState::Differs(why) = &ready.facts.lock {
            let note = format!("{} is not the locked image: {why}", ready.facts.name);
            printer.note(&note);
            notes.push(note);
        }
        let in_engine = engine.image(&ready.id).await?;
        made.insert(
            ready.facts.name.clone(),
            ContainerImage {
                image: ready.id.clone(),
                entrypoint: None,
                environment: in_engine.map(|found| found.environment).unwrap_or_default(),
            },
        );
        let parts = Parts::from(&*assembly);
        facts.push(facts_of(&ready.facts, (&ready.reference, &ready.id), parts));
    }
    for left in engine.sweep_dead_owners().await? {
        printer.note(&format!(
            "removed the container {} of a session that is gone",
            left.name
        ));
    }
    let mut gpus = Vec::new();
    for device in devices {
        if let (Device::Cuda(index), Some(image)) = (device, made.values().next()) {
            gpus.push(gpu(engine, image, *index, printer).await?);
        }
    }
    let about = engine.facts();
    Ok(Ready {
        engine: EngineFacts {
            kind: about.product.to_string().to_lowercase(),
            version: Some(about.version.clone()),
            storage_driver: about.storage_driver.clone(),
            gpu_path: gpus
                .first()
                .map(|access| execute::path_word(access.path).to_owned()),
        },
        executor: Box::new(Container::new(engine.clone(), made, gpus).telling(live.clone())),
        images: facts,
        notes,
        _cache: None,
    })
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

/// The way to the GPU on which CUDA works inside a container.
async fn gpu(
    engine: &Engine,
    image: &ContainerImage,
    index: u32,
    printer: &Printer,
) -> Result<GpuAccess> {
    let bar = printer.spinner("looking for the way to the GPU");
    let cancel = CancellationToken::new();
    let found = execute::find_gpu(engine, &GpuHost::discover(), image, index, &cancel).await;
    bar.finish_and_clear();
    let access = found.map_err(|tried| Error::NoGpuInContainers {
        engine: engine.facts().describe(),
        tried: tried
            .iter()
            .map(tried_words)
            .collect::<Vec<_>>()
            .join("\n  "),
    })?;
    printer.note(&format!(
        "containers reach the GPU by {}",
        execute::path_word(access.path)
    ));
    Ok(access)
}

fn tried_words(probe: &GpuProbe) -> String {
    let obstacle = probe.obstacle.as_deref().unwrap_or("works");
    format!("{}: {obstacle}", execute::path_word(probe.path))
}

fn processes(
    images: &[Image],
    devices: &[Device],
    sources: &Sources,
    why: &str,
    live: Live,
    printer: &Printer,
) -> Result<Ready> {
    let cache = cache(printer)?;
    let mut runtimes = BTreeMap::new();
    let mut facts = Vec::new();
    sources.check(&cache)?;
    for image in images {
        let libtorch = images::libtorch_of(image, sources, &cache)?;
        let scenario = images::scenario_of(&libtorch, sources, &cache)?;
        let runtime = images::LocalRuntime::new(&scenario, &libtorch);
        facts.push(ImageFacts {
            name: image.name.clone(),
            libtorch_version: libtorch.version.clone(),
            flavour: libtorch.name.clone(),
            size_bytes: Some(libtorch.size_bytes()),
            scenario_sha256: Some(scenario.sha256.hex()),
            ..ImageFacts::default()
        });
        let runtime = LocalRuntime {
            program: runtime.binary,
            library_path: runtime.library_path,
        };
        runtimes.insert(image.name.clone(), runtime);
    }
    Ok(Ready {
        executor: Box::new(Process::new(runtimes, devices).telling(live)),
        engine: EngineFacts {
            kind: "process".to_owned(),
            ..EngineFacts::default()
        },
        images: facts,
        notes: vec![format!("no containers: {why}")],
        _cache: Some(cache),
    })
}

/// Makes nothing ready, for nothing runs.
fn nowhere(mock: &Mock, images: &[Image]) -> Ready {
    Ready {
        executor: Box::new(mock.clone()),
        engine: EngineFacts {
            kind: "mock".to_owned(),
            ..EngineFacts::default()
        },
        images: images
            .iter()
            .map(|image| ImageFacts {
                name: image.name.clone(),
                libtorch_version: "2.11.0".to_owned(),
                flavour: "mock".to_owned(),
                ..ImageFacts::default()
            })
            .collect(),
        notes: vec!["made by the mock engine; nothing was measured".to_owned()],
        _cache: None,
    }
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
