//! What would only show when a container starts, or in what it measures, found when its image is made.

use crate::{
    Error, Image, Result, ScenarioBinary,
    assembly::{Lower, linking::ImageFiles},
    base::ready::ReadyBase,
    canonical,
    oci::{archive::Settings, layer::LayerId},
    store::{Cache, read_note},
};

/// Changes whenever the same image could be judged otherwise.
const FORMAT: u32 = 1;

/// Whether the base's glibc is new enough for the scenario binary.
pub(crate) fn check_glibc(scenario: &ScenarioBinary, base: &ReadyBase) -> Result<()> {
    match (scenario.glibc, base.glibc) {
        (Some(needs), Some(has)) if needs > has => Err(Error::GlibcTooOld {
            binary: scenario.path.clone(),
            needs,
            has,
        }),
        _ => Ok(()),
    }
}

/// Whether the loader will find everything, in the right version. An image that was found to be
/// whole is not looked at again.
pub(crate) fn check_linking(
    lower: &Lower,
    scenario: &ScenarioBinary,
    layers: &[LayerId],
    settings: &Settings,
    cache: &Cache,
) -> Result<()> {
    let mut variables = settings.environment.iter();
    let library_path = variables
        .find_map(|pair| pair.strip_prefix("LD_LIBRARY_PATH="))
        .unwrap_or_default();
    let key = canonical::json(&(FORMAT, "links", layers, library_path));
    let note = cache.note_path("layers", key.as_bytes());
    if read_note::<bool>(&note) == Some(true) {
        return Ok(());
    }
    let base = lower.base.filesystem()?;
    let files = ImageFiles::new(&base, &lower.libtorch, scenario, library_path)?;
    files.check(&lower.libtorch)?;
    cache.write_note(&note, &true)
}

/// How variables begin that change what is measured: of the loader, of allocators, of libraries
/// that compute.
const CHANGING: [&str; 20] = [
    "ATEN_",
    "CUBLAS",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDNN_",
    "DNNL_",
    "GLIBC_TUNABLES",
    "GOMP_",
    "KMP_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTORCH_",
    "TORCH_",
];
/// How those end that only say what there is, or where.
const HARMLESS: [&str; 6] = [
    "_VERSION",
    "_HOME",
    "_ROOT",
    "_PATH",
    "_ARCH_LIST",
    "_INSTALL",
];
/// Has programs load what they do not ask for.
pub(crate) const PRELOAD: &str = "/etc/ld.so.preload";

/// Whether a variable of this name changes what is measured.
pub(crate) fn changes_runs(name: &str) -> bool {
    CHANGING.iter().any(|start| name.starts_with(start))
        && !HARMLESS.iter().any(|end| name.ends_with(end))
}

/// Refuses what a base would change about runs without a word, unless the spec sets or allows it.
pub(crate) fn check_surroundings(image: &Image, base: &ReadyBase) -> Result<()> {
    let spec = &image.spec;
    let is_changing = |name: &&str| changes_runs(name) && !spec.environment.contains_key(*name);
    let variables = base.environment.iter();
    let names = variables.filter_map(|pair| Some(pair.split_once('=')?.0));
    let mut found: Vec<String> = names
        .filter(is_changing)
        .chain(base.is_preloading.then_some(PRELOAD))
        .filter(|name| !spec.allow.contains(*name))
        .map(str::to_owned)
        .collect();
    found.sort();
    if found.is_empty() {
        return Ok(());
    }
    Err(Error::BaseChangesRuns {
        image: image.name.clone(),
        found,
    })
}
