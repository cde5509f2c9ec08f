//! `cargo xtask images`: list, build and lock images, and make what travels to other machines.

use std::{path::Path, sync::Arc};

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{Cache, Catalog, Image, LABEL_IMAGE, LockUse, Sources};

use crate::{
    cli::{Format, ImagesCommand, SourceArgs},
    commands::bench::prepare::{assembled, blocking, sources},
    error::Result,
    printer::Printer,
    table::table,
    workspace,
};

/// Carries one of its commands out.
pub(crate) async fn run(command: &ImagesCommand, printer: &Printer) -> Result<()> {
    let root = workspace::root()?;
    match command {
        ImagesCommand::List => list(&root, printer).await,
        ImagesCommand::Build {
            names,
            sources: args,
        } => build(&root, names, &sources(args, &root), printer).await,
        ImagesCommand::Lock {
            names,
            sources: args,
        } => lock(&root, names, sources(args, &root), printer).await,
        ImagesCommand::Export {
            name,
            to,
            sources: args,
        } => export(&root, name, to, args, printer).await,
        ImagesCommand::Base { to } => base(to, printer).await,
    }
}

fn load(root: &Path, names: &[String]) -> Result<Vec<Image>> {
    let catalog = Catalog::new(&root.join("images"));
    Ok(names
        .iter()
        .map(|name| catalog.image(name))
        .collect::<images::Result<_>>()?)
}

async fn list(root: &Path, printer: &Printer) -> Result<()> {
    let catalog = Catalog::new(&root.join("images"));
    let loaded = match Engine::connect(&Endpoint::auto()).await {
        Ok(engine) => engine.list_images(LABEL_IMAGE).await?,
        Err(_) => Vec::new(),
    };
    let mut table = table(
        Format::Text,
        ["image", "lock", "in the engine", "what it is"],
    );
    for name in catalog.names()? {
        let image = catalog.image(&name)?;
        let there: Vec<_> = loaded
            .iter()
            .filter(|found| found.labels.get(LABEL_IMAGE) == Some(&name))
            .map(|found| ByteSize::b(found.size_bytes).to_string())
            .collect();
        table.add_row([
            name,
            if image.lock.is_some() {
                "locked"
            } else {
                "–"
            }
            .to_owned(),
            there.join(", "),
            image.spec.description.clone(),
        ]);
    }
    printer.line(&table.to_string());
    Ok(())
}

async fn build(root: &Path, names: &[String], sources: &Sources, printer: &Printer) -> Result<()> {
    let images = load(root, names)?;
    let engine = Engine::connect(&Endpoint::auto()).await?;
    let cache = Cache::user()?;
    let progress: Arc<dyn images::Progress> = Arc::new(printer.clone());
    for image in images {
        let assembly = assembled(image, sources, &cache, printer).await?;
        let ready = images::ensure(&engine, &assembly, &cache, &progress).await?;
        let size = ByteSize::b(ready.facts.size_bytes());
        printer.line(&format!("{}  {}  {size}", ready.reference, ready.id));
        for layer in &ready.facts.layers {
            printer.line(&format!(
                "  {:<10} {}",
                layer.name,
                ByteSize::b(layer.size_bytes)
            ));
        }
    }
    Ok(())
}

async fn lock(
    root: &Path,
    names: &[String],
    mut sources: Sources,
    printer: &Printer,
) -> Result<()> {
    sources.locks = LockUse::Ignored;
    let cache = Cache::user()?;
    for image in load(root, names)? {
        let file = image.lock_file();
        let assembly = assembled(image, &sources, &cache, printer).await?;
        assembly.lock.write(&file)?;
        printer.line(&format!("{}: {}", file.display(), assembly.config_id));
    }
    Ok(())
}

async fn export(
    root: &Path,
    name: &str,
    to: &Path,
    args: &SourceArgs,
    printer: &Printer,
) -> Result<()> {
    let cache = Cache::user()?;
    for image in load(root, &[name.to_owned()])? {
        let assembly = assembled(image, &sources(args, root), &cache, printer).await?;
        let to_file = to.to_owned();
        let (reference, digest) = blocking(move || {
            let digest = assembly.write_archive(&to_file)?;
            Ok((assembly.reference.clone(), digest))
        })
        .await?;
        printer.line(&format!("{}: {reference}, {digest}", to.display()));
    }
    Ok(())
}

async fn base(to: &Path, printer: &Printer) -> Result<()> {
    let cache = Cache::user()?;
    let (to_file, progress) = (to.to_owned(), printer.clone());
    let digest =
        blocking(move || Ok(images::write_debian_base(&to_file, &cache, &progress)?)).await?;
    printer.line(&format!("{}: {digest}", to.display()));
    Ok(())
}
