//! `cargo xtask codegen`: everything in the repository that follows from the code.

use std::{fs, path::Path, process::Stdio};

use record::SessionFolder;
use verdict::FailOn;

use crate::{
    error::{Error, Result, reading, starting, writing},
    printer::Printer,
    workspace,
};

/// Tests that hold what is committed to the code, and write it anew where the environment says so.
const STEPS: [(&str, &[&str], &[&str]); 6] = [
    (
        "schema and refusals of suites and claims",
        &["--package", "bench-suite", "--test", "it"],
        &["suites::", "claims::"],
    ),
    (
        "schemas of images and locks",
        &["--package", "images", "--test", "it"],
        &["committed::"],
    ),
    ("metrics", &["--package", "metrics", "--test", "page"], &[]),
    (
        "schema and snapshots of reports",
        &["--package", "reports", "--test", "it"],
        &[],
    ),
    (
        "pages of commands, suite keys and outcomes",
        &["--package", "torchgauge", "--bins"],
        &["reference"],
    ),
    (
        "the comparison in README.md, the table of examples, and the gallery's index",
        &[
            "--package=torchgauge",
            "--test=cli",
            "--test=examples",
            "--test=site",
        ],
        &["readme", "examples", "gallery"],
    ),
];

/// Writes all of it; what changed is in `git diff`.
pub(crate) fn run(printer: &Printer) -> Result<()> {
    let root = workspace::checkout()?;
    // Before the tests, one of which follows the index to these pages.
    draw_gallery(&root, printer)?;
    for (what, words, tests) in STEPS {
        printer.heading(what);
        let mut command = images::plain_cargo(&root);
        command.arg("test").args(words).arg("--").args(tests);
        for name in ["UPDATE_DOCS", "UPDATE_SCHEMAS", "INSTA_FORCE_PASS"] {
            command.env(name, "1");
        }
        command.env("INSTA_UPDATE", "always").stdin(Stdio::null());
        let status = command.status().map_err(starting("cargo"))?;
        if !status.success() {
            return Err(Error::tests_failed(what, &format!("{command:?}")));
        }
    }
    Ok(())
}

/// Draws the pages of the gallery's sessions and comparisons.
fn draw_gallery(root: &Path, printer: &Printer) -> Result<()> {
    let gallery = root.join("reports/gallery");
    let folders = fs::read_dir(&gallery).map_err(reading(&gallery))?;
    let mut folders: Vec<_> = folders.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for path in folders {
        let comparison = path.join("comparison.json");
        let (markdown, link) = if path.join(SessionFolder::SESSION).is_file() {
            let folder = SessionFolder::at(&path);
            let [_, markdown, _] = reports::write(&[folder], &path)?;
            (markdown, reports::markdown::TO_THE_PAGE)
        } else if let Ok(text) = fs::read_to_string(&comparison) {
            let verdicts = serde_json::from_str(&text)?;
            reports::comparison::write(&verdicts, FailOn::Regressed, &path)?;
            (path.join("comparison.md"), "[The report](comparison.html)")
        } else {
            continue;
        };
        // Where this is read in git, the page that it leads to is not: a picture takes its place.
        let text = fs::read_to_string(&markdown);
        let text = text.map(|text| text.replace(link, "![The answer](card.svg)"));
        text.and_then(|text| fs::write(&markdown, text))
            .map_err(writing(&markdown))?;
        printer.line(&path.display().to_string());
    }
    Ok(())
}
