//! What making images takes, beside what writing and hashing their bytes takes:
//! `cargo bench -p images -- NAME…`, as a row of a table for each image.
//!
//! The images are taken out of the engine and loaded again. What compiling takes is left out: the
//! scenario binary is compiled first, or given in `TORCHGAUGE_SCENARIO`.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

use std::{env, error::Error, fs, path::Path, sync::Arc, time::Instant};

use engine::{Endpoint, Engine};
use images::{
    Cache, Catalog, LockUse, Sources, assemble, ensure, inventory, libtorch_of, scenario_of,
};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn timed<T>(work: impl FnOnce() -> images::Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((done, begun.elapsed().as_secs_f64()))
}

fn main() -> Result<()> {
    // cargo gives options of its own.
    let names = env::args().skip(1).filter(|word| !word.starts_with('-'));
    println!(
        "| image | size in bytes | its bytes written and hashed once | first build, downloads there \
         | rebuild | load |\n|---|---:|---:|---:|---:|---:|"
    );
    for name in names {
        row(&name)?;
    }
    Ok(())
}

fn row(name: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let image = Catalog::new(&root.join("images")).image(name)?;
    let cache = Cache::user()?;
    let mut sources = Sources {
        target: root.join("target"),
        workspace: root,
        libtorch: None,
        scenario_binary: env::var_os("TORCHGAUGE_SCENARIO").map(Into::into),
        base_archive: None,
        locks: LockUse::Preferred,
        cache_bytes: u64::MAX,
    };
    let libtorch = libtorch_of(&image, &sources, &cache)?;
    sources.scenario_binary = Some(scenario_of(&libtorch, &sources, &cache)?.path);
    let built = Arc::new(assemble(&image, &sources, &cache)?);

    let folder = tempfile::tempdir_in(cache.root().join("tmp"))?;
    let (_, floor) = timed(|| built.write_archive(&folder.path().join("image.tar"), &cache))?;
    let fresh = Cache::at(&folder.path().join("cache"))?;
    for kind in ["wheels", "debs"] {
        for entry in fs::read_dir(cache.root().join(kind))? {
            let entry = entry?;
            let to = fresh.root().join(kind).join(entry.file_name());
            fs::hard_link(entry.path(), to)?;
        }
    }
    let (_, first) = timed(|| assemble(&image, &sources, &fresh))?;
    let (_, again) = timed(|| assemble(&image, &sources, &fresh))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let load = runtime.block_on(async {
        let engine = Engine::connect(&Endpoint::Auto).await?;
        let mut there = inventory::list(&engine).await?;
        there.retain(|present| present.image == image.name);
        inventory::remove(&engine, there).await;
        let begun = Instant::now();
        ensure(&engine, &built, &cache).await?;
        Ok::<_, images::Error>(begun.elapsed().as_secs_f64())
    })?;
    println!(
        "| `{name}` | {} | {floor:.1} s | {first:.1} s | {again:.2} s | {load:.1} s |",
        built.lock.size_bytes()
    );
    Ok(())
}
