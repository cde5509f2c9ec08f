//! `images prune`: removing from the engine what Torchgauge made, and nothing else.

use std::path::Path;

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{
    Catalog,
    inventory::{self, Present, Pruned},
};
use reports::format::plural;
use serde::Serialize;

use super::PruneArgs;
use crate::{
    cli::Format,
    error::{Error, Result},
    printer::Printer,
};

/// What was or would be removed, as it is printed.
#[derive(Debug, Serialize)]
struct Outcome {
    engine: String,
    dry_run: bool,
    #[serde(flatten)]
    pruned: Pruned,
}

pub(super) async fn run(root: &Path, args: &PruneArgs, printer: &Printer) -> Result<()> {
    let catalog = Catalog::new(&root.join("images"));
    let read = |words: &[String]| -> images::Result<Vec<String>> {
        words.iter().map(|word| name(word, &catalog)).collect()
    };
    let (named, kept) = (read(&args.names)?, read(&args.keep)?);
    let engine = Engine::connect(&Endpoint::Auto).await?;
    let mut found = inventory::list(&engine).await?;
    let specified = catalog.names()?;
    let is_known = |word: &String| {
        Catalog::is_file(word)
            || specified.contains(word)
            || found.iter().any(|image| image.image == *word)
    };
    // A misspelt name to keep would have everything removed.
    let mut words = args.names.iter().chain(&args.keep);
    if let Some(unknown) = words.find(|word| !is_known(word)) {
        return Err(Error::Input(format!(
            "no image is called `{unknown}`, in `images/` or in the engine; `{} images list` shows \
             those that are; a spec elsewhere is named by its file",
            protocol::program()
        )));
    }
    found.retain(|image| {
        (named.is_empty() || named.contains(&image.image)) && !kept.contains(&image.image)
    });
    let pruned = if args.dry_run {
        Pruned {
            removed: found,
            kept: Vec::new(),
        }
    } else {
        inventory::remove(&engine, found).await
    };
    let outcome = Outcome {
        engine: engine.facts().describe(),
        dry_run: args.dry_run,
        pruned,
    };
    if args.format == Format::Json {
        printer.json(&outcome)?;
    } else {
        print(&outcome, printer);
    }
    match outcome.pruned.kept.len() {
        0 => Ok(()),
        kept => Err(Error::Trouble(format!(
            "{} not be removed; end the containers that use them, and run again",
            plural(kept, "image could", "images could")
        ))),
    }
}

/// The name of an image that the command line names, or whose spec it does.
fn name(word: &str, catalog: &Catalog) -> images::Result<String> {
    if Catalog::is_file(word) {
        return Ok(catalog.image_without_lock(word)?.name);
    }
    Ok(word.to_owned())
}

fn print(outcome: &Outcome, printer: &Printer) {
    let word = if outcome.dry_run {
        "would remove"
    } else {
        "removed"
    };
    for image in &outcome.pruned.removed {
        printer.line(&format!("{word} {}", words(image)));
    }
    for kept in &outcome.pruned.kept {
        printer.line(&format!("kept {}: {}", words(&kept.image), kept.why));
    }
    if outcome.pruned.removed.is_empty() && outcome.pruned.kept.is_empty() {
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
