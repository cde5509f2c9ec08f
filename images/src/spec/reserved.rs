//! Names that a spec cannot set: what Torchgauge writes there itself would take the place of the
//! spec's value, or the other way round.

use protocol::Axis;
use strict_yaml::{Document, YamlError};

use crate::spec::Spec;

/// The label that tells Torchgauge's images from others: the image's name.
pub(crate) const LABEL_IMAGE: &str = "torchgauge.image";
/// Label with the flavour of libtorch.
pub(crate) const LABEL_LIBTORCH: &str = "torchgauge.libtorch";
/// Label with the digest of the scenario binary.
pub(crate) const LABEL_SCENARIO: &str = "torchgauge.scenario";
/// Label with the version of the protocol that the scenario binary speaks.
pub(crate) const LABEL_PROTOCOL: &str = "torchgauge.protocol";
/// Label with the flavour: `cpu` or `cuda`.
pub(crate) const LABEL_FLAVOUR: &str = "torchgauge.flavour";
/// Label with the packages and libraries, as JSON.
pub(crate) const LABEL_PARTS: &str = "torchgauge.parts";
/// Label with the architectures whose GPU code was kept, such as `sm_90`, where not all was.
pub(crate) const LABEL_GPU_ARCHITECTURES: &str = "torchgauge.gpu-architectures";
/// Label with what of the image changes what runs measure, as its spec sets or allows it, where
/// anything does: variables, and `/etc/ld.so.preload`.
pub(crate) const LABEL_ALLOW: &str = "torchgauge.allow";
/// OCI's annotations, which are labels and annotations of the manifest here.
pub(crate) const LABEL_TITLE: &str = "org.opencontainers.image.title";
pub(crate) const LABEL_DESCRIPTION: &str = "org.opencontainers.image.description";
pub(crate) const LABEL_VERSION: &str = "org.opencontainers.image.version";
pub(crate) const LABEL_BASE_NAME: &str = "org.opencontainers.image.base.name";
pub(crate) const LABEL_BASE_DIGEST: &str = "org.opencontainers.image.base.digest";
/// OCI's annotation with a tag, in the archive's index.
pub(crate) const ANNOTATION_NAME: &str = "org.opencontainers.image.ref.name";
/// containerd's, for the whole name with its domain.
pub(crate) const ANNOTATION_FULL_NAME: &str = "io.containerd.image.name";
/// The domain that engines give to short names.
pub(crate) const DOMAIN: &str = "docker.io/";
/// What the names of all images here begin with.
pub(crate) const OWN: &str = "torchgauge/";

/// OCI's annotations that Torchgauge writes in an image or beside it.
const LABELS: [&str; 6] = [
    LABEL_TITLE,
    LABEL_DESCRIPTION,
    LABEL_VERSION,
    LABEL_BASE_NAME,
    LABEL_BASE_DIGEST,
    ANNOTATION_NAME,
];

/// Everything below these is Torchgauge's: containers that carry `org.torchgauge.` are taken for
/// those of a session, and swept.
const LABEL_PREFIXES: [&str; 2] = ["torchgauge.", "org.torchgauge."];

/// Variables that are set for a run, whatever the image says, and by what.
pub fn environment() -> Vec<(&'static str, String)> {
    let device = || "the run's device sets it".to_owned();
    let axes = Axis::ALL.iter().flat_map(|axis| {
        let why = format!("the suite's axis `{}` sets it", axis.name);
        axis.variables.iter().map(move |name| (*name, why.clone()))
    });
    let mut all = vec![
        ("LD_LIBRARY_PATH", "the image's layout sets it".to_owned()),
        ("CUDA_DEVICE_ORDER", device()),
        ("CUDA_VISIBLE_DEVICES", device()),
        ("NVIDIA_VISIBLE_DEVICES", device()),
    ];
    all.extend(axes);
    all
}

/// Refuses a spec that sets one of them.
pub(crate) fn check(spec: &Spec, document: &Document) -> Result<(), YamlError> {
    let reserved = environment();
    for name in spec.environment.keys() {
        if let Some((_, why)) = reserved.iter().find(|(reserved, _)| reserved == name) {
            let all: Vec<&str> = reserved.iter().map(|(name, _)| *name).collect();
            let at = document.top().key("environment").key(name).on_key();
            let message = format!("`{name}` cannot be set here: {why}");
            let help = format!("reserved are {}", all.join(", "));
            return Err(at.expecting(message, "another variable", Some(help)));
        }
    }
    for name in spec.labels.keys() {
        let is_below = LABEL_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if is_below || LABELS.contains(&name.as_str()) {
            let names = LABELS.map(|name| format!("`{name}`")).join(", ");
            let at = document.top().key("labels").key(name).on_key();
            let message = format!("the label `{name}` cannot be set here: Torchgauge writes it");
            let help = format!(
                "reserved are {names}, and all that begin with `torchgauge.` or `org.torchgauge.`"
            );
            return Err(at.expecting(message, "another label", Some(help)));
        }
    }
    Ok(())
}
