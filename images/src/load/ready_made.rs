//! Images that are complete: what they are is read off their labels, and nothing is built.

use std::{collections::BTreeMap, ops::RangeInclusive};

use engine::{ContainerSpec, Owner, Store};
use record::{ImageFacts, ImageParts};

use crate::{
    Digest, Error, Result,
    assembly::{
        compat_check::{PRELOAD, changes_runs},
        contents::{SCENARIO_IN_IMAGE, ToldParts},
    },
    base::image::found_in,
    catalog::is_name,
    load::inside::{Inside, loaded},
    spec::{
        gpu::{GpuArchitecture, gpu_code},
        reserved::{
            LABEL_ALLOW, LABEL_FLAVOUR, LABEL_GPU_ARCHITECTURES, LABEL_IMAGE, LABEL_LIBTORCH,
            LABEL_PARTS, LABEL_PROTOCOL, LABEL_SCENARIO,
        },
    },
    store::Cache,
};

/// The versions of the protocol that the workload of an image may speak: the oldest that a run can
/// be ordered and read in, up to that of this build.
pub const PROTOCOLS: RangeInclusive<u32> = 3..=protocol::VERSION;

/// Most bytes of a label: what an image holds has thousands of packages at most, all else is a name,
/// a number or a digest.
const MOST_PARTS: usize = 1 << 20;
const MOST_OF_A_LABEL: usize = 4 << 10;
/// What the names of Torchgauge's labels begin with.
const OURS: &str = "torchgauge.";

/// An image that the engine has, or pulled, with what its labels say.
#[derive(Debug, Clone)]
pub struct ReadyMade {
    /// What it was asked for by.
    pub reference: String,
    pub id: String,
    /// The name of the spec that it was made from.
    pub name: String,
    /// Whether it can run on GPUs.
    pub has_cuda: bool,
    /// The GPUs whose code it kept; empty where it has the code for all.
    pub gpu_architectures: Vec<GpuArchitecture>,
    /// What it is made of, under that name; its scenario binary is the one that was found in it.
    pub facts: ImageFacts,
    /// What it declares, and where it is.
    pub declared: engine::ImageFacts,
}

/// An image by its reference, name or ID in the engine; one with a digest is pulled where the engine
/// lacks it, and no other: what a name means elsewhere is somebody else's word. It must be
/// Torchgauge's, for this machine, and speak a protocol of this build.
///
/// Labels are what the image says of itself. They hold for what was built; what was made of that,
/// as by `FROM` in a Dockerfile, inherits them. So what is measured is held against them: the
/// scenario binary by its digest, PyTorch's libraries by their sizes, and what would change a run
/// (variables, `/etc/ld.so.preload`) by what the spec allowed.
pub async fn ready_made(store: Store<'_>, reference: &str, cache: &Cache) -> Result<ReadyMade> {
    let program = protocol::program();
    let next = format!(
        "Where no registry can be reached, write it to a file where it can be built (`{program} \
         images export`) and load that here (`docker load --input FILE`)"
    );
    let unpinned = format!(
        ", and pulling needs a digest; load its archive (`docker load --input FILE`), or give what \
         `{program} images push` printed: REGISTRY/REPOSITORY@sha256:DIGEST"
    );
    let unfit = |problem: String| {
        Error::Input(format!(
            "the image {reference} cannot be run as it is: {problem}"
        ))
    };
    let words = (&*next, &*unpinned);
    let (found, pulled) = found_in(store, reference, cache, words, &unfit).await?;
    // Before anything is made of it: an engine copies what lies there.
    if !found.volumes.is_empty() {
        return Err(unfit(format!(
            "it declares VOLUME {}, which the engine would make writable on this machine's disk; \
             build it without",
            found.volumes.join(", ")
        )));
    }
    let told = Told::read(&found.labels).map_err(unfit)?;
    let spec = ContainerSpec {
        image: found.id.clone(),
        labels: Owner::this_process("images", "look").labels(),
        ..ContainerSpec::default()
    };
    let looked = match (&found.root, store) {
        (Some(root), _) => told.problem(Inside::Folder(root), &found.environment).await,
        (None, Store::Engine(engine)) => {
            let container = engine.create(&spec).await?;
            let looked = told.problem(Inside::Container(&container), &found.environment);
            let looked = looked.await;
            container.remove().await?;
            looked
        }
        (None, Store::Unpacked(_)) => Ok(Some("it is not unpacked; run again".to_owned())),
    };
    if let Some(problem) = looked? {
        return Err(unfit(problem));
    }
    let version = told.libtorch.split('+').next().unwrap_or_default();
    let code = gpu_code(told.has_cuda, told.gpu_architectures.iter());
    let parts = ImageParts {
        versions: [("torch".to_owned(), version.to_owned())].into(),
        packages: told.parts.packages,
        environment: found.environment.clone(),
        libraries: told.parts.libraries,
        gpu_code: Some(code),
    };
    Ok(ReadyMade {
        reference: reference.to_owned(),
        facts: ImageFacts {
            name: told.name.clone(),
            reference: Some(reference.to_owned()),
            id: Some(found.id.clone()),
            libtorch_version: version.to_owned(),
            flavour: told.libtorch,
            size_bytes: Some(found.size_bytes),
            load_seconds: pulled.seconds,
            pull_bytes: pulled.bytes,
            scenario_sha256: Some(told.scenario.hex()),
            parts: Some(parts),
            ..ImageFacts::default()
        },
        id: found.id.clone(),
        declared: found,
        name: told.name,
        has_cuda: told.has_cuda,
        gpu_architectures: told.gpu_architectures,
    })
}

/// What an image's labels say of it.
struct Told {
    name: String,
    libtorch: String,
    has_cuda: bool,
    gpu_architectures: Vec<GpuArchitecture>,
    scenario: Digest,
    /// What it is made of; libtorch's libraries as they were before GPU code was left out of them.
    parts: ToldParts,
    /// What of it may change what runs measure.
    allowed: Vec<String>,
}

impl Told {
    fn read(labels: &BTreeMap<String, String>) -> Result<Self, String> {
        let build = format!("build it with `{} images build`", protocol::program());
        let most = |name: &str| match name {
            LABEL_PARTS => MOST_PARTS,
            _ => MOST_OF_A_LABEL,
        };
        let is_too_long =
            |(name, value): &(&String, &String)| name.starts_with(OURS) && value.len() > most(name);
        if let Some((name, value)) = labels.iter().find(is_too_long) {
            let bytes = value.len();
            return Err(format!(
                "its label `{name}` has {bytes} bytes, more than images of Torchgauge's have; {build}"
            ));
        }
        let label = |name: &str| {
            labels.get(name).ok_or_else(|| {
                format!(
                    "it has no label `{name}`: it is not an image of Torchgauge, or older than \
                    these labels; {build}"
                )
            })
        };
        let name = label(LABEL_IMAGE)?.clone();
        if !is_name(&name) {
            return Err(format!(
                "its label `{LABEL_IMAGE}` is no name of an image; {build}"
            ));
        }
        check_protocol(label(LABEL_PROTOCOL)?)?;
        let libtorch = label(LABEL_LIBTORCH)?.clone();
        let scenario = label(LABEL_SCENARIO)?;
        let scenario = scenario.parse().map_err(|_| {
            format!(
                "its label `{LABEL_SCENARIO}` is `{scenario}`; expected sha256: and 64 hex digits"
            )
        })?;
        let parts = serde_json::from_str(label(LABEL_PARTS)?)
            .map_err(|error| format!("its label `{LABEL_PARTS}` is damaged: {error}"))?;
        let architectures = labels.get(LABEL_GPU_ARCHITECTURES).into_iter();
        let architectures = architectures.flat_map(|list| list.split(','));
        Ok(Self {
            name,
            libtorch,
            has_cuda: label(LABEL_FLAVOUR)? == "cuda",
            gpu_architectures: architectures.map(str::parse).collect::<Result<_, _>>()?,
            scenario,
            parts,
            allowed: labels.get(LABEL_ALLOW).map_or_else(Vec::new, |list| {
                list.split(',').map(str::to_owned).collect()
            }),
        })
    }
}

/// Why an image cannot run whose label says that its workload speaks this version.
fn check_protocol(told: &str) -> Result<(), String> {
    let version: u32 = told
        .parse()
        .map_err(|_| format!("its label `{LABEL_PROTOCOL}` is `{told}`; expected a number"))?;
    let (oldest, newest) = (PROTOCOLS.start(), PROTOCOLS.end());
    if version < *oldest {
        return Err(format!(
            "its workload has version {version} of the protocol, older than {oldest}, the oldest \
             that runs here; build it anew (`{} images build`), or run it with the \
             Torchgauge that it was made with",
            protocol::program()
        ));
    }
    if version > *newest {
        return Err(format!(
            "its workload has version {version} of the protocol, newer than {newest}, the newest \
             that runs here; use the Torchgauge that it was made with, or a newer one"
        ));
    }
    Ok(())
}

impl Told {
    /// What in the image is otherwise. Nothing of it is run: the container is never started.
    async fn problem(
        &self,
        inside: Inside<'_>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Option<String>> {
        const CHANGED: &str = "it was changed after it was built";
        let Some(scenario) = inside.scenario().await? else {
            return Ok(Some(format!(
                "it has no workload: no file `{SCENARIO_IN_IMAGE}`; build it with `{} images build`",
                protocol::program()
            )));
        };
        if scenario != self.scenario {
            return Ok(Some(format!(
                "its workload is another than its label `{LABEL_SCENARIO}` names: {scenario}, not {}; \
                 {CHANGED}",
                self.scenario
            )));
        }
        let preload = inside.size(PRELOAD).await?;
        let is_preloading = preload.is_some_and(|bytes| bytes > 0);
        let names = environment.keys().map(String::as_str);
        let changing: Vec<&str> = names
            .filter(|name| changes_runs(name))
            .chain(is_preloading.then_some(PRELOAD))
            .filter(|name| self.allowed.iter().all(|allowed| allowed != name))
            .collect();
        if !changing.is_empty() {
            return Ok(Some(format!(
                "it changes what runs measure by {}, which its label `{LABEL_ALLOW}` does not have; \
                 where that is meant, build it anew (`{} images build`) from a spec that sets or allows it, \
                 which older images do not report",
                changing.join(", "),
                protocol::program()
            )));
        }
        // Of what else is in an image there can be several, in folders of the base.
        let is_slim = !self.gpu_architectures.is_empty();
        let is_torch = |name: &str| name.starts_with("libtorch") || name.starts_with("libc10");
        for (name, told) in self
            .parts
            .libraries
            .iter()
            .filter(|(name, _)| is_torch(name))
        {
            let problem = match loaded(inside, name, environment).await? {
                None => "is in none of them".to_owned(),
                Some((path, found)) if found > *told || (found < *told && !is_slim) => {
                    format!("is {path} of {found} bytes, not of {told}")
                }
                Some(_) => continue,
            };
            return Ok(Some(format!(
                "its PyTorch is another than its label `{LABEL_PARTS}` lists: in the folders of \
                 LD_LIBRARY_PATH, {name} {problem}; {CHANGED}"
            )));
        }
        Ok(None)
    }
}
