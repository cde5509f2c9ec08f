//! Images that stand on others: on an archive of one, on one that an engine has, on one that it
//! pulls; with libtorch of its own or with the one that is in there.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    sync::Arc,
};

use engine::Product;
use images::{Assembly, Base, Digest, Error, Result, Sources, assemble, fetch_base};

use crate::{
    engine_runs::{bring, clear, engine, run},
    registry::Registry,
    world::{SPEC, World, layers, parts, says},
};

/// Where a PyTorch lies in the bases of these tests.
pub(crate) const PACKAGES: &str = "opt/python/lib/python3.11/site-packages";

/// A layer with the small libtorch as a PyTorch has it, C library not included.
pub(crate) fn torch_layer(world: &World, packages: &str) -> Vec<u8> {
    let mut layer = tar::Builder::new(Vec::new());
    for name in ["libc10.so", "libtorch_cpu.so"] {
        let from = world.path("torch/lib").join(name);
        let to = format!("{packages}/torch/lib/{name}");
        layer.append_path_with_name(from, to).unwrap();
    }
    let mut add = |path: &str, content: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let path = format!("{packages}/torch/{path}");
        layer
            .append_data(&mut header, path, content.as_bytes())
            .unwrap();
    };
    add("version.py", "__version__ = '2.9.1+cu128'\ncuda = '12.8'\n");
    add("include/c10/core.h", "// a header");
    layer.into_inner().unwrap()
}

/// The parts of an image: its configuration, and its layers as they travel.
pub(crate) struct Parts {
    pub(crate) config: String,
    pub(crate) layers: Vec<Vec<u8>>,
}

impl Parts {
    pub(crate) fn new(layers: Vec<Vec<u8>>, packed: bool) -> Self {
        Self::with_environment(&["PATH=/usr/bin", "FROM_BASE=yes"], layers, packed)
    }

    pub(crate) fn with_environment(
        environment: &[&str],
        layers: Vec<Vec<u8>>,
        packed: bool,
    ) -> Self {
        let diff_ids: Vec<String> = layers
            .iter()
            .map(|layer| Digest::of(layer).to_string())
            .collect();
        let config = serde_json::json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": environment},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let layers = layers.into_iter();
        Self {
            config: config.to_string(),
            layers: if packed {
                layers.map(|layer| gzip(&layer)).collect()
            } else {
                layers.collect()
            },
        }
    }

    /// The base of the small world with a PyTorch on top.
    fn with_torch(world: &World, packed: bool) -> Self {
        let root = fs::read(world.path("images/base.tar")).unwrap();
        Self::new(vec![root, torch_layer(world, PACKAGES)], packed)
    }

    fn config_id(&self) -> Digest {
        Digest::of(self.config.as_bytes())
    }

    /// What `docker image save` would write.
    pub(crate) fn save(&self, name: &str, to: &Path) {
        let mut archive = tar::Builder::new(File::create(to).unwrap());
        let mut add = |path: &str, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, content).unwrap();
        };
        let config = format!("{}.json", self.config_id().hex());
        let mut layers = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            let path = format!("{number}/layer.tar");
            add(&path, layer);
            layers.push(path);
        }
        add(&config, self.config.as_bytes());
        let manifest =
            serde_json::json!([{"Config": config, "RepoTags": [name], "Layers": layers}]);
        add("manifest.json", manifest.to_string().as_bytes());
        archive.finish().unwrap();
    }
}

/// Cuts every library and every layer below a folder in half; how many there were.
fn damage(folder: &Path) -> usize {
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let is_kind = |kind: &str| path.extension().is_some_and(|end| end == kind);
        if path.is_dir() {
            found += damage(&path);
        } else if is_kind("tar") || (is_kind("so") && !path.ends_with("libtorch.so")) {
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
            found += 1;
        }
    }
    found
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

pub(crate) fn inside(world: &World, base: &str) {
    world.spec(&SPEC.replace("{archive: base.tar}", base).replace(
        "{version: 2.11.0, flavour: cpu, from: wheels}",
        "{inside: auto, flavour: cpu}",
    ));
}

pub(crate) fn assemble_inside(world: &World) -> Result<Assembly> {
    let sources = Sources {
        libtorch: None,
        ..world.sources()
    };
    assemble(&world.read()?, &sources, &world.cache())
}

#[test]
fn libtorch_stays_where_the_base_has_it() {
    let world = World::new("inside");
    inside(&world, "{archive: pytorch.tar}");
    let mut ids = Vec::new();
    for packed in [false, true] {
        let image = Parts::with_torch(&world, packed);
        image.save("inside:1", &world.path("images/pytorch.tar"));
        let assembly = assemble_inside(&world).unwrap();
        let names: Vec<&str> = assembly
            .facts
            .layers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["base", "base", "scenario"]);
        assert_eq!(assembly.facts.flavour, "2.9.1+cpu");
        let environment = parts(&assembly).environment;
        let folder = format!("/{PACKAGES}/torch/lib");
        assert_eq!(environment["LD_LIBRARY_PATH"], folder);
        assert_eq!(environment["FROM_BASE"], "yes");
        ids.push(assembly.config_id);
    }
    // However the layers travelled, the image is the same.
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_base_without_or_with_two_pytorches_says_so() {
    let world = World::new("inside-wrong");
    let root = fs::read(world.path("images/base.tar")).unwrap();
    let check = |layers: Vec<Vec<u8>>, spec: &str, parts: &[&str]| {
        inside(&world, "{archive: pytorch.tar}");
        let yaml = fs::read_to_string(world.path("images/inside-wrong.yaml")).unwrap();
        world.spec(&yaml.replace("inside: auto", spec));
        Parts::new(layers, false).save("x:1", &world.path("images/pytorch.tar"));
        says(&assemble_inside(&world).unwrap_err(), parts);
    };
    check(
        vec![root.clone()],
        "inside: auto",
        &["no libtorch in the base", "libtorch_cpu.so"],
    );
    let (one, two) = (torch_layer(&world, "a"), torch_layer(&world, "b"));
    check(
        vec![root.clone(), one.clone(), two],
        "inside: auto",
        &["there are several, at /a and /b", "name one"],
    );
    check(
        vec![root.clone(), one.clone()],
        "inside: /c",
        &["at /c in the base", "torch/lib/libtorch_cpu.so is missing"],
    );
    check(
        vec![root, one],
        "flavour_was: x, inside: auto",
        &["flavour_was"],
    );
}

#[test]
fn a_damaged_layer_of_a_base_is_named() {
    let world = World::new("inside-damaged");
    inside(&world, "{archive: pytorch.tar}");
    let mut parts = Parts::with_torch(&world, true);
    let half = parts.layers[1].len() / 2;
    parts.layers[1].truncate(half);
    parts.save("x:1", &world.path("images/pytorch.tar"));
    says(
        &assemble_inside(&world).unwrap_err(),
        &["pytorch.tar", "layer `1/layer.tar`"],
    );
    let mut parts = Parts::with_torch(&world, false);
    parts.layers[1][0] ^= 1;
    parts.save("x:1", &world.path("images/pytorch.tar"));
    says(
        &assemble_inside(&world).unwrap_err(),
        &["layer `1/layer.tar` is sha256:", "expected sha256:"],
    );
    // A whole archive in its place, and nothing else to clean up.
    Parts::with_torch(&world, true).save("x:1", &world.path("images/pytorch.tar"));
    assemble_inside(&world).unwrap();
}

#[test]
fn a_base_that_is_cut_off_or_compressed_is_said_before_anything_is_made_of_it() {
    let world = World::new("base-cut");
    let base = world.path("images/base.tar");
    let whole = fs::read(&base).unwrap();
    world.assemble().unwrap();
    let last = whole.iter().rposition(|&byte| byte != 0).unwrap();
    for (kept, said) in [
        (last - 1000, "it is cut off within a file"),
        // Between two files, and in the middle of the end.
        (
            (last + 1).next_multiple_of(512),
            "no end follows its last file",
        ),
        (
            (last + 1).next_multiple_of(512) + 100,
            "it is cut off or damaged",
        ),
    ] {
        fs::write(&base, &whole[..kept]).unwrap();
        says(&world.assemble().unwrap_err(), &["base.tar", said]);
    }
    fs::write(&base, gzip(&whole)).unwrap();
    says(
        &world.assemble().unwrap_err(),
        &["base.tar", "it is compressed; unpack it"],
    );
    let noise: Vec<u8> = (0..4096_u32).map(|n| (n * n % 251) as u8 | 0x80).collect();
    fs::write(&base, noise).unwrap();
    says(&world.assemble().unwrap_err(), &["it is no tar archive"]);
    fs::remove_file(&base).unwrap();
    fs::create_dir(&base).unwrap();
    says(
        &world.assemble().unwrap_err(),
        &["base.tar", "it is a directory; expected a file"],
    );
    fs::remove_dir(&base).unwrap();
    fs::write(&base, whole).unwrap();
    world.assemble().unwrap();
}

#[tokio::test]
async fn an_image_of_the_engine_is_a_base_by_its_id() {
    let engine = engine().await;
    let world = World::new("e2e-on-image");
    clear(&engine, &world.image).await;
    let parts = Parts::with_torch(&world, false);
    let name = "torchgauge-test-base:on-image";
    let file = world.path("base-image.tar");
    parts.save(name, &file);
    let bytes = bytes::Bytes::from(fs::read(&file).unwrap());
    let stream = futures_util::stream::iter([Ok(bytes)]);
    engine.load(stream, |_| {}).await.unwrap();
    let id = engine.image(name).await.unwrap().unwrap().id;

    let pinned = format!("torchgauge-test-base@{id}");
    inside(&world, &format!("{{image: '{pinned}'}}"));
    let image = world.read().unwrap();
    // Until it was taken out of the engine the error says how.
    says(
        &assemble_inside(&world).unwrap_err(),
        &[&pinned, "images build"],
    );
    fetch_base(&image, &engine, &world.cache()).await.unwrap();
    // One that was cut off since is named and goes, and is taken out again.
    assert_eq!(damage(&world.cache().root().join("bases")), 1);
    says(&assemble_inside(&world).unwrap_err(), &["it is cut off"]);
    fetch_base(&image, &engine, &world.cache()).await.unwrap();
    let assembly = Arc::new(assemble_inside(&world).unwrap());
    assert_eq!(assembly.facts.base, Some(format!("image {pinned}")));
    let found: Vec<String> = layers(&assembly)[..2]
        .iter()
        .map(ToString::to_string)
        .collect();
    let diff_ids = engine.image(&id).await.unwrap().unwrap().layers;
    assert_eq!(found, diff_ids);
    let ready = bring(&engine, &world, &assembly).await;
    let log = run(&engine, &ready.id, &world).await;
    says(&log, &["answer 42", PACKAGES]);
    clear(&engine, &world.image).await;
    engine.untag(name).await.unwrap();
}

#[tokio::test]
async fn a_base_that_the_engine_lacks_is_pulled_by_its_digest() {
    let engine = engine().await;
    let world = World::new("e2e-pulled");
    clear(&engine, &world.image).await;
    let registry = Registry::serve(Parts::with_torch(&world, true)).await;
    let reference = registry.reference("torchgauge-test/pulled");
    inside(&world, &format!("{{image: '{reference}'}}"));
    let image = world.read().unwrap();
    if engine.facts().product == Product::Podman {
        // Podman speaks without TLS to those registries alone that its own configuration names, by
        // port: this one is refused, with the words that tell what to do.
        let error = fetch_base(&image, &engine, &world.cache())
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Trouble(_)), "{error:?}");
        says(
            &error,
            &[
                &reference,
                "answers without TLS",
                "insecure = true",
                "registries.conf",
                "docker image save",
            ],
        );
        let kept = fs::read_dir(world.cache().root().join("bases")).unwrap();
        assert_eq!(kept.count(), 0);
        return;
    }
    fetch_base(&image, &engine, &world.cache()).await.unwrap();
    let assembly = Arc::new(assemble_inside(&world).unwrap());
    let ready = bring(&engine, &world, &assembly).await;
    says(&run(&engine, &ready.id, &world).await, &["answer 42"]);
    clear(&engine, &world.image).await;
    engine.untag(&reference).await.unwrap();

    // The cache has it now, whatever becomes of the registry and the engine.
    drop(registry);
    fetch_base(&image, &engine, &world.cache()).await.unwrap();
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_said() {
    let engine = engine().await;
    let world = World::new("e2e-no-registry");
    // Nobody listens on the discard port of this machine.
    let reference = format!("localhost:9/nothing@{}", Digest::of(b"nothing"));
    inside(&world, &format!("{{image: '{reference}'}}"));
    let image = world.read().unwrap();
    assert_eq!(image.spec.base, Base::Image(reference.clone()));
    let error = fetch_base(&image, &engine, &world.cache())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Trouble(_)), "{error:?}");
    says(
        &error,
        &[
            &reference,
            "connection refused",
            "docker image save",
            "base: {archive: FILE}",
        ],
    );
}
