//! `images prune`: removing what Torchgauge made, and nothing else; from the engine, or from the
//! cache.

use std::path::Path;

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
    let engine = Engine::connect(&Endpoint::auto()).await?;
    let mut found = inventory::list(&engine).await?;
    let specified = Catalog::new(&root.join("images")).names()?;
    let is_known =
        |name: &&String| specified.contains(name) || found.iter().any(|it| it.image == **name);
    // A misspelt name to keep would have everything removed.
    if let Some(unknown) = args.names.iter().chain(&args.keep).find(|n| !is_known(n)) {
        return Err(Error::NothingToPrune {
            name: unknown.clone(),
        });
    }
    found.retain(|image| {
        (args.names.is_empty() || args.names.contains(&image.image))
            && !args.keep.contains(&image.image)
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
    if !args.names.is_empty() {
        let (root, args) = (root.to_owned(), args.clone());
        match blocking(move || clear_only(&root, &args)).await {
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
fn specified(root: &Path) -> images::Result<Vec<Image>> {
    let catalog = Catalog::new(&root.join("images"));
    let names = catalog.names()?;
    names.iter().map(|name| catalog.image(name)).collect()
}

/// What of the cache only the named images are made of.
fn clear_only(root: &Path, args: &PruneArgs) -> Result<Vec<Removed>> {
    let (images, others): (Vec<Image>, Vec<Image>) = specified(root)?
        .into_iter()
        .partition(|image| args.names.contains(&image.name) && !args.keep.contains(&image.name));
    let what = Clear::Only {
        images: &images,
        others: &others,
    };
    Ok(images::clear_cache(&Cache::user_folder()?, what, args.dry_run)?.removed)
}

fn clear(root: &Path, choice: CacheChoice, args: &PruneArgs, printer: &Printer) -> Result<()> {
    let images = match choice {
        CacheChoice::All => Vec::new(),
        CacheChoice::Unused => specified(root)?,
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
