//! Tracks: the lines of images that are followed over time.

use std::collections::{BTreeMap, BTreeSet};

/// The track of every image of a session: the one that it was given, or else its role. Where images
/// of one session have the same role they are followed side by side, each under its own name.
pub(crate) fn tracks(
    images: &BTreeSet<&str>,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let free = || images.iter().filter(|image| !given.contains_key(**image));
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for track in given
        .values()
        .cloned()
        .chain(free().map(|image| role(image)))
    {
        *taken.entry(track).or_default() += 1;
    }
    let usual = free().map(|image| {
        let role = role(image);
        let track = if taken[&role] == 1 {
            role
        } else {
            (*image).to_owned()
        };
        ((*image).to_owned(), track)
    });
    given.clone().into_iter().chain(usual).collect()
}

/// An image's name without the parts that an upgrade changes: versions, dates, commits, digests.
/// `torch-2.11.0-cu130` is `torch-cu`.
pub(crate) fn role(image: &str) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let parts = name.split(['-', '_', ':']).map(unversioned);
    let kept: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    if kept.is_empty() {
        return image.to_owned();
    }
    kept.join("-")
}

/// `cu` of `cu130`; nothing of `2.11.0`, `v3`, `rc1` or `3f2a91c`.
fn unversioned(part: &str) -> &str {
    const FEWEST_OF_A_COMMIT: usize = 7;
    let has_digits = part.contains(|letter: char| letter.is_ascii_digit());
    let is_hex = part.chars().all(|letter| letter.is_ascii_hexdigit());
    let commit = is_hex && has_digits && part.len() >= FEWEST_OF_A_COMMIT;
    if commit || part.starts_with(|letter: char| letter.is_ascii_digit()) {
        return "";
    }
    let bare = part.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    match bare {
        "v" | "rc" | "alpha" | "beta" | "dev" | "post" if has_digits => "",
        _ => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_outlives_an_upgrade() {
        for (image, expect) in [
            ("torch-2.11.0-cu130", "torch-cu"),
            ("torch-2.12.1-cpu", "torch-cpu"),
            ("torch-2.11.0-installed", "torch-installed"),
            (
                "nvcr.io/nvidia/pytorch:24.05-py3",
                "nvcr.io/nvidia/pytorch-py",
            ),
            ("ours:nightly-2026-11-21", "ours-nightly"),
            ("ours:nightly-3f2a91c", "ours-nightly"),
            ("ours@sha256:00aa", "ours"),
            ("app_v1.4-rc1", "app"),
            ("app-rocm6.2", "app-rocm"),
            ("dev", "dev"),
            ("local", "local"),
            ("2.11.0", "2.11.0"),
            ("", ""),
        ] {
            assert_eq!(role(image), expect, "{image}");
        }
    }

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
