//! What lies where in an image, and what its configuration says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Flavour, Image, Libtorch, Result, ScenarioBinary,
    assembly::compat_check::{PRELOAD, changes_runs},
    base::ready::ReadyBase,
    canonical,
    error::at,
    libtorch::Origin,
    lock::{BaseLock, LibtorchLock, packages},
    oci::{
        archive::Settings,
        layer::{Node, Tree},
    },
    slim::Slim,
    spec::reserved::{
        LABEL_ALLOW, LABEL_BASE_DIGEST, LABEL_BASE_NAME, LABEL_DESCRIPTION, LABEL_FLAVOUR,
        LABEL_GPU_ARCHITECTURES, LABEL_IMAGE, LABEL_LIBTORCH, LABEL_PARTS, LABEL_PROTOCOL,
        LABEL_SCENARIO, LABEL_TITLE, LABEL_VERSION,
    },
    store::Cache,
};

/// Where the scenario binary lies in every image.
pub const SCENARIO_IN_IMAGE: &str = "/opt/torchgauge/bin/scenario";
/// Where libtorch's libraries lie in every image.
pub(crate) const LIBTORCH_IN_IMAGE: &str = "/opt/torchgauge/libtorch/lib";
/// `nobody` and `nogroup`, as on Debian.
const USER: &str = "65534:65534";

/// The layer with libtorch's libraries, all in one folder.
pub(crate) fn libtorch_tree(image: &Image, libtorch: &Libtorch, cache: &Cache) -> Result<Tree> {
    let mut tree = Tree::default();
    let folder = LIBTORCH_IN_IMAGE.trim_start_matches('/');
    let gpus: Vec<_> = image.spec.gpu_architectures.iter().copied().collect();
    let (mut kept_bytes, mut left_out_bytes, mut slim_bytes) = (0, 0, 0);
    for library in &libtorch.libraries {
        let slim = (!gpus.is_empty()).then(|| Slim::of(&library.path, &gpus, cache));
        let slim = slim.transpose()?;
        if let Some(slim) = &slim {
            kept_bytes += slim.kept_bytes;
            left_out_bytes += slim.left_out_bytes;
            slim_bytes += slim.size_bytes();
        }
        tree.insert(
            &format!("{folder}/{}", library.name),
            Node::File {
                source: library.path.clone(),
                size_bytes: library.size_bytes,
                mode: 0o755,
                slim,
            },
        );
    }
    if !gpus.is_empty() {
        cache.note(&format!(
            "{}: {} MB of GPU code kept, {} MB left out; {} MB of libraries for {} MB",
            image.name,
            kept_bytes / 1_000_000,
            left_out_bytes / 1_000_000,
            slim_bytes / 1_000_000,
            libtorch.size_bytes() / 1_000_000
        ));
    }
    Ok(tree)
}

/// The layer with the scenario binary, and the users that containers run as.
pub(crate) fn scenario_tree(scenario: &ScenarioBinary) -> Result<Tree> {
    let mut tree = Tree::default();
    let size_bytes = std::fs::metadata(&scenario.path)
        .map_err(at(&scenario.path))?
        .len();
    tree.insert(
        SCENARIO_IN_IMAGE.trim_start_matches('/'),
        Node::File {
            source: scenario.path.clone(),
            size_bytes,
            mode: 0o755,
            slim: None,
        },
    );
    let text = |content: &str| Node::Bytes {
        content: content.as_bytes().to_vec(),
        mode: 0o644,
    };
    tree.insert(
        "etc/passwd",
        text("root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"),
    );
    tree.insert("etc/group", text("root:x:0:\nnogroup:x:65534:\n"));
    Ok(tree)
}

/// The image's environment, sorted by name: the base's, the spec's, and what libtorch needs. The
/// folders of the base's own library path come last, where they shadow nothing of libtorch's.
pub(crate) fn environment(
    image: &Image,
    libtorch: &Libtorch,
    base: &ReadyBase,
) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    for pair in &base.environment {
        if let Some((name, value)) = pair.split_once('=') {
            environment.insert(name.to_owned(), value.to_owned());
        }
    }
    environment.extend(image.spec.environment.clone());
    let mut library_path = match &libtorch.origin {
        Origin::Inside(folders) => folders.clone(),
        Origin::Wheels(_) | Origin::Here => vec![LIBTORCH_IN_IMAGE.to_owned()],
    };
    if libtorch.flavour == Flavour::Cuda {
        // Where the driver's libraries come to lie when its folder is bound into a container.
        library_path
            .extend(["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"].map(str::to_owned));
        environment
            .entry("NVIDIA_DRIVER_CAPABILITIES".to_owned())
            .or_insert_with(|| "compute,utility".to_owned());
    }
    for folder in &base.library_path {
        if !library_path.contains(folder) {
            library_path.push(folder.clone());
        }
    }
    environment.insert("LD_LIBRARY_PATH".to_owned(), library_path.join(":"));
    environment
        .entry("PATH".to_owned())
        .or_insert_with(|| "/opt/torchgauge/bin:/usr/sbin:/usr/bin".to_owned());
    environment
}

/// What an image tells of itself to whoever has no lock of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToldParts {
    /// Packages of the base and wheels, by version.
    pub(crate) packages: BTreeMap<String, String>,
    /// libtorch's libraries, in bytes.
    pub(crate) libraries: BTreeMap<String, u64>,
}

impl ToldParts {
    pub(super) fn of(base: &ReadyBase, libtorch: &LibtorchLock) -> Self {
        let libraries = libtorch.libraries();
        Self {
            packages: packages(&base.lock, base.contents.as_ref(), libtorch),
            libraries: libraries
                .map(|(name, bytes, _)| (name.to_owned(), bytes))
                .collect(),
        }
    }
}

pub(crate) fn settings(
    image: &Image,
    libtorch: &Libtorch,
    libtorch_lock: &LibtorchLock,
    scenario: &ScenarioBinary,
    base: &ReadyBase,
) -> Settings {
    let mut labels = image.spec.labels.clone();
    let parts = ToldParts::of(base, libtorch_lock);
    for (name, value) in [
        (LABEL_IMAGE, image.name.clone()),
        (LABEL_LIBTORCH, libtorch.name.clone()),
        (LABEL_SCENARIO, scenario.sha256.to_string()),
        (LABEL_TITLE, format!("torchgauge {}", image.name)),
        (LABEL_DESCRIPTION, image.spec.description.clone()),
        (LABEL_VERSION, libtorch.name.clone()),
        (LABEL_PROTOCOL, protocol::VERSION.to_string()),
        (LABEL_FLAVOUR, libtorch.flavour.to_string()),
        (LABEL_PARTS, canonical::json(&parts)),
    ] {
        labels.insert(name.to_owned(), value);
    }
    if !image.spec.gpu_architectures.is_empty() {
        let kept = image.spec.gpu_architectures.iter();
        let kept: Vec<String> = kept.map(ToString::to_string).collect();
        labels.insert(LABEL_GPU_ARCHITECTURES.to_owned(), kept.join(","));
    }
    let environment = environment(image, libtorch, base);
    let names = environment.keys().map(String::as_str);
    let allowed: Vec<&str> = names
        .filter(|name| changes_runs(name))
        .chain(base.is_preloading.then_some(PRELOAD))
        .collect();
    if !allowed.is_empty() {
        labels.insert(LABEL_ALLOW.to_owned(), allowed.join(","));
    }
    if let BaseLock::Image(reference) = &base.lock
        && let Some((name, digest)) = reference.split_once('@')
    {
        for (key, value) in [(LABEL_BASE_NAME, name), (LABEL_BASE_DIGEST, digest)] {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    Settings {
        environment: environment
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        labels,
        entrypoint: vec![SCENARIO_IN_IMAGE.to_owned()],
        user: USER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        Catalog,
        oci::{archive::Documents, layer::LayerId},
    };

    #[test]
    fn the_ids_of_the_committed_locks_follow_from_their_layers() {
        let catalog = Catalog::new(Path::new(env!("CARGO_MANIFEST_DIR")));
        let mut checked = 0;
        for name in catalog.names().unwrap() {
            let image = catalog.image(&name).unwrap();
            let Some(lock) = &image.lock else { continue };
            let (LibtorchLock::Wheels(wheels), Some(expected)) =
                (&lock.libtorch, &lock.expected.image)
            else {
                continue;
            };
            let libtorch = Libtorch {
                version: wheels.version.clone(),
                flavour: wheels.flavour,
                name: wheels.name.clone(),
                cxx11_abi: true,
                build_folder: None,
                libraries: Vec::new(),
                packages: BTreeMap::new(),
                origin: Origin::Wheels(Box::new(wheels.clone())),
            };
            let scenario = ScenarioBinary {
                path: "scenario".into(),
                sha256: expected.scenario,
            };
            let base = ReadyBase {
                layers: Vec::new(),
                lock: lock.base.clone(),
                glibc: None,
                environment: Vec::new(),
                library_path: Vec::new(),
                is_preloading: false,
                contents: lock.contents.clone(),
                unread: Vec::new(),
            };
            let layers = lock.expected.layers.iter().chain([&expected.layer]);
            let ids: Vec<LayerId> = layers
                .map(|layer| LayerId {
                    digest: layer.digest,
                    size_bytes: layer.size_bytes,
                })
                .collect();
            let mut settings = settings(&image, &libtorch, &lock.libtorch, &scenario, &base);
            // A lock may be of a workload from before the protocol's last change.
            let ids_of = |version: u32| {
                let label = LABEL_PROTOCOL.to_owned();
                settings.labels.insert(label, version.to_string());
                let documents = Documents::new(&settings, &ids);
                (documents.config_id(), documents.manifest_id())
            };
            let mut found = (1..=protocol::VERSION).rev().map(ids_of);
            let locked = (expected.config_id, expected.manifest_id);
            assert!(found.any(|ids| ids == locked), "{name}");
            checked += 1;
        }
        assert!(checked >= 10, "{checked}");
    }
}
