//! Images that are complete: what they are is read off their labels, and nothing is built.

use std::io::{self, Read as _};

use engine::{ContainerSpec, Engine, Owner};

use crate::{
    Digest, Error, Parts, Result,
    assembly::contents::{SCENARIO_IN_IMAGE, ToldParts},
    base::image::{find, pull},
    spec::{
        gpu::{GpuArchitecture, gpu_code},
        reserved::{
            LABEL_FLAVOUR, LABEL_GPU_ARCHITECTURES, LABEL_IMAGE, LABEL_LIBTORCH, LABEL_PARTS,
            LABEL_PROTOCOL, LABEL_SCENARIO,
        },
    },
    store::Cache,
};

/// Far above what a scenario binary takes.
const LARGEST_SCENARIO: usize = 256 << 20;

/// An image that the engine has, or pulled, with what its labels say.
#[derive(Debug, Clone)]
pub struct ReadyMade {
    /// What it was asked for by.
    pub reference: String,
    /// Its ID in this engine.
    pub id: String,
    /// The name of the spec that it was made from.
    pub name: String,
    /// Which build of libtorch, such as `2.11.0+cu130`.
    pub libtorch: String,
    /// Whether it can run on GPUs.
    pub has_cuda: bool,
    /// The GPUs whose code it kept; empty where it has the code for all.
    pub gpu_architectures: Vec<GpuArchitecture>,
    /// SHA-256 of its scenario binary, as found in it.
    pub scenario_sha256: String,
    /// Its size as the engine counts it.
    pub size_bytes: u64,
    /// What it is made of.
    pub parts: Parts,
}

/// An image by its reference, name or ID in the engine; one with a digest is pulled where the engine
/// lacks it, and no other: what a name means elsewhere is somebody else's word. It must be Torchgauge's, for this machine, and speak the protocol of this build.
///
/// Labels are what the image says of itself. Its scenario binary is held against them; what else they
/// say is not.
pub async fn ready_made(engine: &Engine, reference: &str, cache: &Cache) -> Result<ReadyMade> {
    let id = match find(engine, reference).await? {
        Some(id) => id,
        None if is_pinned(reference) => {
            let no = |cause| Error::NotPulled {
                reference: reference.to_owned(),
                engine: engine.facts().describe(),
                cause,
            };
            pull(engine, reference, cache, no).await?
        }
        None => {
            return Err(Error::NotInEngine {
                reference: reference.to_owned(),
                engine: engine.facts().describe(),
            });
        }
    };
    let unfit = |problem: String| Error::UnfitImage {
        reference: reference.to_owned(),
        problem,
    };
    let Some(found) = engine.image(&id).await? else {
        return Err(unfit("the engine has it no more; run again".to_owned()));
    };
    if let Some(architecture) = found.architecture.filter(|found| found != "amd64") {
        return Err(unfit(format!("it is for {architecture}; expected amd64")));
    }
    let label = |name: &str| {
        let value = found.labels.get(name);
        value.ok_or_else(|| {
            unfit(format!(
                "it has no label `{name}`, so it is no image of Torchgauge's, or one of before \
                 images told what they are; build it with `cargo xtask images build`"
            ))
        })
    };
    let name = label(LABEL_IMAGE)?.clone();
    let protocol = label(LABEL_PROTOCOL)?;
    match protocol.parse::<u32>() {
        Ok(protocol::VERSION) => {}
        Ok(version) => {
            let (age, next) = if version < protocol::VERSION {
                ("older", "build it anew")
            } else {
                (
                    "newer",
                    "use the Torchgauge that it was made with, or a newer one",
                )
            };
            return Err(unfit(format!(
                "its workload speaks version {version} of the protocol, which is {age} than {} \
                 here; {next}",
                protocol::VERSION
            )));
        }
        Err(_) => {
            return Err(unfit(format!(
                "its label `{LABEL_PROTOCOL}` is `{protocol}`; expected a number"
            )));
        }
    }
    let libtorch = label(LABEL_LIBTORCH)?.clone();
    let promised = label(LABEL_SCENARIO)?;
    let told: ToldParts = serde_json::from_str(label(LABEL_PARTS)?)
        .map_err(|error| unfit(format!("its label `{LABEL_PARTS}` is damaged: {error}")))?;
    let architectures = found.labels.get(LABEL_GPU_ARCHITECTURES);
    let gpu_architectures: Vec<GpuArchitecture> = architectures
        .iter()
        .flat_map(|list| list.split(','))
        .map(str::parse)
        .collect::<Result<_, String>>()
        .map_err(unfit)?;
    let has_cuda = label(LABEL_FLAVOUR)? == "cuda";
    let Some(scenario) = scenario_in(engine, &found.id).await? else {
        return Err(unfit(format!(
            "it has no workload: no file `{SCENARIO_IN_IMAGE}`; build it with \
             `cargo xtask images build`"
        )));
    };
    if scenario.to_string() != *promised {
        return Err(unfit(format!(
            "its workload is another than its label `{LABEL_SCENARIO}` says: {scenario}, not \
             {promised}; it was changed after it was built"
        )));
    }
    let code = gpu_code(has_cuda, gpu_architectures.iter());
    let version = libtorch.split('+').next().unwrap_or(&libtorch).to_owned();
    Ok(ReadyMade {
        reference: reference.to_owned(),
        id: found.id,
        name,
        has_cuda,
        gpu_architectures,
        scenario_sha256: scenario.hex(),
        size_bytes: found.size_bytes,
        parts: Parts {
            versions: [("torch".to_owned(), version)].into(),
            packages: told.packages,
            environment: found.environment,
            libraries: told.libraries,
            gpu_code: code,
            layers: Vec::new(),
        },
        libtorch,
    })
}

/// Whether a reference says by its digest which image it means.
fn is_pinned(reference: &str) -> bool {
    let pinned = reference.rsplit_once('@');
    pinned.is_some_and(|(name, digest)| !name.is_empty() && digest.parse::<Digest>().is_ok())
}

/// The digest of the scenario binary of an image that the engine has; `None` where it has none.
/// Nothing of the image is run.
async fn scenario_in(engine: &Engine, id: &str) -> Result<Option<Digest>> {
    let spec = ContainerSpec {
        image: id.to_owned(),
        labels: Owner::this_process("images", "look").labels(),
        ..ContainerSpec::default()
    };
    let container = engine.create(&spec).await?;
    let mut archive = Vec::new();
    let looked = container.copy_out(SCENARIO_IN_IMAGE, |bytes| {
        archive.extend_from_slice(bytes);
        if archive.len() > LARGEST_SCENARIO {
            return Err(io::Error::other(format!(
                "`{SCENARIO_IN_IMAGE}` is larger than {LARGEST_SCENARIO} bytes"
            )));
        }
        Ok(())
    });
    let looked = looked.await;
    container.remove().await?;
    if !looked? {
        return Ok(None);
    }
    let unreadable = |error: io::Error| Error::UnfitImage {
        reference: id.to_owned(),
        problem: format!("its `{SCENARIO_IN_IMAGE}` cannot be read: {error}"),
    };
    let mut archive = tar::Archive::new(archive.as_slice());
    let mut entries = archive.entries().map_err(unreadable)?;
    let Some(mut file) = entries.next().transpose().map_err(unreadable)? else {
        return Ok(None);
    };
    if !file.header().entry_type().is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(Some(Digest::of(&bytes)))
}
