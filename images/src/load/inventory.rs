//! What Torchgauge has in an engine, and removing it.

use engine::Engine;

use serde::Serialize;

use crate::{
    Result,
    spec::reserved::{DOMAIN, LABEL_IMAGE, LABEL_LIBTORCH, OWN},
};

/// An image of Torchgauge's in an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Present {
    pub id: String,
    /// The spec's name, from its label.
    pub image: String,
    /// The flavour of libtorch in it, from its label.
    pub libtorch: String,
    /// The names that Torchgauge gave it.
    pub references: Vec<String>,
    /// Its size as the engine counts it, shared layers included.
    pub size_bytes: u64,
}

/// The images that Torchgauge made, sorted by name: those with its label and a name that it gives.
/// The label alone does not tell them, since whatever is built on one of them inherits it.
pub async fn list(engine: &Engine) -> Result<Vec<Present>> {
    let mut found: Vec<Present> = engine
        .list_images(LABEL_IMAGE)
        .await?
        .into_iter()
        .filter_map(|image| {
            let label = |name: &str| image.labels.get(name).cloned().unwrap_or_default();
            let name = label(LABEL_IMAGE);
            let references = own_names(image.tags, &name);
            (!references.is_empty()).then(|| Present {
                libtorch: label(LABEL_LIBTORCH),
                image: name,
                references,
                id: image.id,
                size_bytes: image.size_bytes,
            })
        })
        .collect();
    found.sort_by(|a, b| (&a.image, &a.id).cmp(&(&b.image, &b.id)));
    Ok(found)
}

/// Those of an image's names that Torchgauge gives: `torchgauge/<spec name>:<ID>`, which Podman puts
/// a domain before.
fn own_names(mut names: Vec<String>, image: &str) -> Vec<String> {
    let start = format!("{OWN}{image}:");
    names.retain(|name| {
        let name = name.strip_prefix("localhost/").unwrap_or(name);
        let name = name.strip_prefix(DOMAIN).unwrap_or(name);
        name.starts_with(&start)
    });
    names
}

/// What a prune did, or would do.
#[derive(Debug, Default, Serialize)]
pub struct Pruned {
    pub removed: Vec<Present>,
    /// What could not be removed, such as an image that a container still uses.
    pub kept: Vec<Kept>,
}

/// An image that could not be removed.
#[derive(Debug, Serialize)]
pub struct Kept {
    pub image: Present,
    pub why: String,
}

/// Removes images that [`list`] found. An image that a container still uses stays, and so do names
/// that others gave it, with the image behind them.
pub async fn remove(engine: &Engine, images: Vec<Present>) -> Pruned {
    let mut pruned = Pruned::default();
    for image in images {
        match remove_one(engine, &image).await {
            Ok(()) => pruned.removed.push(image),
            Err(error) => pruned.kept.push(Kept {
                why: error.to_string(),
                image,
            }),
        }
    }
    pruned
}

async fn remove_one(engine: &Engine, image: &Present) -> engine::Result<()> {
    let Some(found) = engine.image(&image.id).await? else {
        return Ok(());
    };
    // Without its last name the image goes as well.
    for name in own_names(found.tags, &image.image) {
        engine.untag(&name).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::own_names;

    #[test]
    fn names_that_others_gave_are_not_ours() {
        let names = [
            "torchgauge/cpu:f73e2ce216f0",
            "localhost/torchgauge/cpu:f73e2ce216f0",
            "docker.io/torchgauge/cpu:f73e2ce216f0",
            "mine:keep",
            "torchgauge/cpu-mine:1",
            "registry.example/torchgauge/cpu:1",
        ];
        let ours = own_names(names.map(str::to_owned).to_vec(), "cpu");
        assert_eq!(ours, names[..3]);
    }
}
