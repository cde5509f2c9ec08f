//! What lies between the two ends: images by version, as they are named, or a repository's revisions.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bench_suite::bisect::{Bisection, Build, Candidate};
use images::{Catalog, Image};

use crate::{
    cli::TargetArgs,
    commands::bench::{
        prepare::{self, blocking, short_name},
        target::is_reference,
    },
    error::{Error, Result},
    printer::Printer,
    workspace,
};

/// The git repository that the user stands in.
pub(super) fn repository() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|source| Error::Start {
        what: "the current folder".into(),
        source,
    })?;
    Ok(git(&here, &["rev-parse", "--show-toplevel"])?.into())
}

/// The revisions from the good one to the bad one, along the first parents.
pub(super) fn revisions(repository: &Path, good: &str, bad: &str) -> Result<Vec<Candidate>> {
    let commit = |revision: &str| {
        let word = format!("{revision}^{{commit}}");
        git(
            repository,
            &["rev-parse", "--verify", "--end-of-options", &word],
        )
    };
    let (good, bad) = (commit(good)?, commit(bad)?);
    let between = format!("{good}..{bad}");
    let words = ["rev-list", "--reverse", "--first-parent", &between];
    let listed = git(repository, &words)?;
    let is_ancestor = ["merge-base", "--is-ancestor", &good, &bad];
    git(repository, &is_ancestor).map_err(|_| Error::NotAncestor {
        good: good.clone(),
        bad: bad.clone(),
    })?;
    let all = std::iter::once(good.as_str()).chain(listed.lines());
    Ok(all
        .map(|commit| Candidate {
            name: commit.chars().take(12).collect(),
            image: None,
            problem: None,
        })
        .collect())
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
            short_name(&image, &known).to_owned()
        } else {
            catalog.image(&image)?.name
        };
        found.push(Candidate {
            name,
            image: Some(image),
            problem: None,
        });
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

/// Makes the image of a revision, once. Where that fails, the candidate says why.
pub(super) async fn make(
    search: &mut Bisection,
    place: usize,
    target: &TargetArgs,
    printer: &Printer,
) -> Result<()> {
    let candidate = &search.candidates[place];
    let Some(build) = &search.asked.build else {
        return Ok(());
    };
    if candidate.image.is_some() || candidate.problem.is_some() {
        return Ok(());
    }
    let (build, revision) = (build.clone(), candidate.name.clone());
    printer.note(&format!("making the image of {revision}"));
    let scratch = tempfile::Builder::new()
        .prefix("torchgauge-bisect-")
        .tempdir()
        .map_err(|source| Error::Write {
            path: std::env::temp_dir(),
            source,
        })?;
    let tree = scratch.path().join("tree");
    let made = {
        let tree = tree.clone();
        let (build, revision) = (build.clone(), revision.clone());
        blocking(move || run_build(&build, &revision, &tree)).await
    };
    let made = match made {
        Ok(word) => image_of(&word, &tree, target, printer).await,
        Err(error) => Err(error),
    };
    // Of what was made only the image is kept.
    let path = tree.display().to_string();
    let _ = git(&build.repository, &["worktree", "remove", "--force", &path]);
    let candidate = &mut search.candidates[place];
    match made {
        Ok(image) => candidate.image = Some(image),
        Err(error) => {
            let why = format!("{revision} has no image: {error}");
            printer.note(&why);
            candidate.problem = Some(why);
        }
    }
    Ok(())
}

/// Runs the user's command in a work tree of the revision. Gives the last line that it prints.
fn run_build(build: &Build, revision: &str, tree: &Path) -> Result<String> {
    let place = tree.display().to_string();
    let words = ["worktree", "add", "--detach", "--force", &place, revision];
    git(&build.repository, &words)?;
    let output = Command::new("sh")
        .args(["-c", &build.command])
        .current_dir(tree)
        .env("TORCHGAUGE_REVISION", revision)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Start {
            what: "sh".into(),
            source,
        })?;
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or_default().trim().to_owned()
    };
    if !output.status.success() {
        return Err(Error::BuildFailed {
            status: output.status.to_string(),
            last: last(&output.stderr),
        });
    }
    match last(&output.stdout) {
        word if word.is_empty() => Err(Error::BuildSaysNothing),
        word => Ok(word),
    }
}

/// What the search calls an image that a command has named: a spec is built while its work tree is
/// there, and called by the engine's name from then on.
async fn image_of(
    word: &str,
    tree: &Path,
    target: &TargetArgs,
    printer: &Printer,
) -> Result<String> {
    if is_reference(word) {
        return Ok(word.to_owned());
    }
    let root = workspace::root()?;
    let file = tree.join(word);
    let named = if file.exists() {
        file.display().to_string()
    } else {
        word.to_owned()
    };
    let image = Catalog::new(&root.join("images")).image(&named)?;
    let cache = prepare::cache(printer)?;
    let sources = prepare::sources(&target.sources, &root);
    let assembly = prepare::assembled(image, &sources, &cache, printer).await?;
    let engine = engine::Engine::connect(&engine::Endpoint::auto()).await?;
    Ok(images::ensure(&engine, &assembly, &cache).await?.reference)
}

/// What git prints.
fn git(folder: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Start {
            what: "git".into(),
            source,
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(Error::Git {
        words: words.join(" "),
        said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
