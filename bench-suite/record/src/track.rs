//! Which images are one line of images.

/// The track that an image is followed along unless somebody names another: its name without the
/// parts that an upgrade changes, which are versions, dates, commits and digests.
/// `torch-2.11.0-cu130` is `torch-cu`.
pub fn usual_track(image: &str) -> String {
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
    fn a_track_outlives_an_upgrade() {
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
            assert_eq!(usual_track(image), expect, "{image}");
        }
    }
}
