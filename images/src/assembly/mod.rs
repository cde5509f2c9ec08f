//! Putting an image together: which layers, which documents, which IDs. Nothing here asks an engine.

pub(crate) mod compat_check;
pub(crate) mod contents;
mod linking;
pub(crate) mod lock_state;
pub(crate) mod sources;

use std::{collections::BTreeMap, path::PathBuf, thread};

use crate::{
    Base, Digest, Error, Flavour, Image, Libtorch, LibtorchSpec, Result, ScenarioBinary,
    assembly::{
        compat_check::{check_glibc, check_linking, check_surroundings},
        contents::{libtorch_tree, scenario_tree, settings},
        lock_state::LockState,
        sources::{
            LockUse, Sources, base_in_words, find_base, find_libtorch, scenario_of, usable_lock,
        },
    },
    base::ready::ReadyBase,
    libtorch::Origin,
    lock::{
        Expected, ExpectedImage, ExpectedLayer, InstalledLibrary, InstalledLock, LOCK_VERSION,
        LibtorchLock, Lock, PLATFORM,
    },
    oci::{
        archive::Documents,
        layer::{LayerId, Source, Tree},
    },
    spec::gpu::gpu_code,
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

/// What an assembled image is made of, for records and reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// The spec's name.
    pub name: String,
    /// torch's version.
    pub libtorch_version: String,
    /// The flavour's full name, such as `2.11.0+cu130`.
    pub libtorch_name: String,
    /// With or without CUDA.
    pub flavour: Flavour,
    /// The GPU architectures that it has code for: `all`, `none`, or the names in its spec.
    pub gpu_code: String,
    /// Digest of the scenario binary.
    pub scenario_sha256: Digest,
    /// What it stands on, in words.
    pub base: String,
    /// glibc's version in the base.
    pub glibc: Option<String>,
    /// The layers: name, digest, size as a tar archive.
    pub layers: Vec<ExpectedLayer>,
    /// How it stands to its lock.
    pub lock: LockState,
}

impl ImageFacts {
    /// The sum of the layers' sizes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.size_bytes).sum()
    }
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
    /// What it is made of.
    pub facts: ImageFacts,
    /// Versions that its libraries state themselves: torch, CUDA, cuDNN, NCCL, glibc.
    pub versions: BTreeMap<String, String>,
    /// The lock that this build would write.
    pub lock: Lock,
    pub(crate) layers: Vec<Layer>,
    pub(crate) workspace: PathBuf,
    pub(crate) documents: Documents,
    environment: Vec<String>,
}

impl Assembly {
    /// The image's environment.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.environment
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

/// Everything below the scenario binary.
pub(crate) struct Lower {
    pub(crate) base: ReadyBase,
    base_note: Option<String>,
    pub(crate) libtorch: Libtorch,
    libtorch_lock: LibtorchLock,
    layers: Vec<Layer>,
}

impl Lower {
    /// The GPU architectures that the libraries have code for: `all`, `none`, or the names that the
    /// spec gives.
    pub(crate) fn gpu_code(&self, image: &Image) -> String {
        let has_cuda = self.libtorch.flavour == Flavour::Cuda;
        gpu_code(has_cuda, image.spec.gpu_architectures.iter())
    }

    pub(crate) fn ready(image: &Image, sources: &Sources, cache: &Cache) -> Result<Self> {
        if sources.locks == LockUse::Required && image.lock.is_none() {
            return Err(Error::NoLock {
                image: image.reference.clone(),
            });
        }
        let lock = usable_lock(image, sources)?;
        let find_base = || find_base(image, lock, sources, cache);
        let find_libtorch = |base: Option<&ReadyBase>| {
            let base = || match base {
                Some(base) => Ok(base.clone()),
                None => find_base().map(|(base, _)| base),
            };
            find_libtorch(image, sources, base, cache)
        };
        let spec = &image.spec;
        let is_inside = matches!(spec.libtorch, LibtorchSpec::Inside { .. });
        // What lies on this machine is read in seconds: what is wrong with it is said before
        // anything is resolved or downloaded.
        let has_local_base = sources.base_archive.is_some() || spec.base != Base::Debian;
        let is_installed = matches!(spec.libtorch, LibtorchSpec::Installed { .. });
        let ((base, base_note), libtorch) = if is_inside || has_local_base {
            let base = find_base()?;
            let found = find_libtorch(Some(&base.0))?;
            (base, found)
        } else if is_installed || sources.libtorch.is_some() {
            let found = find_libtorch(None)?;
            (find_base()?, found)
        } else {
            // Neither needs the other, and each leaves cores idle for a while.
            thread::scope(|scope| {
                let base = scope.spawn(find_base);
                let found = find_libtorch(None);
                let base = base
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Ok::<_, Error>((base?, found?))
            })?
        };
        for unread in &base.unread {
            cache.note(&format!("packages of the base are not listed: {unread}"));
        }
        check_surroundings(image, &base)?;
        let libtorch_lock = match &libtorch.origin {
            Origin::Wheels(lock) => LibtorchLock::Wheels((**lock).clone()),
            _ => LibtorchLock::Installed(installed_lock(&libtorch, cache)?),
        };
        let mut layers: Vec<Layer> = base
            .layers
            .iter()
            .map(|layer| Layer {
                name: "base",
                id: layer.id,
                source: layer.source.clone(),
            })
            .collect();
        // What the base holds already needs no layer.
        if !matches!(libtorch.origin, Origin::Inside(_)) {
            let tree = libtorch_tree(image, &libtorch, cache)?;
            layers.push(layer(image, "libtorch", tree, cache)?);
        }
        Ok(Self {
            base,
            base_note,
            libtorch,
            libtorch_lock,
            layers,
        })
    }

    pub(crate) fn into_lock(
        self,
        image: &Image,
        sources: &Sources,
        whole: Option<ExpectedImage>,
    ) -> Lock {
        Lock {
            version: LOCK_VERSION,
            image: image.name.clone(),
            spec: image.spec.digest(),
            platform: PLATFORM.to_owned(),
            toolchain: toolchain::here(&sources.workspace, &self.libtorch.version),
            expected: self.expected(whole),
            base: self.base.lock,
            contents: self.base.contents,
            libtorch: self.libtorch_lock,
            seal: Digest::of(b""),
        }
        .sealed()
    }

    /// The versions of what is in it: torch, NVIDIA's libraries, glibc.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        let mut found = self.libtorch.versions();
        let contents = self.base.contents.as_ref();
        let distribution = contents.and_then(|contents| contents.distribution.clone());
        found.extend(distribution.map(|name| ("distribution".to_owned(), name)));
        found.extend(
            self.base
                .glibc
                .map(|glibc| ("glibc".to_owned(), glibc.to_string())),
        );
        found
    }

    fn expected(&self, whole: Option<ExpectedImage>) -> Expected {
        Expected {
            layers: self.layers.iter().map(Layer::expected).collect(),
            image: whole,
        }
    }
}

impl Layer {
    fn expected(&self) -> ExpectedLayer {
        ExpectedLayer {
            name: self.name.to_owned(),
            digest: self.id.digest,
            size_bytes: self.id.size_bytes,
        }
    }
}

fn layer(image: &Image, name: &'static str, tree: Tree, cache: &Cache) -> Result<Layer> {
    Ok(Layer {
        name,
        id: tree.id(&format!("{} {name}", image.name), cache)?,
        source: Source::Tree(tree),
    })
}

/// Resolves an image anew and returns its lock without the scenario binary: everything below it,
/// for versions that no scenario binary is built for here.
pub fn lock_without_scenario(image: &Image, sources: &Sources, cache: &Cache) -> Result<Lock> {
    Ok(Lower::ready(image, sources, cache)?.into_lock(image, sources, None))
}

/// Gets every part of an image and works out its layers and IDs. Takes minutes the first time
/// and well under a second when nothing has changed.
pub fn assemble(image: &Image, sources: &Sources, cache: &Cache) -> Result<Assembly> {
    sources.check(cache)?;
    let lower = Lower::ready(image, sources, cache)?;
    let scenario = scenario_of(&lower.libtorch, sources, cache)?;
    check_glibc(&scenario, &lower.base)?;
    let top = layer(image, "scenario", scenario_tree(&scenario)?, cache)?;
    let settings = settings(
        image,
        &lower.libtorch,
        &lower.libtorch_lock,
        &scenario,
        &lower.base,
    );
    let ids: Vec<LayerId> = lower
        .layers
        .iter()
        .chain([&top])
        .map(|layer| layer.id)
        .collect();
    check_linking(&lower, &scenario, &ids, &settings, cache)?;
    let documents = Documents::new(&settings, &ids)?;
    let (config_id, manifest_id) = (documents.config_id(), documents.manifest_id());
    let compiled_from = match &sources.scenario_binary {
        Some(_) => None,
        None => Some(tch_workspace::sources_digest(
            &sources.workspace,
            &lower.libtorch.version,
        )?),
    };
    let lock = usable_lock(image, sources)?;
    // What was compressed for a lock holds for the image that it locks.
    let locked = lock.and_then(|lock| lock.expected.image.as_ref());
    let ids_agree =
        |image: &&ExpectedImage| (image.config_id, image.manifest_id) == (config_id, manifest_id);
    let push_digest = locked.filter(ids_agree).and_then(|image| image.push_digest);
    let whole = ExpectedImage {
        scenario: scenario.sha256,
        sources: compiled_from,
        layer: top.expected(),
        config_id,
        manifest_id,
        push_digest,
    };
    let toolchain = toolchain::here(&sources.workspace, &lower.libtorch.version);
    let state = lock_state::compare(
        image,
        sources,
        lock,
        &lower.expected(Some(whole.clone())),
        &lower.libtorch_lock,
        &toolchain,
        lower.base_note.clone(),
    );
    if sources.locks == LockUse::Required
        && let LockState::Differs(cause) = state
    {
        return Err(Error::LockDiffers {
            image: image.reference.clone(),
            cause,
        });
    }
    cache.trim(sources.cache_bytes)?;
    let mut layers = lower.layers.clone();
    layers.push(top);
    let facts = facts(image, sources, &lower, &scenario, &layers, state);
    Ok(Assembly {
        reference: format!("torchgauge/{}:{}", image.name, config_id.short()),
        config_id,
        manifest_id,
        facts,
        versions: lower.versions(),
        lock: lower.into_lock(image, sources, Some(whole)),
        layers,
        workspace: sources.workspace.clone(),
        documents,
        environment: settings.environment,
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
    let mut state = LockState::Matches;
    if sources.scenario_binary.is_some() {
        lock.expected.image = None;
        state = LockState::OtherScenario("none is locked".to_owned());
    }
    lock.sealed().write(&file)?;
    assembly.facts.lock = state;
    Ok(Some(file))
}

fn facts(
    image: &Image,
    sources: &Sources,
    lower: &Lower,
    scenario: &ScenarioBinary,
    layers: &[Layer],
    lock: LockState,
) -> ImageFacts {
    ImageFacts {
        name: image.name.clone(),
        libtorch_version: lower.libtorch.version.clone(),
        libtorch_name: lower.libtorch.name.clone(),
        flavour: lower.libtorch.flavour,
        gpu_code: lower.gpu_code(image),
        scenario_sha256: scenario.sha256,
        base: base_in_words(image, sources),
        glibc: lower.base.glibc.map(|glibc| glibc.to_string()),
        layers: layers.iter().map(Layer::expected).collect(),
        lock,
    }
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
