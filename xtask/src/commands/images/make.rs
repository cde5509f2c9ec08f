//! `images build`, `lock`, `export` and `base`: what makes something.

use std::{path::Path, sync::Arc, time::Instant};

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{
    Assembly, Cache, Digest, Image, Loaded, LockUse, Packed, Sources, lock::ExpectedLayer,
};
use record::ImageLock;
use serde::Serialize;

use crate::{
    cli::Format,
    commands::bench::prepare::{assembled, blocking, cache},
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
    loaded: Loaded,
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
    let engine = Engine::connect(&Endpoint::Auto).await?;
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
    Ok(Built {
        image: ready.facts.name,
        reference: assembly.reference.clone(),
        id: ready.id,
        config_id: assembly.config_id,
        manifest_id: assembly.manifest_id,
        engine: engine.facts().describe(),
        lock: ready.facts.lock.unwrap_or(ImageLock::Unlocked),
        libtorch: ready.facts.flavour,
        size_bytes: assembly.lock.size_bytes(),
        layers: assembly.lock.layers().cloned().collect(),
        loaded: ready.loaded,
        sent_bytes: ready.facts.loaded_bytes.unwrap_or_default(),
        assemble_seconds,
        load_seconds: begun.elapsed().as_secs_f64(),
    })
}

impl Built {
    fn print(&self, printer: &Printer) {
        let size = ByteSize::b(self.size_bytes);
        printer.line(&format!("{}  {}  {size}", self.reference, self.id));
        for ExpectedLayer {
            name, size_bytes, ..
        } in &self.layers
        {
            printer.line(&format!("  {name:<10} {}", ByteSize::b(*size_bytes)));
        }
        let loaded = match self.loaded {
            Loaded::AlreadyThere => format!("{} has it already", self.engine),
            Loaded::Thin | Loaded::Full => format!(
                "{} sent to {} in {:.1} s",
                ByteSize::b(self.sent_bytes),
                self.engine,
                self.load_seconds
            ),
        };
        printer.line(&format!("  {}; {loaded}", self.lock));
    }
}

/// Writes locks: of everything anew, or with `workload` of the scenario binary on top of what is
/// locked.
pub(super) async fn lock(
    images: Vec<Image>,
    mut sources: Sources,
    workload: bool,
    with_push_digest: bool,
    printer: &Printer,
) -> Result<()> {
    if !workload {
        sources.locks = LockUse::Ignored;
    }
    let cache = cache(printer)?;
    for image in images {
        let (file, reference) = (image.lock_file(), image.reference.clone());
        if workload {
            // Without a lock there is nothing to keep.
            image.usable_lock()?;
        }
        let assembly = assembled(image, &sources, &cache, printer).await?;
        if workload && let Some(ImageLock::Differs { cause }) = &assembly.facts.lock {
            return Err(images::Error::lock_differs(&reference, cause).into());
        }
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
        let pack = move || Ok(Packed::new(&assembly, &cache)?);
        let packed = blocking(pack).await?;
        packed.lock().write(file)?;
        told = format!("{told}, to be pulled by {}", packed.digest());
    } else {
        assembly.lock.write(file)?;
    }
    printer.line(&told);
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

pub(super) async fn base(to: &Path, printer: &Printer) -> Result<()> {
    images::check_place(to)?;
    let cache = cache(printer)?;
    let to_file = to.to_owned();
    let digest = blocking(move || Ok(images::write_debian_base(&to_file, &cache)?)).await?;
    printer.line(&format!("{}: {digest}", to.display()));
    Ok(())
}
