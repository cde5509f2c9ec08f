//! The word that was probably meant.

/// The candidate nearest to `word`, where one is near enough to be a slip of the fingers: at most
/// one edit in three letters, and fewer edits than letters.
pub fn most_similar<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const LONGEST: usize = 64;
    let letters = word.chars().count();
    if letters == 0 || letters > LONGEST {
        return None;
    }
    let allowed = (letters / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.chars().count() <= LONGEST)
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(edits, candidate)| {
            *edits <= allowed && *edits < candidate.chars().count().min(letters)
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// A hint at the word that was probably meant.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let meant = most_similar(word, candidates)?;
    Some(format!("did you mean `{meant}`?"))
}

/// Edits that turn `a` into `b`, letters' case and `_` against `-` aside.
fn edits(a: &str, b: &str) -> usize {
    let fold = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    strsim::osa_distance(&fold(a), &fold(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expect: Option<&str>) {
        let words = ["precision", "checkpointing", "cpu", "amp-bf16", "amp-fp16"];
        assert_eq!(most_similar(word, words), expect, "{word}");
    }

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        check("precison", Some("precision"));
        check("Checkpointing", Some("checkpointing"));
        check("check_pointing", Some("checkpointing"));
        check("amp-bf61", Some("amp-bf16"));
        check("amp_fp16", Some("amp-fp16"));
        check("cup", Some("cpu"));
        check("gpu", Some("cpu"));
        check("batch", None);
        check("", None);
        check(&"x".repeat(100_000), None);
    }
}
