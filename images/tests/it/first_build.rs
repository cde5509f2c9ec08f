//! The first build of a locked image out of wheels: what it hashes, and what checks that.

use std::{
    fs::File,
    sync::{Arc, Mutex},
};

use images::{
    Action, Assembly, Cache, Digest, Error, LockState, Meter, Progress, Result, Silent, Sources,
    assemble, ensure, lock::Lock,
};

use crate::{
    engine_runs::{bring, clear, engine},
    world::{World, says},
};

const WHEEL: &str = "torch-2.11.0-py3-none-any.whl";

/// Hears which layers are hashed.
#[derive(Default)]
struct Hashed(Mutex<Vec<String>>);

impl Progress for Hashed {
    fn start(&self, action: Action, object: &str, _: Option<u64>) -> Box<dyn Meter> {
        if action == Action::Hash {
            self.0.lock().unwrap().push(object.to_owned());
        }
        Box::new(Silent)
    }

    fn note(&self, _: &str) {}
}

/// A cache that has the small world's libtorch as a wheel, and nothing else.
fn cache_with_wheel(world: &World, name: &str) -> Cache {
    let cache = Cache::at(&world.path(name)).unwrap();
    let file = File::create(cache.root().join("wheels").join(WHEEL)).unwrap();
    let mut archive = zip::ZipWriter::new(file);
    let deflated = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated);
    world.pack(&mut archive, deflated);
    archive.finish().unwrap();
    cache
}

/// The lock of the small world made of that wheel, with what building it gave.
fn lock(world: &World) -> Lock {
    let cache = cache_with_wheel(world, "cache-for-the-lock");
    let wheel = cache.root().join("wheels").join(WHEEL);
    // Of the libtorch in a folder first: its layers are those of the wheel's libraries.
    let mut lock = world.assemble().unwrap().lock;
    lock.libtorch = world.locked_to(&wheel);
    lock.sealed()
}

fn build(world: &World, cache: &Cache, rehash: bool) -> (Result<Assembly>, Vec<String>) {
    let sources = Sources {
        libtorch: None,
        rehash,
        ..world.sources()
    };
    let hashed = Hashed::default();
    let built = assemble(&world.read().unwrap(), &sources, cache, &hashed);
    let mut layers = hashed.0.into_inner().unwrap();
    layers.retain(|layer| layer.ends_with(" libtorch"));
    (built, layers)
}

#[test]
fn libraries_are_hashed_once_and_a_verification_hashes_the_layer_too() {
    let world = World::new("first-build");
    let lock = lock(&world);
    lock.write(&world.read().unwrap().lock_file()).unwrap();
    let (first, hashed) = build(&world, &cache_with_wheel(&world, "one"), false);
    let first = first.unwrap();
    assert_eq!(first.facts.lock, LockState::Matches);
    assert_eq!(hashed, [] as [&str; 0]);

    let (again, hashed) = build(&world, &cache_with_wheel(&world, "two"), true);
    assert_eq!(again.unwrap().config_id, first.config_id);
    assert_eq!(hashed, ["first-build libtorch"]);
}

#[tokio::test]
async fn a_locked_layer_that_its_libraries_do_not_come_to_is_found_before_the_image_has_a_name() {
    let engine = engine().await;
    let world = World::new("e2e-wrong-layer");
    clear(&engine, &world.image).await;
    let right = lock(&world);
    let mut wrong = right.clone();
    wrong.expected.layers[1].digest = Digest::of(b"another");
    let file = world.read().unwrap().lock_file();
    wrong.sealed().write(&file).unwrap();

    let cache = cache_with_wheel(&world, "one");
    let (built, _) = build(&world, &cache, false);
    let built = Arc::new(built.unwrap());
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let error = ensure(&engine, &built, &cache, &progress)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::StaleLayer { .. }), "{error:?}");
    says(&error, &["the layer libtorch", "run again"]);
    assert_eq!(engine.image(&built.reference).await.unwrap(), None);

    // The next build goes by the bytes, and says that the lock is wrong.
    let (built, hashed) = build(&world, &cache, false);
    let built = Arc::new(built.unwrap());
    assert_eq!(hashed, ["e2e-wrong-layer libtorch"]);
    let LockState::Differs(why) = &built.facts.lock else {
        panic!("{:?}", built.facts.lock)
    };
    let digest = right.expected.layers[1].digest.to_string();
    says(why, &["layer libtorch", &digest, "locked is"]);
    bring(&engine, &world, &built).await;
    clear(&engine, &world.image).await;
}
