//! Making images: loaded into an engine, or as files.

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bench_suite::executors::{IMAGE_VARIABLE, ImageSource, Loaded, LocalRuntime, SourceError};
use engine::{Endpoint, Engine, Store};
use futures_util::future::BoxFuture;
use images::{
    Assembly, Cache, Catalog, Flavour, GpuArchitecture, Image, LockUse, OwnImage, ReadyMade,
    SCENARIO_IN_IMAGE, Sources,
};
use protocol::Device;
use record::{Gpu, ImageFacts, ImageLock};

use super::references;
use crate::{
    cli::SourceArgs,
    error::{Error, Result, starting},
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

/// An image that the user chose.
#[derive(Debug, Clone)]
pub(crate) enum Chosen {
    /// It is made from its spec.
    Spec(Box<Image>),
    /// It is complete, in an engine or a registry.
    ReadyMade {
        /// What the session calls it.
        name: String,
        /// What the engine calls it.
        reference: String,
        /// What it is, where it was looked at.
        found: Option<Box<ReadyMade>>,
    },
    /// It is anybody's, in an engine, for programs.
    Own(Box<OwnImage>),
}

impl Chosen {
    /// An image by its spec, which must be one that the device can run.
    pub(crate) fn spec(name_or_file: &str, device: Device, root: &Path) -> Result<Self> {
        let image = Catalog::new(&root.join("images")).image(name_or_file)?;
        if device.is_cuda() && image.spec.libtorch.flavour() == Flavour::Cpu {
            return Err(no_cuda(&image.name, device));
        }
        Ok(Self::Spec(Box::new(image)))
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Spec(image) => &image.name,
            Self::ReadyMade { name, .. } => name,
            Self::Own(image) => &image.reference,
        }
    }

    /// What an engine calls it, where it is complete.
    pub(super) fn reference(&self) -> Option<&str> {
        match self {
            Self::ReadyMade { reference, .. } => Some(reference),
            Self::Spec(_) | Self::Own(_) => None,
        }
    }

    /// What nobody has looked at yet, or, for an executor without an engine, will.
    pub(crate) fn named(name: &str, reference: &str) -> Self {
        Self::ReadyMade {
            name: name.to_owned(),
            reference: reference.to_owned(),
            found: None,
        }
    }
}

/// Makes the images that the user named; executors ask for no others.
pub(super) struct Supply {
    images: BTreeMap<String, Chosen>,
    sources: Sources,
    /// Those that runs are to use.
    gpus: Vec<Gpu>,
    printer: Printer,
    /// Unpacked libraries and images lie in it: nobody clears it while they run.
    in_use: Mutex<Option<Cache>>,
}

impl Supply {
    pub(super) fn new(
        images: &[Chosen],
        sources: Sources,
        gpus: Vec<Gpu>,
        printer: &Printer,
    ) -> Self {
        let named = |image: &Chosen| (image.name().to_owned(), image.clone());
        Self {
            images: images.iter().map(named).collect(),
            sources,
            gpus,
            printer: printer.clone(),
            in_use: Mutex::default(),
        }
    }

    async fn load(&self, name: &str, store: Store<'_>) -> Result<Loaded> {
        let cache = self.cache()?;
        let image = match &self.images[name] {
            Chosen::Spec(image) => image,
            Chosen::ReadyMade {
                reference, found, ..
            } => {
                let image = match found {
                    Some(found) => (**found).clone(),
                    None => images::ready_made(store, reference, &cache).await?,
                };
                return self.take(name, image);
            }
            Chosen::Own(image) => {
                return Ok(Loaded {
                    id: image.id.clone(),
                    program: None,
                    facts: image.facts.clone(),
                    notes: image.notes.clone(),
                    unpacked: Some(image.declared.clone()),
                });
            }
        };
        check_gpus(name, image.spec.gpu_architectures.iter(), &self.gpus)?;
        let assembly = assembled((**image).clone(), &self.sources, &cache, &self.printer).await?;
        let (id, facts, unpacked) = match store {
            Store::Engine(engine) => {
                let ready = images::ensure(engine, &assembly, &cache).await?;
                (ready.id, ready.facts, None)
            }
            Store::Unpacked(by) => {
                let (facts, unpacked) = images::unpacked(&assembly, by, &cache).await?;
                (unpacked.id.clone(), facts, Some(unpacked))
            }
        };
        let mut notes = Vec::new();
        if let Some(ImageLock::Differs { cause }) = &facts.lock {
            let note = format!("{name} is not the locked image: {cause}");
            self.printer.note(&note);
            notes.push(note);
        }
        Ok(Loaded {
            facts,
            id,
            program: Some(SCENARIO_IN_IMAGE.to_owned()),
            notes,
            unpacked,
        })
    }

    /// An image that is complete: nothing is fetched but by the engine, and nothing is built.
    fn take(&self, name: &str, image: ReadyMade) -> Result<Loaded> {
        if let Some(gpu) = self.gpus.first()
            && !image.has_cuda
        {
            return Err(no_cuda(name, Device::Cuda(gpu.index)));
        }
        check_gpus(name, image.gpu_architectures.iter(), &self.gpus)?;
        let mut notes = Vec::new();
        if !name.starts_with(&image.name) {
            notes.push(format!("{name} was made as {}", image.name));
        }
        Ok(Loaded {
            facts: ImageFacts {
                name: name.to_owned(),
                lock: self.locked_as(&image),
                ..image.facts
            },
            id: image.id,
            program: Some(SCENARIO_IN_IMAGE.to_owned()),
            notes,
            unpacked: Some(image.declared),
        })
    }

    /// Whether a complete image is the one that is locked here under its name; `None` where no lock
    /// can say.
    fn locked_as(&self, image: &ReadyMade) -> Option<ImageLock> {
        let catalog = Catalog::new(&self.sources.workspace.join("images"));
        let locked = catalog.image(&image.name).ok()?.lock?.expected.image?;
        let ids = [locked.config_id, locked.manifest_id].map(|id| id.to_string());
        ids.contains(&image.id).then_some(ImageLock::Matches)
    }

    /// The cache, which nobody clears for as long as this is there.
    fn cache(&self) -> Result<Cache> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = &*in_use {
            return Ok(cache.clone());
        }
        let cache = cache(&self.printer)?;
        // What was unpacked before, which assembling another one would clear out first.
        for image in self.images.values() {
            let declared = match image {
                Chosen::Spec(_) => None,
                Chosen::ReadyMade { found, .. } => found.as_ref().map(|found| &found.declared),
                Chosen::Own(image) => Some(&image.declared),
            };
            if let Some(root) = declared.and_then(|declared| declared.root.as_deref()) {
                cache.used(root);
            }
        }
        *in_use = Some(cache.clone());
        Ok(cache)
    }

    async fn unpack(&self, name: &str) -> Result<(LocalRuntime, ImageFacts)> {
        let image = match &self.images[name] {
            Chosen::Spec(image) => (**image).clone(),
            Chosen::ReadyMade { reference, .. } if env::var_os(IMAGE_VARIABLE).is_some() => {
                return Ok(references::in_pod(name, reference));
            }
            Chosen::ReadyMade { .. } | Chosen::Own(_) => {
                return Err(Error::Input(format!(
                    "{name} is a complete image and runs in a container; expected an engine \
                     (`--engine container`), or an image in `images/`"
                )));
            }
        };
        let (sources, cache) = (self.sources.clone(), self.cache()?);
        blocking(move || {
            sources.check(&cache)?;
            let libtorch = images::libtorch_of(&image, &sources, &cache)?;
            let scenario = images::scenario_of(&libtorch, &sources, &cache)?;
            cache.trim(sources.cache_bytes)?;
            let runtime = LocalRuntime {
                program: scenario.path.clone(),
                library_path: libtorch.library_folders(),
            };
            let facts = ImageFacts {
                name: image.name.clone(),
                libtorch_version: libtorch.version.clone(),
                flavour: libtorch.name.clone(),
                size_bytes: Some(libtorch.size_bytes()),
                scenario_sha256: Some(scenario.sha256.hex()),
                ..ImageFacts::default()
            };
            Ok((runtime, facts))
        })
        .await
    }
}

impl ImageSource for Supply {
    fn load<'a>(
        &'a self,
        image: &'a str,
        store: Store<'a>,
    ) -> BoxFuture<'a, Result<Loaded, SourceError>> {
        Box::pin(async move { Ok(self.load(image, store).await?) })
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

fn no_cuda(image: &str, device: Device) -> Error {
    Error::Input(format!(
        "the image {image} holds libtorch without CUDA and cannot run on {device}; take one with \
         CUDA (`{} images list`), or --device cpu",
        protocol::program()
    ))
}

/// Refuses a GPU that an image kept no code for.
fn check_gpus<'a>(
    image: &str,
    kept: impl Iterator<Item = &'a GpuArchitecture>,
    gpus: &[Gpu],
) -> Result<()> {
    let kept: Vec<&GpuArchitecture> = kept.collect();
    for gpu in gpus.iter().filter(|_| !kept.is_empty()) {
        let Some(capability) = &gpu.compute_capability else {
            continue;
        };
        if !kept.iter().any(|kept| kept.runs_on(capability)) {
            let kept: Vec<String> = kept.iter().map(ToString::to_string).collect();
            return Err(Error::Input(format!(
                "the image {image} kept GPU code for {} alone, and {} has compute capability \
                 {capability}; build it with this GPU in `gpu_architectures`, or without that key",
                kept.join(", "),
                gpu.name
            )));
        }
    }
    Ok(())
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
        let mut assembly = images::assemble(&image, &sources, &cache)?;
        if let Some(file) = images::write_missing_lock(&image, &sources, &mut assembly)? {
            printer.note(&format!("locked {} in {}", image.name, file.display()));
        }
        Ok(Arc::new(assembly))
    })
    .await
}

/// The image, once a base that only an engine has is in the cache.
pub(crate) async fn with_base(image: Image, cache: &Cache) -> Result<Image> {
    if matches!(image.spec.base, images::Base::Image(_)) {
        let engine = Engine::connect(&Endpoint::Auto).await?;
        images::fetch_base(&image, &engine, cache).await?;
    }
    Ok(image)
}

/// Work that takes long and does not wait for the network goes to a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(starting("work in the background"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_without_code_in_the_image_is_refused() {
        let gpu = |capability: Option<&str>| Gpu {
            name: "NVIDIA A100".to_owned(),
            compute_capability: capability.map(str::to_owned),
            ..Gpu::default()
        };
        let kept = ["sm_80", "sm_90"].map(|name| name.parse::<GpuArchitecture>().unwrap());
        let check = |capability| check_gpus("slim", kept.iter(), &[gpu(capability)]);
        for fits in [None, Some("8.0"), Some("8.6"), Some("9.0")] {
            check(fits).unwrap();
        }
        for other in ["7.5", "10.0", "12.0"] {
            let error = check(Some(other)).unwrap_err().to_string();
            assert!(
                error.contains(other) && error.contains("sm_80, sm_90"),
                "{error}"
            );
        }
        check_gpus("whole", [].iter(), &[gpu(Some("7.5"))]).unwrap();
    }

    #[test]
    fn no_image_can_set_what_a_run_sets() {
        let machine = record::Machine::default();
        let cuda = protocol::Device::Cuda(0);
        let device = bench_suite::device::environment([cuda], Some(&machine)).into_iter();
        let reserved = images::reserved_environment();
        for (name, _) in device {
            assert!(reserved.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
