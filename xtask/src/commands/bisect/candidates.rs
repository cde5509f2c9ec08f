//! What lies between the two ends: images by version, as they are named, or a repository's revisions.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bench_suite::bisect::{Bisection, Build, Candidate};
use images::{Base, Catalog, Image, LibtorchSpec};

use tokio_util::sync::CancellationToken;

use crate::{
    cli::TargetArgs,
    commands::bench::{
        prepare,
        references::{is_reference, last_word, told_apart},
        resume, stop_on_signal,
        target::loads_images,
    },
    error::{Error, Result},
    printer::Printer,
    workspace,
};

/// A suite as it can be found from any folder.
pub(super) fn whole_suite(given: &str) -> String {
    let (name, scenario) = match given.rsplit_once(':') {
        Some((name, scenario)) => (name, Some(scenario)),
        None => (given, None),
    };
    let name = resume::whole(&[name.to_owned()]).concat();
    scenario.map_or_else(|| name.clone(), |scenario| format!("{name}:{scenario}"))
}

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
            // Those that no step comes to are not pulled for their names.
            match last_word(&image) {
                word if known.contains(&word) => told_apart(word, &image, None),
                word => word.to_owned(),
            }
        } else {
            catalog.image(&image)?.name
        };
        let image = resume::whole(&[image]).pop();
        found.push(Candidate {
            name,
            image,
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

/// Makes the image of a revision, once. Where its command fails, the candidate says why; where
/// anything else does, the search ends as it stands.
pub(super) async fn make(
    search: &mut Bisection,
    place: usize,
    folder: &Path,
    target: &TargetArgs,
    printer: &Printer,
) -> Result<()> {
    let candidate = &search.candidates[place];
    let Some(build) = search.asked.build.clone() else {
        return Ok(());
    };
    if candidate.image.is_some() || candidate.problem.is_some() {
        return Ok(());
    }
    let revision = candidate.name.clone();
    printer.note(&format!("making the image of {revision}"));
    let tree = std::path::absolute(folder.join("tree")).map_err(|source| Error::Write {
        path: folder.to_owned(),
        source,
    })?;
    // One that a search left behind when it was killed.
    let remove = || {
        let path = tree.display().to_string();
        git(
            &build.repository,
            &["worktree", "remove", "--force", "--force", &path],
        )
    };
    if tree.exists() {
        remove()?;
    }
    let word = run_build(&build, &revision, (&tree, folder), printer).await;
    let made = match word {
        Ok(word) => {
            let kept = folder.join("specs").join(&revision);
            image_of(&word, (&tree, &kept), target, printer).await
        }
        Err(error) => Err(error),
    };
    // Of what was made only the image is kept.
    remove()?;
    let candidate = &mut search.candidates[place];
    match made {
        Ok(image) => candidate.image = Some(image),
        Err(error @ (Error::BuildFailed { .. } | Error::BuildSaysNothing)) => {
            let why = format!("{revision} has no image: {error}");
            printer.note(&why);
            candidate.problem = Some(why);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Runs the user's command in a work tree of the revision, with what it says on standard error in a
/// file. Gives the last line that it prints.
async fn run_build(
    build: &Build,
    revision: &str,
    (tree, folder): (&Path, &Path),
    printer: &Printer,
) -> Result<String> {
    let place = tree.display().to_string();
    // Hooks are for those who work in the tree.
    let words = [
        "-c",
        "core.hooksPath=/dev/null",
        "worktree",
        "add",
        "--detach",
        "--force",
    ];
    git(
        &build.repository,
        &[&words[..], &[&place, revision]].concat(),
    )?;
    let log = folder.join(format!("build-{revision}.log"));
    let write = |source| Error::Write {
        path: log.clone(),
        source,
    };
    let errors = std::fs::File::create(&log).map_err(write)?;
    let start = |source| Error::Start {
        what: "sh".into(),
        source,
    };
    let cancel = CancellationToken::new();
    let stopper = stop_on_signal(cancel.clone(), printer.clone());
    // A group of its own: a signal from the terminal is for the search.
    let child = tokio::process::Command::new("sh")
        .args(["-c", &build.command])
        .current_dir(tree)
        .env("TORCHGAUGE_REVISION", revision)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let group = child.id();
    let output = tokio::select! {
        output = child.wait_with_output() => output.map_err(start),
        () = cancel.cancelled() => {
            end_group(group);
            Err(Error::SearchCutOff { folder: folder.to_owned() })
        }
    };
    stopper.abort();
    let output = output?;
    if !output.status.success() {
        return Err(Error::BuildFailed {
            status: output.status.to_string(),
            log,
        });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text
        .lines()
        .map(|line| record::printable(line).trim().to_owned());
    let last = lines.rfind(|line| !line.is_empty());
    last.ok_or(Error::BuildSaysNothing)
}

/// Ends a command with all that it started.
fn end_group(group: Option<u32>) {
    let group = group.and_then(|group| rustix::process::Pid::from_raw(group.cast_signed()));
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// What the search calls an image that a command has named: a spec is built while its work tree is
/// there, and called by the engine's name from then on. Where runs need no engine, the spec is kept.
async fn image_of(
    word: &str,
    (tree, kept): (&Path, &Path),
    target: &TargetArgs,
    printer: &Printer,
) -> Result<String> {
    if is_reference(word) {
        return Ok(word.to_owned());
    }
    let root = workspace::root()?;
    let file = tree.join(word);
    let is_file = file.exists();
    let named = if is_file {
        file.display().to_string()
    } else {
        word.to_owned()
    };
    let image = Catalog::new(&root.join("images")).image(&named)?;
    if !loads_images(target).await? {
        if !is_file {
            return Ok(word.to_owned());
        }
        let own = match (&image.spec.libtorch, &image.spec.base) {
            (LibtorchSpec::Installed { folder, .. }, _) => folder.as_ref(),
            (LibtorchSpec::Inside { .. }, Base::Archive(file)) => Some(file),
            _ => None,
        };
        if let Some(path) = own.filter(|path| path.starts_with(tree)) {
            return Err(Error::InWorkTree {
                image: image.name.clone(),
                path: path.clone(),
            });
        }
        let kept = std::path::absolute(image.copy_to(kept)?);
        let kept = kept.map_err(|source| Error::Write { path: file, source })?;
        return Ok(kept.display().to_string());
    }
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
