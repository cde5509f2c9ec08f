//! What lies between the two ends: images by version, or as they are named.

use bench_suite::bisect::Candidate;
use images::{Catalog, Image};

use crate::{
    commands::bench::{
        references::{is_reference, last_word, told_apart},
        resume,
    },
    error::Result,
    workspace,
};

/// A suite as it can be found from any folder.
pub(super) fn whole_suite(given: &str) -> String {
    let (name, scenario) = match given.rsplit_once(':') {
        Some((name, scenario)) => (name, Some(scenario)),
        None => (given, None),
    };
    let name = resume::whole(&[name.to_owned()]).concat();
    scenario.map_or_else(|| name.clone(), |scenario| format!("{name}:{scenario}"))
}

/// The images of a program's search, which may be anybody's: as the engine knows them.
pub(super) fn own_images(good: &str, bad: &str, between: &[String]) -> Vec<Candidate> {
    let between = between.iter().map(String::as_str);
    let images = std::iter::once(good).chain(between).chain([bad]);
    let candidate = |image: &str| Candidate {
        name: image.to_owned(),
        image: image.to_owned(),
    };
    images.map(candidate).collect()
}

/// The images between two, as they were named, or by the versions of torch in them.
pub(super) fn images(good: &str, bad: &str, between: &[String]) -> Result<Vec<Candidate>> {
    let mut names = vec![good.to_owned()];
    if between.is_empty() && !is_reference(good) && !is_reference(bad) {
        names.extend(between_versions(good, bad)?);
    } else {
        names.extend_from_slice(between);
    }
    names.push(bad.to_owned());
    let catalog = Catalog::new(&workspace::root()?.join("images"));
    let mut found: Vec<Candidate> = Vec::new();
    for image in names {
        let known: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        let name = if is_reference(&image) {
            // Those that no step comes to are not pulled for their names.
            match last_word(&image) {
                word if known.contains(&word) => told_apart(word, &image, None),
                word => word.to_owned(),
            }
        } else {
            catalog.image(&image)?.name
        };
        let image = resume::whole(&[image]).concat();
        found.push(Candidate { name, image });
    }
    Ok(found)
}

/// The specs of `images/` whose torch lies between those of the two, in their order, on the same
/// kind of base and for the same kind of GPU.
fn between_versions(good: &str, bad: &str) -> Result<Vec<String>> {
    let catalog = Catalog::new(&workspace::root()?.join("images"));
    let (good, bad) = (catalog.image(good)?, catalog.image(bad)?);
    let version = |image: &Image| {
        let text = image.spec.libtorch.version()?.to_owned();
        let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        parts
    };
    let (Some(first), Some(last)) = (version(&good), version(&bad)) else {
        return Ok(Vec::new());
    };
    let is_backwards = first > last;
    let range = first.clone().min(last.clone())..first.max(last);
    let mut found = Vec::new();
    for name in catalog.names()? {
        let image = catalog.image(&name)?;
        let is_alike = image.spec.libtorch.flavour() == good.spec.libtorch.flavour()
            && image.spec.gpu_architectures == good.spec.gpu_architectures;
        let lies_between = version(&image)
            .filter(|version| *version > range.start && *version < range.end)
            .filter(|_| is_alike && image.reference == name);
        found.extend(lies_between.map(|version| (version, name)));
    }
    found.sort();
    if is_backwards {
        found.reverse();
    }
    Ok(found.into_iter().map(|(_, name)| name).collect())
}
