//! Names that are good in addresses.

use std::collections::BTreeSet;

/// Gives each thing a name of its own that is good in an address.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// Beside these, which are in small letters.
    pub(crate) fn beside(taken: &[&str]) -> Self {
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        Self { taken }
    }

    pub(crate) fn take(&mut self, wanted: &str) -> String {
        let slug = slug(wanted);
        let is_free = |name: &String| !self.taken.contains(&name.to_lowercase());
        let others = (2_usize..).map(|number| format!("{slug}-{number}"));
        let mut names = [slug.clone()].into_iter().chain(others);
        let name = names.find(is_free).unwrap_or_default();
        // Some file systems do not tell capitals from small letters.
        self.taken.insert(name.to_lowercase());
        name
    }
}

/// Letters, digits, dots, dashes and underscores of a text.
fn slug(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut slug = String::new();
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || "._".contains(letter) {
            slug.push(letter);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug.chars().take(LONGEST).collect();
    let slug = slug.trim_matches(['-', '.']);
    if slug.is_empty() { "page" } else { slug }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_good_in_addresses_and_never_twice() {
        let mut names = Names::beside(&["trends", "index.html", ".nojekyll"]);
        let mut check = |wanted: &str, expect: &str| assert_eq!(names.take(wanted), expect);
        check("h200-first", "h200-first");
        check("H200-first", "H200-first-2");
        check("../../etc/passwd", "etc-passwd");
        check("<script>\"'&", "script");
        check("trends", "trends-2");
        check("..", "page");
        check("長い名前", "page-2");
        check("", "page-3");
        check(".nojekyll", "nojekyll");
        check("index.html", "index.html-2");
    }
}
