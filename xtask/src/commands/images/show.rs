//! `images list` and `images inspect`: what there is, without making anything.

use std::path::Path;

use bytesize::ByteSize;
use engine::{Endpoint, Engine};
use images::{
    Catalog, Digest, Image, Spec,
    inventory::{self, Present},
    lock::Lock,
};
use serde::Serialize;

use crate::{cli::Format, error::Result, printer::Printer, table::table};

/// An engine that has an image.
#[derive(Debug, Serialize)]
struct Holder {
    engine: String,
    id: String,
    references: Vec<String>,
    size_bytes: u64,
    /// Whether it is the image that the lock expects.
    locked: bool,
}

#[derive(Debug, Serialize)]
struct Listed {
    image: String,
    description: String,
    /// `fits`, `outdated`, `none`, or `unreadable` where spec or lock is.
    lock: &'static str,
    size_bytes: Option<u64>,
    /// `None` where no engine answers, and where spec or lock cannot be read.
    engines: Option<Vec<Holder>>,
}

/// An image as it is printed.
#[derive(Debug, Serialize)]
struct Inspected<'a> {
    image: &'a str,
    spec: &'a Spec,
    digest: Digest,
    /// `fits`, `outdated` or `none`.
    lock: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    locked: Option<&'a Lock>,
    /// `None` where no engine answers.
    engines: Option<Vec<Holder>>,
}

/// What each engine that answers has; `None` where none does: the specs are there without one.
async fn engines() -> Result<Option<Vec<(Engine, Vec<Present>)>>> {
    let engines = match Engine::connect_all(&Endpoint::Auto).await {
        Ok(engines) => engines,
        Err(engine::Error::NoEngine(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for engine in engines {
        let images = inventory::list(&engine).await?;
        found.push((engine, images));
    }
    Ok(Some(found))
}

fn holders(image: &Image, engines: Option<&[(Engine, Vec<Present>)]>) -> Option<Vec<Holder>> {
    let locked = image
        .lock
        .as_ref()
        .and_then(|lock| lock.expected.image.as_ref());
    let ids = locked.map(|locked| [locked.config_id, locked.manifest_id].map(|id| id.to_string()));
    let is_locked = |id: &String| ids.as_ref().is_some_and(|ids| ids.contains(id));
    let mut found = Vec::new();
    for (engine, images) in engines? {
        for present in images.iter().filter(|present| present.image == image.name) {
            found.push(Holder {
                engine: engine.facts().describe(),
                id: present.id.clone(),
                references: present.references.clone(),
                size_bytes: present.size_bytes,
                locked: is_locked(&present.id),
            });
        }
    }
    Some(found)
}

fn lock_word(image: &Image) -> &'static str {
    match &image.lock {
        None => "none",
        Some(_) if image.usable_lock().is_ok() => "fits",
        Some(_) => "outdated",
    }
}

pub(super) async fn list(root: &Path, format: Format, printer: &Printer) -> Result<()> {
    let catalog = Catalog::new(&root.join("images"));
    let engines = engines().await?;
    let mut all = Vec::new();
    // One that cannot be read hides no other, and ends the command as it would alone.
    let mut unreadable = None;
    for name in catalog.names()? {
        match catalog.image(&name) {
            Ok(image) => all.push(Listed {
                engines: holders(&image, engines.as_deref()),
                lock: lock_word(&image),
                size_bytes: image.lock.as_ref().map(Lock::size_bytes),
                description: image.spec.description,
                image: name,
            }),
            Err(error) => {
                all.push(Listed {
                    image: name,
                    description: String::new(),
                    lock: "unreadable",
                    size_bytes: None,
                    engines: None,
                });
                unreadable.get_or_insert(error);
            }
        }
    }
    if format == Format::Json {
        printer.json(&all)?;
    } else {
        print_list(all, format, printer);
    }
    unreadable.map_or(Ok(()), |error| Err(error.into()))
}

fn print_list(all: Vec<Listed>, format: Format, printer: &Printer) {
    let mut table = table(
        format,
        ["image", "lock", "size", "in the engines", "what it is"],
    );
    for listed in all {
        let engines: Vec<String> = match &listed.engines {
            None if listed.lock == "unreadable" => Vec::new(),
            None => vec!["no engine answers".to_owned()],
            Some(holders) => holders.iter().map(in_words).collect(),
        };
        let size = listed
            .size_bytes
            .map(|bytes| ByteSize::b(bytes).to_string());
        table.add_row([
            listed.image,
            listed.lock.to_owned(),
            size.unwrap_or_default(),
            engines.join("\n"),
            listed.description,
        ]);
    }
    printer.line(&table.to_string());
}

fn in_words(holder: &Holder) -> String {
    let product = holder.engine.split(' ').next().unwrap_or_default();
    let locked = if holder.locked { ", as locked" } else { "" };
    let digest = holder.id.trim_start_matches("sha256:");
    let id = digest.get(..12).unwrap_or(digest);
    let size = ByteSize::b(holder.size_bytes);
    format!("{product} {id} {size}{locked}")
}

pub(super) async fn inspect(image: &Image, printer: &Printer) -> Result<()> {
    let inspected = Inspected {
        image: &image.name,
        spec: &image.spec,
        digest: image.spec.digest(),
        lock: lock_word(image),
        locked: image.lock.as_ref(),
        engines: holders(image, engines().await?.as_deref()),
    };
    printer.json(&inspected)
}
