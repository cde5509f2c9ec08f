//! What Torchgauge has in an engine, and removing it.

use engine::Engine;

use serde::Serialize;

use crate::{Result, contents::LABEL_IMAGE};

/// An image of Torchgauge's in an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Present {
    /// Its ID in the engine.
    pub id: String,
    /// The spec's name, from its label.
    pub image: String,
    /// The flavour of libtorch in it, from its label.
    pub libtorch: String,
    /// Its names.
    pub references: Vec<String>,
    /// Its size as the engine counts it, shared layers included.
    pub size_bytes: u64,
}

/// The images that Torchgauge made, sorted by name: told by their label, not by what they are
/// called.
pub async fn list(engine: &Engine) -> Result<Vec<Present>> {
    let mut found: Vec<Present> = engine
        .list_images(LABEL_IMAGE)
        .await?
        .into_iter()
        .map(|image| {
            let label = |name: &str| image.labels.get(name).cloned().unwrap_or_default();
            Present {
                image: label(LABEL_IMAGE),
                libtorch: label("torchgauge.libtorch"),
                id: image.id,
                references: image.tags,
                size_bytes: image.size_bytes,
            }
        })
        .collect();
    found.sort_by(|a, b| (&a.image, &a.id).cmp(&(&b.image, &b.id)));
    Ok(found)
}

/// What a prune did.
#[derive(Debug, Default)]
pub struct Pruned {
    /// What was removed.
    pub removed: Vec<Present>,
    /// What could not be removed, such as an image that a container still uses, and why.
    pub kept: Vec<(Present, engine::Error)>,
}

/// Removes images that [`list`] found. An image that a container still uses stays, and so does
/// one whose label is gone by now: what others made is never touched, whatever it is called.
pub async fn remove(engine: &Engine, images: Vec<Present>) -> Pruned {
    let mut pruned = Pruned::default();
    for image in images {
        match remove_one(engine, &image).await {
            Ok(()) => pruned.removed.push(image),
            Err(error) => pruned.kept.push((image, error)),
        }
    }
    pruned
}

async fn remove_one(engine: &Engine, image: &Present) -> engine::Result<()> {
    match engine.image(&image.id).await? {
        Some(found) if found.labels.contains_key(LABEL_IMAGE) => {
            engine.remove_image(&image.id).await
        }
        _ => Ok(()),
    }
}
