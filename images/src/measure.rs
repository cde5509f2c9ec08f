//! How long it takes to make an image, beside how long its bytes alone take.

use std::{
    fs::{self, File},
    io::BufWriter,
    path::Path,
    time::Instant,
};

use crate::{
    Assembly, Error, Image, Progress, Result, Sources,
    assembly::assemble,
    cache::Cache,
    digest::HashingWriter,
    error::at,
    verify::{fresh_cache, verify},
};

/// What making an image took, in seconds. Downloads are there already, and the scenario binary is
/// compiled: both take what the network and the compiler take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Writing the image's bytes to the disk and hashing them once: no build does less.
    pub floor_seconds: f64,
    /// The first build, with nothing in the cache but downloads, which were hashed as they came in:
    /// they are unpacked, and what comes out is hashed.
    pub build_seconds: f64,
    /// The same build again, with nothing changed.
    pub rebuild_seconds: f64,
    /// Building a second time from scratch, and comparing.
    pub verify_seconds: f64,
}

/// Builds an image that was built before in a cache of its own, and measures. A second build that
/// differs is an error.
pub fn measure(
    image: &Image,
    built: &Assembly,
    sources: &Sources,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Measured> {
    let scratch = cache.scratch()?;
    let own = fresh_cache(cache, &scratch.path().join("cache"))?;
    for folder in ["wheels", "debs"] {
        // Downloads are hashed as they come in.
        own.take_digests(cache, folder, progress)?;
    }
    let mut sources = sources.clone();
    sources.scenario_binary = Some(built.scenario.clone());

    let (first, build_seconds) = timed(|| assemble(image, &sources, &own, progress))?;
    let (_, rebuild_seconds) = timed(|| assemble(image, &sources, &own, progress))?;
    let file = scratch.path().join("bytes");
    let ((), floor_seconds) = timed(|| write_and_hash(&first, &file))?;
    fs::remove_file(&file).map_err(at(&file))?;
    let (second, verify_seconds) = timed(|| verify(image, &first, &sources, &own, progress))?;
    if !second.is_identical() || first.config_id != built.config_id {
        return Err(Error::LockDiffers {
            image: image.name.clone(),
            cause: "a second build of it gave another image; `cargo xtask images verify` says \
                    where they differ"
                .to_owned(),
        });
    }
    Ok(Measured {
        floor_seconds,
        build_seconds,
        rebuild_seconds,
        verify_seconds,
    })
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((done, begun.elapsed().as_secs_f64()))
}

fn write_and_hash(assembly: &Assembly, to: &Path) -> Result<()> {
    let file = BufWriter::with_capacity(1 << 20, File::create(to).map_err(at(to))?);
    let mut writer = HashingWriter::new(file);
    for layer in &assembly.layers {
        layer.source.write(layer.id.size_bytes, &mut writer)?;
    }
    let (file, ..) = writer.finish();
    let file = file
        .into_inner()
        .map_err(|error| at(to)(error.into_error()))?;
    file.sync_data().map_err(at(to))
}
