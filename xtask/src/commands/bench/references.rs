//! Complete images that were asked for by reference: what they are, and what a session calls them.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use bench_suite::executors::{IMAGE_VARIABLE, LocalRuntime};
use engine::Store;
use images::{Cache, ReadyMade, SCENARIO_IN_IMAGE};
use record::ImageFacts;

use super::prepare::{Chosen, cache};
use crate::{cli::SourceArgs, error::Result, printer::Printer};

/// Letters of a digest that tell one image from another, as in the names that engines have.
const SHORT: usize = 12;

/// Whether a word names an image of an engine's or a registry's, `NAME:TAG` or `NAME@sha256:…`, or
/// an image's archive, `FILE.tar`, and no spec.
pub(crate) fn is_reference(word: &str) -> bool {
    let last = word.rsplit('/').next().unwrap_or(word);
    let is_file = word.starts_with(['.', '/'])
        || Path::new(word).extension().is_some_and(|end| end == "yaml");
    is_archive(word) || !is_file && last.contains([':', '@'])
}

/// Whether a word names the file of an image's archive.
pub(crate) fn is_archive(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|end| end == "tar")
}

/// Looks at the images of these references in what is to run them, which pulls those that it lacks.
pub(super) async fn look(
    references: &[&str],
    store: Store<'_>,
    sources: &SourceArgs,
    printer: &Printer,
) -> Result<BTreeMap<String, ReadyMade>> {
    let mut found = BTreeMap::new();
    let cache = cache(printer)?;
    for reference in references {
        let image = images::ready_made(store, reference, &cache).await?;
        found.insert((*reference).to_owned(), image);
    }
    trim(store, &cache, sources)?;
    Ok(found)
}

/// Keeps the cache to its size, where images were unpacked into it.
pub(super) fn trim(store: Store<'_>, cache: &Cache, sources: &SourceArgs) -> Result<()> {
    match store {
        Store::Engine(_) => Ok(()),
        Store::Unpacked(_) => Ok(cache.trim(sources.cache_size.0)?),
    }
}

/// An image of a Pod. Each of its containers is one of them, and sees that alone.
pub(super) fn in_pod(name: &str, reference: &str) -> (LocalRuntime, ImageFacts) {
    let mut facts = ImageFacts {
        name: name.to_owned(),
        reference: Some(reference.to_owned()),
        ..ImageFacts::default()
    };
    let program = PathBuf::from(SCENARIO_IN_IMAGE);
    if env::var(IMAGE_VARIABLE).is_ok_and(|own| own == reference) {
        // An image of the user's has none, and runs programs.
        let content = fs::read(&program).ok();
        facts.scenario_sha256 = content.map(|content| images::Digest::of(&content).hex());
    }
    let runtime = LocalRuntime {
        program,
        library_path: Vec::new(),
    };
    (runtime, facts)
}

/// Names the complete ones of a session's images: as the specs that they were made from, with a part
/// of their digest where more images of the session are called so. One that a session was begun with
/// keeps the name that it has there.
pub(super) fn name(chosen: &mut [Chosen], begun_with: &[ImageFacts]) {
    let specs: Vec<String> = chosen
        .iter()
        .filter(|one| matches!(one, Chosen::Spec(_)))
        .map(|one| one.name().to_owned())
        .collect();
    let began = |reference: &str| {
        let is_it = |one: &&ImageFacts| {
            one.reference.as_deref() == Some(reference) && !specs.contains(&one.name)
        };
        begun_with.iter().find(is_it).map(|one| one.name.clone())
    };
    let all: Vec<String> = chosen.iter().map(|one| one.name().to_owned()).collect();
    for one in chosen {
        let Chosen::ReadyMade {
            name,
            reference,
            found,
        } = one
        else {
            continue;
        };
        if let Some(known) = began(reference) {
            *name = known;
        } else if all.iter().filter(|other| *other == name).count() > 1 {
            *name = told_apart(name, reference, found.as_deref().map(|found| &*found.id));
        }
    }
}

/// The last word of a reference's repository: all that is known of an image's name without an
/// engine.
pub(crate) fn last_word(reference: &str) -> &str {
    let last = reference.rsplit('/').next().unwrap_or(reference);
    last.split([':', '@']).next().unwrap_or(last)
}

/// The name of an image among others of that name, by the digest in its reference, or else by its
/// ID.
pub(crate) fn told_apart(name: &str, reference: &str, id: Option<&str>) -> String {
    let digest = reference.split_once('@').map(|(_, digest)| digest).or(id);
    match digest {
        Some(digest) => {
            let hex = digest.split_once(':').map_or(digest, |(_, hex)| hex);
            let short: String = hex.chars().take(SHORT).collect();
            format!("{name}@{short}")
        }
        None => reference.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_from_specs() {
        for word in [
            "torchgauge/torch-2.6.0-cu124:0a1b2c3d4e5f",
            "registry.example:5000/team/image@sha256:00",
            "image:tag",
            "./image.tar",
        ] {
            assert!(is_reference(word), "{word}");
        }
        for word in [
            "torch-2.6.0-cu124",
            "./a:b/x.yaml",
            "images/x.yaml",
            "/tmp/a:b",
            "registry.example:5000/team/image",
        ] {
            assert!(!is_reference(word), "{word}");
        }
    }

    fn ready_made(name: &str, reference: &str) -> Chosen {
        Chosen::ReadyMade {
            name: name.to_owned(),
            reference: reference.to_owned(),
            found: None,
        }
    }

    #[track_caller]
    fn check(images: &[(&str, &str)], begun_with: &[(&str, &str)], expected: &[&str]) {
        let mut chosen: Vec<Chosen> = images
            .iter()
            .map(|(name, reference)| ready_made(name, reference))
            .collect();
        let facts = |(name, reference): &(&str, &str)| ImageFacts {
            name: (*name).to_owned(),
            reference: Some((*reference).to_owned()),
            ..ImageFacts::default()
        };
        let begun_with: Vec<ImageFacts> = begun_with.iter().map(facts).collect();
        name(&mut chosen, &begun_with);
        let names: Vec<&str> = chosen.iter().map(Chosen::name).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn images_of_one_name_are_told_apart_by_their_digests() {
        let one = "r:5000/team/images@sha256:00112233445566778899";
        let other = "r:5000/team/images@sha256:ffeeddccbbaa99887766";
        let (a, b) = ("torch-2.11.0-cpu", "torch-2.12.1-cpu");
        check(&[(a, one), (b, other)], &[], &[a, b]);
        let apart = [
            "torch-2.11.0-cpu@001122334455",
            "torch-2.11.0-cpu@ffeeddccbbaa",
        ];
        check(&[(a, one), (a, other)], &[], &apart);
        // No engine has told a digest.
        check(&[(a, one), (a, "a:1")], &[], &[apart[0], "a:1"]);
        assert_eq!(
            told_apart(a, "a:1", Some("sha256:ffeeddccbbaa99")),
            apart[1]
        );
        // What a session was begun with.
        let begun_with = [("images", one), (other, other)];
        check(&[(a, one), (b, other)], &begun_with, &["images", other]);
    }

    #[test]
    fn the_last_word_of_a_repository() {
        for (reference, word) in [
            ("team/cu130:abc", "cu130"),
            ("r:5000/team/cu130@sha256:00ff", "cu130"),
        ] {
            assert_eq!(last_word(reference), word);
        }
    }
}
