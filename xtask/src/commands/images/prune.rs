//! `images prune`: removing what Torchgauge made, and nothing else; from the engine, or from the
//! cache.

use std::{fs, path::Path};

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{
    Cache, Catalog, Clear, Image, Removed,
    inventory::{self, Present},
};
use serde::Serialize;

use crate::{
    cli::{CacheChoice, Format, PruneArgs},
    commands::bench::prepare::blocking,
    error::{Error, Result},
    printer::Printer,
};

/// What was or would be removed, as it is printed.
#[derive(Debug, Serialize)]
struct Outcome {
    engine: String,
    dry_run: bool,
    removed: Vec<Present>,
    kept: Vec<Kept>,
    /// What of the cache only the named images were made of.
    cache: Vec<Removed>,
}

#[derive(Debug, Serialize)]
struct Kept {
    image: Present,
    why: String,
}

pub(super) async fn run(root: &Path, args: &PruneArgs, printer: &Printer) -> Result<()> {
    if let Some(choice) = args.cache {
        let (root, args, printer) = (root.to_owned(), args.clone(), printer.clone());
        return blocking(move || clear(&root, choice, &args, &printer)).await;
    }
    let catalog = Catalog::new(&root.join("images"));
    let read = |words: &[String]| -> Result<Vec<Named>> {
        let words = words.iter();
        words.map(|word| Named::read(word, &catalog)).collect()
    };
    let (named, kept) = (read(&args.names)?, read(&args.keep)?);
    let engine = Engine::connect(&Endpoint::auto()).await?;
    let mut found = inventory::list(&engine).await?;
    let specified = catalog.names()?;
    let has_spec = |one: &Named| one.file.is_some() || specified.contains(&one.name);
    let is_known = |one: &Named| has_spec(one) || found.iter().any(|it| it.image == one.name);
    // A misspelt name to keep would have everything removed.
    if let Some(unknown) = named.iter().chain(&kept).find(|one| !is_known(one)) {
        return Err(Error::NothingToPrune {
            name: unknown.name.clone(),
        });
    }
    for one in named.iter().filter(|one| !has_spec(one)) {
        printer.note(&format!(
            "`{}` has no spec in `images/`: what the cache has of it stays; name the spec's file to \
             remove that too",
            one.name
        ));
    }
    for one in named
        .iter()
        .filter(|one| one.file.is_some() && specified.contains(&one.name))
    {
        printer.note(&format!(
            "images made from `images/{}.yaml` have the same name, and are taken for those of the file",
            one.name
        ));
    }
    found.retain(|image| {
        (named.is_empty() || is_among(&named, &image.image)) && !is_among(&kept, &image.image)
    });
    let mut outcome = if args.dry_run {
        Outcome {
            engine: engine.facts().describe(),
            dry_run: true,
            removed: found,
            kept: Vec::new(),
            cache: Vec::new(),
        }
    } else {
        let pruned = inventory::remove(&engine, found).await;
        Outcome {
            engine: engine.facts().describe(),
            dry_run: false,
            removed: pruned.removed,
            kept: pruned
                .kept
                .into_iter()
                .map(|(image, error)| Kept {
                    image,
                    why: error.to_string(),
                })
                .collect(),
            cache: Vec::new(),
        }
    };
    if !named.is_empty() {
        let (catalog, dry_run) = (catalog.clone(), args.dry_run);
        match blocking(move || clear_only(&catalog, &named, &kept, dry_run)).await {
            Ok(removed) => outcome.cache = removed,
            // The engine's part is done; a build that runs keeps what the cache has.
            Err(error) => printer.note(&error.to_string()),
        }
    }
    if args.format == Format::Json {
        printer.json(&outcome)?;
    } else {
        print(&outcome, printer);
    }
    if outcome.kept.is_empty() {
        Ok(())
    } else {
        Err(Error::NotPruned {
            kept: outcome.kept.len(),
        })
    }
}

/// What of the cache went or would go, as it is printed.
#[derive(Debug, Serialize)]
struct ClearedWords {
    folder: String,
    dry_run: bool,
    removed: Vec<Removed>,
    removed_bytes: u64,
    kept_bytes: u64,
}

/// The images of the checkout. One that cannot be read ends it: what it is made of would be taken
/// for unused.
fn specified(catalog: &Catalog) -> images::Result<Vec<Image>> {
    let names = catalog.names()?;
    names.iter().map(|name| catalog.image(name)).collect()
}

/// An image as the command line names it.
struct Named {
    name: String,
    /// Its spec, where a file was named.
    file: Option<Image>,
}

impl Named {
    fn read(word: &str, catalog: &Catalog) -> Result<Self> {
        let file = Catalog::is_file(word)
            .then(|| catalog.image(word))
            .transpose()?;
        let name = file.as_ref().map_or(word, |image| &image.name).to_owned();
        Ok(Self { name, file })
    }
}

fn is_among(named: &[Named], name: &str) -> bool {
    named.iter().any(|one| one.name == name)
}

/// What of the cache only the named images are made of, and none of those that are kept, of the
/// catalog's, or whose specs lie beside a file that was named.
fn clear_only(
    catalog: &Catalog,
    named: &[Named],
    kept: &[Named],
    dry_run: bool,
) -> Result<Vec<Removed>> {
    let is_named = |image: &Image| {
        let mut named = named.iter().filter(|one| one.file.is_none());
        named.any(|one| one.name == image.name)
    };
    let (mut images, mut others): (Vec<Image>, Vec<Image>) =
        specified(catalog)?.into_iter().partition(is_named);
    for image in named.iter().filter_map(|one| one.file.as_ref()) {
        images.push(image.clone());
        others.extend(beside(&image.file)?);
    }
    others.extend(kept.iter().filter_map(|one| one.file.clone()));
    let place = |image: &Image| fs::canonicalize(&image.file).ok();
    others.retain(|other| images.iter().all(|image| place(image) != place(other)));
    let (stay, images): (Vec<Image>, Vec<Image>) = images
        .into_iter()
        .partition(|image| is_among(kept, &image.name));
    others.extend(stay);
    let what = Clear::Only {
        images: &images,
        others: &others,
    };
    Ok(images::clear_cache(&Cache::user_folder()?, what, dry_run)?.removed)
}

/// The images whose specs lie beside this one. Other files there are YAML too.
fn beside(spec: &Path) -> images::Result<Vec<Image>> {
    let folder = match spec.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let catalog = Catalog::new(folder);
    let names = catalog.names()?;
    let specs = names
        .iter()
        .filter(|name| catalog.image_without_lock(name).is_ok());
    specs.map(|name| catalog.image(name)).collect()
}

fn clear(root: &Path, choice: CacheChoice, args: &PruneArgs, printer: &Printer) -> Result<()> {
    let images = match choice {
        CacheChoice::All => Vec::new(),
        CacheChoice::Unused => specified(&Catalog::new(&root.join("images")))?,
    };
    let what = match choice {
        CacheChoice::All => Clear::All,
        CacheChoice::Unused => Clear::Unused(&images),
    };
    let cleared = images::clear_cache(&Cache::user_folder()?, what, args.dry_run)?;
    let words = ClearedWords {
        folder: cleared.folder.display().to_string(),
        dry_run: args.dry_run,
        removed_bytes: cleared.removed.iter().map(|one| one.size_bytes).sum(),
        kept_bytes: cleared.kept_bytes,
        removed: cleared.removed,
    };
    if args.format == Format::Json {
        return printer.json(&words);
    }
    let word = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    for removed in &words.removed {
        let size = ByteSize::b(removed.size_bytes);
        printer.line(&format!("{word} {} ({size})", removed.name));
    }
    printer.line(&format!(
        "{word} {} of {}; {} stay",
        ByteSize::b(words.removed_bytes),
        words.folder,
        ByteSize::b(words.kept_bytes)
    ));
    Ok(())
}

fn print(outcome: &Outcome, printer: &Printer) {
    let word = if outcome.dry_run {
        "would remove"
    } else {
        "removed"
    };
    for image in &outcome.removed {
        printer.line(&format!("{word} {}", words(image)));
    }
    for kept in &outcome.kept {
        printer.line(&format!("kept {}: {}", words(&kept.image), kept.why));
    }
    for removed in &outcome.cache {
        let size = ByteSize::b(removed.size_bytes);
        printer.line(&format!("{word} {} of the cache ({size})", removed.name));
    }
    if outcome.removed.is_empty() && outcome.kept.is_empty() {
        printer.line(&format!(
            "nothing to remove: {} has no such image that Torchgauge made",
            outcome.engine
        ));
    }
}

fn words(image: &Present) -> String {
    let name = image.references.first().unwrap_or(&image.id);
    format!("{name} ({})", ByteSize::b(image.size_bytes))
}
