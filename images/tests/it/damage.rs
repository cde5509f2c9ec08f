//! What goes wrong in the middle: a clear error, nothing half made under a name, and a next build
//! that succeeds with nothing cleaned up by hand.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::{Endpoint, Engine};
use images::{Error, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
};

use crate::{
    engine_runs::{bring, clear, engine},
    world::{World, layers, says},
};

fn files_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// Changes a byte and keeps the size and the time, as a failing disk does.
fn rot(file: &Path) {
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    let open = fs::File::options()
        .write(true)
        .read(true)
        .open(file)
        .unwrap();
    let last = fs::metadata(file).unwrap().len() - 1;
    let mut byte = [0];
    open.read_exact_at(&mut byte, last).unwrap();
    open.write_all_at(&[byte[0] ^ 1], last).unwrap();
    open.set_modified(modified).unwrap();
}

#[tokio::test]
async fn a_file_that_rotted_since_it_was_hashed_stops_the_load() {
    let engine = engine().await;
    let world = World::new("e2e-rotten");
    clear(&engine, &world.image).await;
    let before = world.assemble().unwrap();
    rot(&world.path("torch/lib/libtorch_cpu.so"));
    let assembly = Arc::new(world.assemble().unwrap());
    // Nothing shows yet: path, size, time and inode are what they were.
    assert_eq!(assembly.config_id, before.config_id);
    let error = ensure(&engine, &assembly, &world.cache())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::StaleLayer { .. }), "{error:?}");
    says(
        &error,
        &[
            "layer libtorch: cached digest",
            "actual sha256:",
            "run again",
        ],
    );
    assert_eq!(engine.image(&assembly.reference).await.unwrap(), None);

    let assembly = Arc::new(world.assemble().unwrap());
    assert_ne!(assembly.config_id, before.config_id);
    bring(&engine, &world, &assembly).await;
    clear(&engine, &world.image).await;
}

#[tokio::test]
async fn a_damaged_hash_in_the_cache_stops_the_load() {
    let engine = engine().await;
    let world = World::new("e2e-bad-note");
    clear(&engine, &world.image).await;
    let before = world.assemble().unwrap();
    let digest = layers(&before)[1].to_string();
    let mut changed = 0;
    for note in files_in(&world.cache().root().join("layers")) {
        let text = fs::read_to_string(&note).unwrap();
        if text.contains(&digest) {
            let other = images::Digest::of(b"another").to_string();
            fs::write(&note, text.replace(&digest, &other)).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    let assembly = Arc::new(world.assemble().unwrap());
    assert_ne!(assembly.config_id, before.config_id);
    let error = ensure(&engine, &assembly, &world.cache())
        .await
        .unwrap_err();
    says(&error, &["layer libtorch", &digest, "run again"]);
    assert_eq!(engine.image(&assembly.reference).await.unwrap(), None);

    let assembly = Arc::new(world.assemble().unwrap());
    assert_eq!(assembly.config_id, before.config_id);
    bring(&engine, &world, &assembly).await;
    clear(&engine, &world.image).await;
}

/// A socket in front of the engine that breaks the line once so many bytes of a load have passed,
/// and listens no more.
async fn engine_that_dies(engine: &Engine, folder: &Path, after_bytes: usize) -> Engine {
    let real = engine
        .facts()
        .endpoint
        .trim_start_matches("unix://")
        .to_owned();
    let socket = folder.join("engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (death, mut died) = tokio::sync::watch::channel(false);
    let death = Arc::new(death);
    tokio::spawn(async move {
        loop {
            let client = tokio::select! {
                accepted = listener.accept() => accepted.unwrap().0,
                _ = died.wait_for(|died| *died) => return,
            };
            let server = UnixStream::connect(&real).await.unwrap();
            tokio::spawn(pass(client, server, after_bytes, Arc::clone(&death)));
        }
    });
    Engine::connect(&Endpoint::At(socket)).await.unwrap()
}

async fn pass(
    client: UnixStream,
    server: UnixStream,
    after_bytes: usize,
    death: Arc<tokio::sync::watch::Sender<bool>>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut buffer = vec![0; 4096];
    let (mut is_load, mut bytes) = (false, 0);
    while let Ok(n @ 1..) = from_client.read(&mut buffer).await {
        is_load |= String::from_utf8_lossy(&buffer[..n]).contains("/images/load");
        if is_load {
            bytes += n;
            if bytes > after_bytes {
                answers.abort();
                let _ = death.send(true);
                return;
            }
        }
        if to_server.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn an_engine_that_goes_away_during_the_load_leaves_no_image() {
    let engine = engine().await;
    let world = World::new("e2e-engine-dies");
    clear(&engine, &world.image).await;
    let assembly = Arc::new(world.assemble().unwrap());
    // The second time with its base in the engine, so that only the layers above it are sent.
    let other = World::new("e2e-engine-dies-beside");
    for has_base in [false, true] {
        if has_base {
            bring(&engine, &other, &Arc::new(other.assemble().unwrap())).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let dying = engine_that_dies(&engine, folder.path(), 1 << 14).await;
        let error = ensure(&dying, &assembly, &world.cache()).await.unwrap_err();
        let Error::Engine(engine_error) = &error else {
            panic!("{error:?}")
        };
        assert!(engine_error.is_engine_gone(), "{error}");
        says(&error, &["cannot load image", "start it again and repeat"]);
        assert_eq!(engine.image(&assembly.reference).await.unwrap(), None);
    }

    clear(&engine, &other.image).await;
    bring(&engine, &world, &assembly).await;
    clear(&engine, &world.image).await;
}
