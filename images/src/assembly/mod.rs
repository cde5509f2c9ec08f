//! Putting an image together: which layers, which documents, which IDs. Nothing here asks an engine.

pub(crate) mod compat_check;
pub(crate) mod contents;
pub(crate) mod lock_state;
pub(crate) mod sources;

use std::{collections::BTreeMap, path::PathBuf, thread};

use record::{ImageFacts, ImageLock, ImageParts};

use crate::{
    Base, Digest, Error, Flavour, Image, Libtorch, LibtorchSpec, Result,
    assembly::{
        compat_check::{check_libc, check_surroundings},
        contents::{ToldParts, environment, libtorch_tree, scenario_tree, settings},
        sources::{
            LockUse, Sources, base_in_words, find_base, find_libtorch, scenario_of, usable_lock,
        },
    },
    base::ready::{BaseLayer, ReadyBase},
    libtorch::Origin,
    lock::{
        Expected, ExpectedImage, ExpectedLayer, InstalledLibrary, InstalledLock, LOCK_VERSION,
        LibtorchLock, Lock, PLATFORM, Toolchain,
    },
    oci::{
        archive::Documents,
        layer::{LayerId, Source, Tree},
    },
    spec::{gpu::gpu_code, reserved::OWN},
    store::Cache,
    workload::{tch_workspace, toolchain},
};

/// One layer of an assembled image.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) id: LayerId,
    pub(crate) source: Source,
}

/// An image that is ready to be loaded into an engine.
#[derive(Debug, Clone)]
pub struct Assembly {
    /// The name that it gets: `torchgauge/<spec name>:<start of its configuration's digest>`.
    pub reference: String,
    /// Its ID on Docker's graph drivers and on Podman.
    pub config_id: Digest,
    /// Its ID on Docker's containerd store.
    pub manifest_id: Digest,
    pub facts: ImageFacts,
    /// The lock that this build would write.
    pub lock: Lock,
    pub(crate) layers: Vec<Layer>,
    pub(crate) documents: Documents,
}

/// Everything below the scenario binary.
pub(crate) struct Lower<'a> {
    image: &'a Image,
    sources: &'a Sources,
    /// The image's lock, where it is to be used.
    lock: Option<&'a Lock>,
    pub(crate) base: ReadyBase,
    base_note: Option<String>,
    pub(crate) libtorch: Libtorch,
    libtorch_lock: LibtorchLock,
    layers: Vec<Layer>,
}

impl<'a> Lower<'a> {
    pub(crate) fn facts(&self) -> ImageFacts {
        let has_cuda = self.libtorch.flavour == Flavour::Cuda;
        let told = ToldParts::of(&self.base, &self.libtorch_lock);
        let parts = ImageParts {
            versions: self.versions(),
            packages: told.packages,
            environment: environment(self.image, &self.libtorch, &self.base),
            libraries: told.libraries,
            gpu_code: Some(gpu_code(has_cuda, self.image.spec.gpu_architectures.iter())),
        };
        ImageFacts {
            name: self.image.name.clone(),
            libtorch_version: self.libtorch.version.clone(),
            flavour: self.libtorch.name.clone(),
            base: Some(base_in_words(self.image, self.sources)),
            layers: self.layers.iter().map(Layer::fact).collect(),
            parts: Some(parts),
            ..ImageFacts::default()
        }
    }

    pub(crate) fn ready(image: &'a Image, sources: &'a Sources, cache: &Cache) -> Result<Self> {
        if sources.locks == LockUse::Required && image.lock.is_none() {
            return Err(Error::no_lock(&image.reference));
        }
        let lock = usable_lock(image, sources)?;
        let ((base, base_note), libtorch) = base_and_libtorch(image, lock, sources, cache)?;
        for unread in &base.unread {
            cache.note(&format!("packages of the base are not listed: {unread}"));
        }
        check_surroundings(image, &base)?;
        let libtorch_lock = match &libtorch.origin {
            Origin::Wheels(lock) => LibtorchLock::Wheels((**lock).clone()),
            _ => LibtorchLock::Installed(installed_lock(&libtorch, cache)?),
        };
        let base_layer = |layer: &BaseLayer| Layer {
            name: "base",
            id: layer.id,
            source: Source::Part {
                file: layer.file.clone(),
                offset: layer.offset,
            },
        };
        let mut layers: Vec<Layer> = base.layers.iter().map(base_layer).collect();
        // What the base holds already needs no layer.
        if !matches!(libtorch.origin, Origin::Inside(_)) {
            let tree = libtorch_tree(image, &libtorch, cache)?;
            layers.push(layer(image, "libtorch", tree, cache)?);
        }
        Ok(Self {
            image,
            sources,
            lock,
            base,
            base_note,
            libtorch,
            libtorch_lock,
            layers,
        })
    }

    pub(crate) fn into_lock(self, whole: Option<ExpectedImage>) -> Lock {
        Lock {
            version: LOCK_VERSION,
            image: self.image.name.clone(),
            spec: self.image.spec.digest(),
            platform: PLATFORM.to_owned(),
            toolchain: self.toolchain(),
            expected: self.expected(whole),
            base: self.base.lock,
            contents: self.base.contents,
            libtorch: self.libtorch_lock,
            seal: Digest::of(b""),
        }
        .sealed()
    }

    /// The versions of what is in it: torch, NVIDIA's libraries, glibc.
    fn versions(&self) -> BTreeMap<String, String> {
        let mut found = self.libtorch.versions();
        let contents = self.base.contents.as_ref();
        let distribution = contents.and_then(|contents| contents.distribution.clone());
        found.extend(distribution.map(|name| ("distribution".to_owned(), name)));
        let glibc = self.base.glibc.map(|glibc| glibc.to_string());
        found.extend(glibc.map(|version| ("glibc".to_owned(), version)));
        found
    }

    fn toolchain(&self) -> Toolchain {
        toolchain::here(&self.sources.workspace, &self.libtorch.version)
    }

    fn expected(&self, whole: Option<ExpectedImage>) -> Expected {
        Expected {
            layers: self.layers.iter().map(Layer::expected).collect(),
            image: whole,
        }
    }
}

/// The base, how it differs from the locked one, and the libtorch.
fn base_and_libtorch(
    image: &Image,
    lock: Option<&Lock>,
    sources: &Sources,
    cache: &Cache,
) -> Result<((ReadyBase, Option<String>), Libtorch)> {
    let base = || find_base(image, lock, sources, cache);
    let libtorch = |base| find_libtorch(image, lock, sources, base, cache);
    // What lies on this machine is read in seconds: what is wrong with it is said before anything is
    // resolved or downloaded.
    if sources.base_archive.is_some() || image.spec.base != Base::Debian {
        let base = base()?;
        let libtorch = libtorch(Some(&base.0))?;
        return Ok((base, libtorch));
    }
    let is_installed = matches!(image.spec.libtorch, LibtorchSpec::Installed { .. });
    if is_installed || sources.libtorch.is_some() {
        let libtorch = libtorch(None)?;
        return Ok((base()?, libtorch));
    }
    // Neither needs the other, and each leaves cores idle for a while.
    thread::scope(|scope| {
        let base = scope.spawn(base);
        let libtorch = libtorch(None);
        let base = base.join();
        let base = base.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((base?, libtorch?))
    })
}

impl Layer {
    fn expected(&self) -> ExpectedLayer {
        ExpectedLayer {
            name: self.name.to_owned(),
            digest: self.id.digest,
            size_bytes: self.id.size_bytes,
        }
    }

    fn fact(&self) -> (String, u64) {
        (self.name.to_owned(), self.id.size_bytes)
    }
}

fn layer(image: &Image, name: &'static str, tree: Tree, cache: &Cache) -> Result<Layer> {
    Ok(Layer {
        name,
        id: tree.id(&format!("{} {name}", image.name), cache)?,
        source: Source::Tree(tree),
    })
}

/// Gets every part of an image and works out its layers and IDs. Takes minutes the first time
/// and well under a second when nothing has changed.
pub fn assemble(image: &Image, sources: &Sources, cache: &Cache) -> Result<Assembly> {
    sources.check(cache)?;
    let lower = Lower::ready(image, sources, cache)?;
    let scenario = scenario_of(&lower.libtorch, sources, cache)?;
    let top = layer(image, "scenario", scenario_tree(&scenario)?, cache)?;
    let settings = settings(
        image,
        &lower.libtorch,
        &lower.libtorch_lock,
        &scenario,
        &lower.base,
    );
    let all = lower.layers.iter().chain([&top]);
    let ids: Vec<LayerId> = all.map(|layer| layer.id).collect();
    check_libc(&lower, &scenario)?;
    let documents = Documents::new(&settings, &ids);
    let (config_id, manifest_id) = (documents.config_id(), documents.manifest_id());
    let compiled_from = sources
        .scenario_binary
        .is_none()
        .then(|| tch_workspace::sources_digest(&sources.workspace, &lower.libtorch.version));
    // What was compressed for a lock holds for the image that it locks.
    let locked = lower.lock.and_then(|lock| lock.expected.image.as_ref());
    let ids_agree =
        |image: &&ExpectedImage| (image.config_id, image.manifest_id) == (config_id, manifest_id);
    let whole = ExpectedImage {
        scenario: scenario.sha256,
        sources: compiled_from.transpose()?,
        layer: top.expected(),
        config_id,
        manifest_id,
        push_digest: locked.filter(ids_agree).and_then(|image| image.push_digest),
    };
    let state = lock_state::compare(
        image,
        sources,
        lower.lock,
        &lower.expected(Some(whole.clone())),
        &lower.toolchain(),
        lower.base_note.clone(),
    );
    if sources.locks == LockUse::Required
        && let ImageLock::Differs { cause } = state
    {
        return Err(Error::lock_differs(&image.reference, &cause));
    }
    cache.trim(sources.cache_bytes)?;
    let reference = format!("{OWN}{}:{}", image.name, config_id.short());
    let mut facts = ImageFacts {
        reference: Some(reference.clone()),
        scenario_sha256: Some(scenario.sha256.hex()),
        lock: Some(state),
        ..lower.facts()
    };
    facts.layers.push(top.fact());
    facts.size_bytes = Some(facts.layers.iter().map(|(_, bytes)| bytes).sum());
    let mut layers = lower.layers.clone();
    layers.push(top);
    Ok(Assembly {
        reference,
        config_id,
        manifest_id,
        facts,
        lock: lower.into_lock(Some(whole)),
        layers,
        documents,
    })
}

/// Writes the lock of an image that was built without one, as cargo and uv do; without the scenario
/// binary where that was given. Where the base or libtorch was, others would not get the same, and
/// nothing is written. From then on the assembly stands to its lock as the next one will.
pub fn write_missing_lock(
    image: &Image,
    sources: &Sources,
    assembly: &mut Assembly,
) -> Result<Option<PathBuf>> {
    let file = image.lock_file();
    let is_others = sources.libtorch.is_some() || sources.base_archive.is_some();
    if is_others || sources.locks == LockUse::Ignored || file.exists() {
        return Ok(None);
    }
    let mut lock = assembly.lock.clone();
    let mut state = ImageLock::Matches;
    if sources.scenario_binary.is_some() {
        lock.expected.image = None;
        state = lock_state::other("none is locked");
    }
    lock.sealed().write(&file)?;
    assembly.facts.lock = Some(state);
    Ok(Some(file))
}

fn installed_lock(libtorch: &Libtorch, cache: &Cache) -> Result<InstalledLock> {
    let libraries = libtorch
        .libraries
        .iter()
        .map(|library| {
            Ok(InstalledLibrary {
                name: library.name.clone(),
                size_bytes: library.size_bytes,
                sha256: cache.digest_of(&library.path)?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(InstalledLock {
        version: libtorch.version.clone(),
        flavour: libtorch.flavour,
        name: libtorch.name.clone(),
        libraries,
    })
}
