//! Tracks: the lines of images that are followed over time.

use std::collections::{BTreeMap, BTreeSet};

use record::usual_track;

/// The track of every image of a session: the one that it was given, or else the usual one. Where
/// images of one session have that in common they are followed side by side, each under its own name.
pub(crate) fn tracks(
    images: &BTreeSet<&str>,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let free = || images.iter().filter(|image| !given.contains_key(**image));
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for track in given
        .values()
        .cloned()
        .chain(free().map(|image| usual_track(image)))
    {
        *taken.entry(track).or_default() += 1;
    }
    let usual = free().map(|image| {
        let usual = usual_track(image);
        let track = if taken[&usual] == 1 {
            usual
        } else {
            (*image).to_owned()
        };
        ((*image).to_owned(), track)
    });
    given.clone().into_iter().chain(usual).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(images: &[&str], given: &[(&str, &str)], expect: &[&str]) {
        let owned = |(image, track): &(&str, &str)| ((*image).to_owned(), (*track).to_owned());
        let given = given.iter().map(owned).collect();
        let found = tracks(&images.iter().copied().collect(), &given);
        assert_eq!(found.into_values().collect::<Vec<_>>(), expect);
    }

    #[test]
    fn images_of_one_session_have_tracks_of_their_own() {
        let (old, new) = ("torch-2.8.0-cu128", "torch-2.9.1-cu128");
        check(&[new], &[], &["torch-cu"]);
        check(&[old, new], &[], &[old, new]);
        check(&[new, "torch-2.9.1-cpu"], &[], &["torch-cpu", "torch-cu"]);
        check(&[old, new], &[(new, "main")], &["torch-cu", "main"]);
        check(&[old, new], &[(new, "torch-cu")], &[old, "torch-cu"]);
    }
}
