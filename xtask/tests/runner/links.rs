//! Links of the documents lead to files and headings that there are.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Markdown files below a folder. What builds, sessions and editors leave is no document.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_left = name.starts_with('.') || matches!(&*name, "target" | "sessions");
        if path.is_dir() && !is_left {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Lines of a document with their numbers, without those of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ")
    })
}

/// What a heading is linked by, as GitHub and docs.rs make it: letters and digits in lower case, a
/// hyphen for each blank. The second of a name has `-1` behind it.
fn anchors(text: &str) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (line.starts_with('#') && title.starts_with(' ')).then_some(title)
    });
    headings
        .map(|title| {
            let kept = title.trim().chars();
            let kept = kept.filter(|one| one.is_alphanumeric() || matches!(one, ' ' | '-' | '_'));
            let slug: String = kept
                .map(|one| if one == ' ' { '-' } else { one })
                .collect::<String>()
                .to_lowercase();
            let time = times.entry(slug.clone()).or_default();
            *time += 1;
            match *time {
                1 => slug,
                _ => format!("{slug}-{}", *time - 1),
            }
        })
        .collect()
}

/// Targets of a line's links, `[words](target)`, outside of code.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['`', ']']) {
        let after = &rest[at + 1..];
        rest = match (rest.as_bytes()[at], after.strip_prefix('(')) {
            (b'`', _) => after.split_once('`').map_or("", |(_, after)| after),
            (_, Some(target)) => {
                let (target, after) = target.split_once(')').unwrap_or((target, ""));
                found.push(target);
                after
            }
            _ => after,
        };
    }
    found
}

/// What is wrong with a link of this document, if anything.
fn mistake(document: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let there = match file {
        "" => document.to_owned(),
        _ => document.parent()?.join(file),
    };
    if !there.exists() {
        return Some("no such file".to_owned());
    }
    let anchor = anchor?;
    let known = anchors(&fs::read_to_string(&there).unwrap_or_default());
    let is_known = known.iter().any(|one| one == anchor);
    (!is_known).then(|| format!("no such heading; there are: {}", known.join(", ")))
}

#[test]
fn links_of_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    documents(&root, &mut found);
    let (mut links, mut dead) = (0, Vec::new());
    for document in found {
        let text = fs::read_to_string(&document).expect("text");
        for (number, line) in prose(&text) {
            for target in targets(line) {
                links += 1;
                if let Some(why) = mistake(&document, target) {
                    dead.push(format!("{}:{number}: {target}: {why}", document.display()));
                }
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    assert!(links > 150, "{links} links in all documents");
}

#[test]
fn a_link_into_nothing_is_found() {
    let home = tempfile::tempdir().expect("a folder");
    let page = home.path().join("page.md");
    let text = "# One `word`, two\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n";
    fs::write(&page, text).expect("a page");
    let line = "[a](page.md#one-word-two) `[b](code)` [c](#twice-1) [d](#no-heading) [e](none.md)";
    let found: Vec<(&str, bool)> = targets(line)
        .into_iter()
        .map(|target| (target, mistake(&page, target).is_none()))
        .collect();
    assert_eq!(
        found,
        [
            ("page.md#one-word-two", true),
            ("#twice-1", true),
            ("#no-heading", false),
            ("none.md", false),
        ]
    );
}
