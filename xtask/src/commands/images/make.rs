//! `images build`, `lock`, `sbom`, `export` and `base`: what makes something.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{
    Assembly, Cache, Compression, Digest, Image, Loaded, LockState, LockUse, Packed, Sources,
    lock::ExpectedLayer,
};
use record::ImageLock;
use serde::Serialize;

use crate::{
    cli::Format,
    commands::bench::prepare::{assembled, blocking, cache, lock_of, with_base},
    error::Result,
    printer::Printer,
};

/// An image that is in the engine now, as it is printed.
#[derive(Debug, Serialize)]
struct Built {
    image: String,
    reference: String,
    id: String,
    config_id: Digest,
    manifest_id: Digest,
    engine: String,
    lock: ImageLock,
    libtorch: String,
    size_bytes: u64,
    layers: Vec<ExpectedLayer>,
    /// `already-there`, `thin` or `full`.
    loaded: &'static str,
    sent_bytes: u64,
    assemble_seconds: f64,
    load_seconds: f64,
}

pub(super) async fn build(
    images: Vec<Image>,
    sources: &Sources,
    format: Format,
    printer: &Printer,
) -> Result<()> {
    let engine = Engine::connect(&Endpoint::auto()).await?;
    let cache = cache(printer)?;
    let mut all = Vec::new();
    for image in images {
        let built = build_one(image, sources, &cache, &engine, printer).await?;
        if format != Format::Json {
            built.print(printer);
        }
        all.push(built);
    }
    if format == Format::Json {
        printer.json(&all)?;
    }
    Ok(())
}

async fn build_one(
    image: Image,
    sources: &Sources,
    cache: &Cache,
    engine: &Engine,
    printer: &Printer,
) -> Result<Built> {
    let begun = Instant::now();
    let assembly = assembled(image, sources, cache, printer).await?;
    let assemble_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let ready = images::ensure(engine, &assembly, cache).await?;
    let (loaded, sent_bytes) = match ready.loaded {
        Loaded::AlreadyThere => ("already-there", 0),
        Loaded::Thin { sent_bytes } => ("thin", sent_bytes),
        Loaded::Full { sent_bytes } => ("full", sent_bytes),
    };
    Ok(Built {
        image: ready.facts.name.clone(),
        reference: ready.reference,
        id: ready.id,
        config_id: assembly.config_id,
        manifest_id: assembly.manifest_id,
        engine: engine.facts().describe(),
        lock: lock_of(&ready.facts.lock),
        libtorch: ready.facts.libtorch_name.clone(),
        size_bytes: ready.facts.size_bytes(),
        layers: ready.facts.layers.clone(),
        loaded,
        sent_bytes,
        assemble_seconds,
        load_seconds: begun.elapsed().as_secs_f64(),
    })
}

impl Built {
    fn print(&self, printer: &Printer) {
        let size = ByteSize::b(self.size_bytes);
        printer.line(&format!("{}  {}  {size}", self.reference, self.id));
        for layer in &self.layers {
            printer.line(&format!(
                "  {:<10} {}",
                layer.name,
                ByteSize::b(layer.size_bytes)
            ));
        }
        let loaded = match self.loaded {
            "already-there" => format!("{} has it already", self.engine),
            _ => format!(
                "{} sent to {} in {:.1} s",
                ByteSize::b(self.sent_bytes),
                self.engine,
                self.load_seconds
            ),
        };
        printer.line(&format!("  {}; {loaded}", self.lock));
    }
}

pub(super) async fn lock(
    images: Vec<Image>,
    mut sources: Sources,
    with_push_digest: bool,
    printer: &Printer,
) -> Result<()> {
    sources.locks = LockUse::Ignored;
    let cache = cache(printer)?;
    for image in images {
        let file = image.lock_file();
        let assembly = assembled(image, &sources, &cache, printer).await?;
        write_lock(assembly, &file, with_push_digest, &cache, printer).await?;
    }
    Ok(())
}

/// Writes what was assembled into its lock.
async fn write_lock(
    assembly: Arc<Assembly>,
    file: &Path,
    with_push_digest: bool,
    cache: &Cache,
    printer: &Printer,
) -> Result<()> {
    let mut told = format!("{}: {}", file.display(), assembly.config_id);
    if with_push_digest {
        let cache = cache.clone();
        let pack = move || Ok(Packed::new(&assembly, Compression::Gzip, &cache)?);
        let packed = blocking(pack).await?;
        packed.lock().write(file)?;
        told = format!("{told}, to be pulled by {}", packed.digest());
    } else {
        assembly.lock.write(file)?;
    }
    printer.line(&told);
    Ok(())
}

pub(super) async fn lock_without_scenario(
    images: Vec<Image>,
    mut sources: Sources,
    printer: &Printer,
) -> Result<()> {
    sources.locks = LockUse::Ignored;
    let cache = cache(printer)?;
    for image in images {
        let file = image.lock_file();
        let image = with_base(image, &cache).await?;
        let (sources, cache) = (sources.clone(), cache.clone());
        let lock =
            blocking(move || Ok(images::lock_without_scenario(&image, &sources, &cache)?)).await?;
        lock.write(&file)?;
        printer.line(&format!("{}: without the scenario binary", file.display()));
    }
    Ok(())
}

/// Locks the scenario binary anew on top of what is locked.
pub(super) async fn lock_workload(
    images: Vec<Image>,
    sources: &Sources,
    with_push_digest: bool,
    printer: &Printer,
) -> Result<()> {
    let cache = cache(printer)?;
    for image in images {
        let file = image.lock_file();
        // Without a lock there is nothing to keep.
        image.usable_lock()?;
        let reference = image.reference.clone();
        let assembly = assembled(image, sources, &cache, printer).await?;
        if let LockState::Differs(cause) = &assembly.facts.lock {
            return Err(images::Error::LockDiffers {
                image: reference,
                cause: cause.clone(),
            }
            .into());
        }
        write_lock(assembly, &file, with_push_digest, &cache, printer).await?;
    }
    Ok(())
}

pub(super) fn sbom(image: &Image, to: Option<&Path>, printer: &Printer) -> Result<()> {
    let lock = image.usable_lock()?;
    match to {
        None => printer.json_text(&images::sbom(lock)),
        Some(file) => {
            images::write_sbom(lock, file)?;
            printer.line(&file.display().to_string());
        }
    }
    Ok(())
}

pub(super) async fn export(
    image: Image,
    to: &Path,
    sources: &Sources,
    printer: &Printer,
) -> Result<()> {
    images::check_place(to)?;
    let cache = cache(printer)?;
    let assembly = assembled(image, sources, &cache, printer).await?;
    let to_file = to.to_owned();
    let (reference, digest) = blocking(move || {
        let digest = assembly.write_archive(&to_file, &cache)?;
        Ok((assembly.reference.clone(), digest))
    })
    .await?;
    printer.line(&format!("{}: {reference}, {digest}", to.display()));
    Ok(())
}

pub(super) async fn load(files: &[PathBuf], printer: &Printer) -> Result<()> {
    let engine = Engine::connect(&Endpoint::auto()).await?;
    let image = images::load_files(&engine, files, &cache(printer)?).await?;
    printer.line(&format!("{}  {}", image.reference, image.id));
    Ok(())
}

pub(super) async fn base(to: &Path, printer: &Printer) -> Result<()> {
    images::check_place(to)?;
    let cache = cache(printer)?;
    let to_file = to.to_owned();
    let digest = blocking(move || Ok(images::write_debian_base(&to_file, &cache)?)).await?;
    printer.line(&format!("{}: {digest}", to.display()));
    Ok(())
}
