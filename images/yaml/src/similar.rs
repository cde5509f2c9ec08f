//! The word that was probably meant.

/// The candidate nearest to `word`, where one is near enough to be a slip of the fingers: at most
/// one edit in three letters, and fewer edits than letters.
#[must_use]
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

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, letters'
/// case and `_` against `-` aside (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let fold = |text: &str| -> Vec<char> {
        text.chars()
            .map(|c| {
                if c == '_' {
                    '-'
                } else {
                    c.to_ascii_lowercase()
                }
            })
            .collect()
    };
    let (a, b) = (fold(a), fold(b));
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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

    #[test]
    fn edits_by_hand() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("ab", "ba"), 1);
        assert_eq!(edits("", "abc"), 3);
    }
}
