//! Through the real engine: the image that was worked out is the image that it has.

use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};

use engine::{Apptainer, ContainerSpec, Endpoint, Engine, Store, Unpacked};
use images::{
    Assembly, Loaded, ensure,
    inventory::{self, Present},
    ready_made,
};

use crate::world::{BASE_LIBRARIES, SPEC, World, layers, parts};

const NO_ENGINE: &str = "these tests need Docker or Podman: start one \
                         (`systemctl start docker`, or `dockerd &` as root)";

pub(crate) async fn engine() -> Engine {
    Engine::connect(&Endpoint::Auto)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{NO_ENGINE}"))
}

pub(crate) async fn bring(
    engine: &Engine,
    world: &World,
    assembly: &Arc<Assembly>,
) -> images::Ready {
    ensure(engine, assembly, &world.cache()).await.unwrap()
}

pub(crate) async fn clear(engine: &Engine, name: &str) {
    let mut found = inventory::list(engine).await.unwrap();
    found.retain(|image| image.image == name);
    let pruned = inventory::remove(engine, found).await;
    assert!(pruned.kept.is_empty(), "{:?}", pruned.kept);
}

/// Runs an image to its end and gives back what it wrote.
pub(crate) async fn run(engine: &Engine, id: &str, world: &World) -> String {
    let mut container = engine
        .create(&ContainerSpec {
            image: id.to_owned(),
            ..ContainerSpec::default()
        })
        .await
        .unwrap();
    container.start().await.unwrap();
    let exit = container.wait(Duration::from_mins(1)).await.unwrap();
    let log = world.path("log");
    container.save_logs(&log, 1 << 20).await.unwrap();
    container.remove().await.unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(exit.code == Some(0), "{exit:?}: {log}");
    log
}

#[tokio::test]
async fn an_image_has_the_id_that_was_worked_out_and_runs() {
    let engine = engine().await;
    let world = World::new("e2e-runs");
    clear(&engine, &world.image).await;
    let assembly = Arc::new(world.assemble().unwrap());
    let ready = bring(&engine, &world, &assembly).await;
    let ids = [
        assembly.config_id.to_string(),
        assembly.manifest_id.to_string(),
    ];
    assert!(ids.contains(&ready.id), "{} is none of {ids:?}", ready.id);

    let again = bring(&engine, &world, &assembly).await;
    assert_eq!(again.loaded, Loaded::AlreadyThere);

    let log = run(&engine, &ready.id, &world).await;
    assert!(
        log.contains("answer 42, libraries in /opt/torchgauge/libtorch/lib"),
        "{log}"
    );
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn an_image_travels_in_an_archive_and_says_what_it_is() {
    let engine = engine().await;
    let world = World::new("e2e-archive");
    clear(&engine, &world.image).await;
    let assembly = world.assemble().unwrap();
    let cache = world.cache();
    let (plain, packed) = (world.path("image.tar"), world.path("image.tar.zst"));
    assembly.write_archive(&plain, &cache).unwrap();
    let digest = assembly.write_archive(&packed, &cache).unwrap();
    let size = |file: &Path| fs::metadata(file).unwrap().len();
    assert!(size(&packed) < size(&plain) / 2);
    assert_eq!(assembly.write_archive(&packed, &cache).unwrap(), digest);

    let load = ["image", "load", "--quiet", "--input"];
    let output = Command::new("docker").args(load).arg(&plain).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let loaded = ready_made(Store::Engine(&engine), &assembly.reference, &cache)
        .await
        .unwrap();
    let ids = [&assembly.config_id, &assembly.manifest_id].map(ToString::to_string);
    assert!(ids.contains(&loaded.id), "{} is none of {ids:?}", loaded.id);
    assert_eq!(loaded.reference, assembly.reference);
    assert_eq!(loaded.name, world.image);
    assert_eq!(loaded.facts.flavour, assembly.facts.flavour);
    let (found, built) = (loaded.facts.parts.unwrap(), parts(&assembly));
    assert_eq!(found.packages, built.packages);
    assert_eq!(found.libraries, built.libraries);
    assert_eq!(found.environment, built.environment);
    let log = run(&engine, &loaded.id, &world).await;
    assert!(log.contains("answer 42"), "{log}");
    clear(&engine, &world.image).await;
    // Unpacked it is the same: what its labels say was found in its root.
    let assembly = Arc::new(assembly);
    for by in ways() {
        let archive = plain.to_str().unwrap();
        let store = Store::Unpacked(&by);
        let read = ready_made(store, archive, &cache).await.unwrap();
        let (_, made) = images::unpacked(&assembly, &by, &cache).await.unwrap();
        let id = assembly.config_id.to_string();
        assert_eq!((&read.id, &made.id), (&id, &id));
        assert_eq!(read.declared.root, made.root);
        assert_eq!(read.facts.parts.unwrap().libraries, built.libraries);
    }
}

fn ways() -> [Unpacked; 2] {
    [
        Apptainer::find().map(Unpacked::Apptainer),
        Unpacked::chroot(),
    ]
    .map(Result::unwrap)
}

#[tokio::test]
async fn an_image_whose_labels_do_not_fit_is_refused_with_the_reason() {
    let engine = engine().await;
    let world = World::new("e2e-labels");
    let assembly = Arc::new(world.assemble().unwrap());
    let ready = bring(&engine, &world, &assembly).await;
    let (oldest, newest) = images::PROTOCOLS.into_inner();
    let (older, newer) = ((oldest - 1).to_string(), (newest + 1).to_string());
    let other = format!("sha256:{}", "0".repeat(64));
    for (label, value, says) in [
        ("torchgauge.image", None, "no label `torchgauge.image`"),
        (
            "torchgauge.image",
            Some("\u{1b}[2J"),
            "is no name of an image",
        ),
        (
            "torchgauge.protocol",
            Some(older.as_str()),
            "the oldest that runs here; build it anew",
        ),
        (
            "torchgauge.protocol",
            Some(newer.as_str()),
            "the newest that runs here; use the Torchgauge",
        ),
        ("torchgauge.protocol", Some("x"), "expected a number"),
        ("torchgauge.parts", Some("{\"packages\": 3}"), "is damaged"),
        (
            "torchgauge.gpu-architectures",
            Some("sm_1"),
            "`sm_1` is no GPU architecture",
        ),
        (
            "torchgauge.scenario",
            Some("sha256:0000"),
            "expected sha256: and 64 hex digits",
        ),
        (
            "torchgauge.scenario",
            Some(other.as_str()),
            "its workload is another than its label",
        ),
    ] {
        let reference = changed(&ready.id, &world, |_, config| {
            let labels = config["config"]["Labels"].as_object_mut().unwrap();
            match value {
                Some(value) => _ = labels.insert(label.to_owned(), value.into()),
                None => _ = labels.remove(label),
            }
        });
        refused(&engine, &reference, &world, says).await;
    }
    let reference = changed(&ready.id, &world, |_, config| {
        config["architecture"] = "arm64".into();
    });
    refused(
        &engine,
        &reference,
        &world,
        "it is for arm64; expected amd64",
    )
    .await;
    // All labels, and no workload below them.
    let reference = changed(&ready.id, &world, |manifest, config| {
        let layers = manifest["Layers"].as_array_mut().unwrap();
        layers.pop().unwrap();
        let digests = config["rootfs"]["diff_ids"].as_array_mut().unwrap();
        digests.pop().unwrap();
    });
    refused(&engine, &reference, &world, "it has no workload").await;
    // To look into an image takes a container that is never started, and none stays behind.
    let list = [
        "ps",
        "--all",
        "--quiet",
        "--filter",
        "ancestor=torchgauge-test/changed:1",
    ];
    let left = Command::new("docker").args(list).output().unwrap();
    assert!(left.status.success() && left.stdout.is_empty(), "{left:?}");
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn what_was_made_of_an_image_is_not_believed_for_its_labels() {
    let engine = engine().await;
    let world = World::new("e2e-derived");
    world.spec(&SPEC.replace("GREETING: hello", "OMP_NUM_THREADS: '2'"));
    world.base_with(&BASE_LIBRARIES, &[("o/libc10.so", b"other")]);
    let assembly = Arc::new(world.assemble().unwrap());
    let ready = bring(&engine, &world, &assembly).await;
    // What its own spec sets is no surprise.
    ready_made(Store::Engine(&engine), &ready.id, &world.cache())
        .await
        .unwrap();
    let torch = "/opt/torchgauge/libtorch/lib/libtorch_cpu.so";
    // In two lines, for a Dockerfile's have 64 KiB at most.
    let half = "x".repeat(45_000);
    let endless = format!("LABEL torchgauge.libtorch={half}\\\n{half}");
    for (lines, says) in [
        (
            endless.as_str(),
            "its label `torchgauge.libtorch` has 90000 bytes, more than images of Torchgauge's have",
        ),
        ("ENV LD_PRELOAD=/libx.so", "by LD_PRELOAD"),
        (
            "ENV CUBLAS_WORKSPACE_CONFIG=:4096:8",
            "by CUBLAS_WORKSPACE_CONFIG",
        ),
        ("COPY other /etc/ld.so.preload", "by /etc/ld.so.preload"),
        (
            &format!("COPY other {torch}"),
            "libtorch_cpu.so is /opt/torchgauge/libtorch/lib/libtorch_cpu.so of 5 bytes, not of",
        ),
        (
            "ENV LD_LIBRARY_PATH=/o:/opt/torchgauge/libtorch/lib",
            "libc10.so is /o/libc10.so of 5 bytes",
        ),
        ("ENV LD_LIBRARY_PATH=/nowhere", "is in none of them"),
        ("VOLUME /data", "declares VOLUME /data"),
    ] {
        let reference = derived(&assembly.reference, &world, lines);
        refused(&engine, &reference, &world, says).await;
    }
    // What harms nothing is taken: another entry point is not what is started.
    let reference = derived(&assembly.reference, &world, "ENTRYPOINT [\"/other\"]");
    ready_made(Store::Engine(&engine), &reference, &world.cache())
        .await
        .unwrap();
    engine.untag(&reference).await.unwrap();
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn only_what_has_a_digest_is_pulled() {
    let engine = engine().await;
    let world = World::new("e2e-unpinned");
    let pinned = format!("localhost:1/team/images@sha256:{}", "0".repeat(64));
    for (reference, says) in [
        (
            "torchgauge/e2e-unpinned:b9901a0614e1",
            "pulling needs a digest",
        ),
        ("localhost:1/team/images", "pulling needs a digest"),
        (pinned.as_str(), "cannot be pulled"),
    ] {
        let error = ready_made(Store::Engine(&engine), reference, &world.cache())
            .await
            .unwrap_err();
        let said = error.to_string();
        let parts = [says, reference, "docker load --input FILE"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert!(!said.contains("base"), "{said}");
    }
}

/// An image that Docker makes of another one by these lines of a Dockerfile.
fn derived(from: &str, world: &World, lines: &str) -> String {
    let folder = world.path("derived");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("other"), "other").unwrap();
    fs::write(folder.join("Dockerfile"), format!("FROM {from}\n{lines}\n")).unwrap();
    let reference = "torchgauge-test/derived:1";
    let output = Command::new("docker")
        .args(["build", "--quiet", "--tag", reference])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    reference.to_owned()
}

/// Checks that an image cannot be taken as it is, with this reason, and removes it.
async fn refused(engine: &Engine, reference: &str, world: &World, says: &str) {
    let error = ready_made(Store::Engine(engine), reference, &world.cache())
        .await
        .unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
    // Unpacked it is looked at in the same way.
    let file = world.path("refused.tar");
    let archive = file.to_str().unwrap();
    let save = ["image", "save", "--output", archive, reference];
    let status = Command::new("docker").args(save).status().unwrap();
    assert!(status.success(), "{save:?}");
    let ways = [
        Apptainer::find().map(Unpacked::Apptainer),
        Unpacked::chroot(),
    ];
    for by in ways.map(Result::unwrap) {
        let error = ready_made(Store::Unpacked(&by), archive, &world.cache())
            .await
            .unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    engine.untag(reference).await.unwrap();
}

/// The image with another manifest and configuration, under a name of its own.
fn changed(
    id: &str,
    world: &World,
    change: impl FnOnce(&mut serde_json::Value, &mut serde_json::Value),
) -> String {
    let folder = world.path("changed");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (saved, out) = (folder.join("saved.tar"), folder.join("out"));
    let run = |program: &str, words: &[&str]| {
        let status = Command::new(program).args(words).status().unwrap();
        assert!(status.success(), "{program} {words:?}");
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    run("docker", &["image", "save", "--output", &text(&saved), id]);
    fs::create_dir_all(&out).unwrap();
    run("tar", &["-xf", &text(&saved), "-C", &text(&out)]);
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let list = out.join("manifest.json");
    let mut manifest = read(&list);
    let config = out.join(manifest[0]["Config"].as_str().unwrap());
    let mut content = read(&config);
    change(&mut manifest[0], &mut content);
    // Docker looks at a configuration by its name.
    fs::write(out.join("config.json"), content.to_string()).unwrap();
    manifest[0]["Config"] = "config.json".into();
    let reference = "torchgauge-test/changed:1";
    manifest[0]["RepoTags"] = serde_json::json!([reference]);
    fs::write(&list, manifest.to_string()).unwrap();
    run("tar", &["-cf", &text(&saved), "-C", &text(&out), "."]);
    run(
        "docker",
        &["image", "load", "--quiet", "--input", &text(&saved)],
    );
    reference.to_owned()
}

#[tokio::test]
async fn only_the_layers_that_the_engine_lacks_are_sent() {
    let engine = engine().await;
    let world = World::new("e2e-thin");
    clear(&engine, &world.image).await;
    let first = Arc::new(world.assemble().unwrap());
    bring(&engine, &world, &first).await;
    world.program("int torch_answer(void); int main(void) { return torch_answer(); }");
    let second = Arc::new(world.assemble().unwrap());
    let ready = bring(&engine, &world, &second).await;
    let scenario = second.facts.layers[2].1;
    assert_eq!(ready.loaded, Loaded::Thin);
    assert_eq!(ready.facts.loaded_bytes, Some(scenario));
    let facts = engine.image(&second.reference).await.unwrap().unwrap();
    let expected: Vec<String> = layers(&second).iter().map(ToString::to_string).collect();
    assert_eq!(facts.layers, expected);
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn two_builds_at_once_agree() {
    let engine = engine().await;
    let world = World::new("e2e-twice");
    clear(&engine, &world.image).await;
    let assembly = Arc::new(world.assemble().unwrap());
    let (one, two) = tokio::join!(
        bring(&engine, &world, &assembly),
        bring(&engine, &world, &assembly)
    );
    assert_eq!(one.id, two.id);
    let loads = [one.loaded, two.loaded];
    assert!(loads.contains(&Loaded::AlreadyThere), "{loads:?}");
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn a_name_that_means_another_image_is_put_right() {
    let engine = engine().await;
    let world = World::new("e2e-wrong-name");
    clear(&engine, &world.image).await;
    let first = Arc::new(world.assemble().unwrap());
    bring(&engine, &world, &first).await;
    world.program("int torch_answer(void); int main(void) { return torch_answer(); }");
    let second = Arc::new(world.assemble().unwrap());
    engine
        .tag(&first.reference, &second.reference)
        .await
        .unwrap();
    let ready = bring(&engine, &world, &second).await;
    let found = engine.image(&second.reference).await.unwrap().unwrap();
    assert_eq!(found.id, ready.id);
    assert_ne!(
        found.id,
        engine.image(&first.reference).await.unwrap().unwrap().id
    );
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn a_library_that_changes_during_the_load_leaves_no_image() {
    let engine = engine().await;
    let world = World::new("e2e-changing");
    clear(&engine, &world.image).await;
    let assembly = Arc::new(world.assemble().unwrap());
    std::fs::write(world.path("torch/lib/libc10.so"), "cut off").unwrap();
    let error = ensure(&engine, &assembly, &world.cache())
        .await
        .unwrap_err();
    crate::world::says(&error, &["libc10.so", "run again"]);
    assert_eq!(engine.image(&assembly.reference).await.unwrap(), None);
    // The next build succeeds with nothing cleaned up by hand.
    let world = World::new("e2e-changing");
    let assembly = Arc::new(world.assemble().unwrap());
    bring(&engine, &world, &assembly).await;
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn pruning_takes_only_what_torchgauge_made() {
    let engine = engine().await;
    let world = World::new("e2e-prune");
    clear(&engine, &world.image).await;
    let assembly = Arc::new(world.assemble().unwrap());
    bring(&engine, &world, &assembly).await;
    let listed = inventory::list(&engine).await.unwrap();
    let ours = listed
        .iter()
        .find(|image| image.image == world.image)
        .unwrap();
    assert_eq!(ours.libtorch, "2.11.0+cpu");
    // Podman gives short names a domain.
    assert!(
        ours.references
            .iter()
            .all(|name| name.ends_with(&assembly.reference)),
        "{:?}",
        ours.references
    );
    assert_eq!(ours.references.len(), 1);
    // A name that somebody else gave it stays, and the image behind it, which is theirs then.
    let theirs = "e2e-prune-theirs:keep";
    engine.tag(&ours.id, theirs).await.unwrap();
    let listed = inventory::list(&engine).await.unwrap();
    let ours: Vec<Present> = listed
        .into_iter()
        .filter(|image| image.image == world.image)
        .collect();
    assert_eq!(ours[0].references.len(), 1, "{ours:?}");
    let pruned = inventory::remove(&engine, ours).await;
    assert!(pruned.kept.is_empty(), "{:?}", pruned.kept);
    let is_ours = |image: &Present| image.image == world.image;
    assert!(!inventory::list(&engine).await.unwrap().iter().any(is_ours));
    let left = engine.image(theirs).await.unwrap().expect("was removed");
    assert_eq!(left.tags.len(), 1, "{:?}", left.tags);
    engine.untag(theirs).await.unwrap();
}
