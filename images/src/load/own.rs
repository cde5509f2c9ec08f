//! Images of the user's own, made by whomever: what they are is asked of the engine, and of the
//! Python in them.

use std::{collections::BTreeMap, fs, io, path::PathBuf, process::Stdio, time::Duration};

use engine::{ContainerSpec, Engine, ImageFacts as Declared, Owner, Store, Unpacked, User};
use record::{ImageFacts, ImageParts};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::{Error, Result, base::image::found_in, error::at, store::Cache};

/// What an image's Python says of it: packages, and versions where it has torch.
const SCRIPT: &str = include_str!("inventory.py");

/// How long that may take: importing torch out of a cold image reads gigabytes.
const PATIENCE: Duration = Duration::from_mins(3);

/// Most bytes of its answer.
const MOST_BYTES: u64 = 4 << 20;

/// An image that the engine has, or pulled, whoever made it.
#[derive(Debug, Clone)]
pub struct OwnImage {
    /// What it was asked for by.
    pub reference: String,
    pub id: String,
    /// What it is made of, as far as its Python says; its flavour is the build of torch that it
    /// imports, empty where none.
    pub facts: ImageFacts,
    /// What to know before reading a report: what the image declares, and what could not be read.
    pub notes: Vec<String>,
    /// What it declares, and where it is.
    pub declared: Declared,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Inventory {
    versions: BTreeMap<String, String>,
    packages: BTreeMap<String, String>,
}

/// An image by its reference, name or ID in the engine, or its archive where there is no
/// engine: any, whoever made it. One with a digest is pulled where it is not there, and no other.
/// `python`: the interpreter that says what it holds.
pub async fn own_image(
    store: Store<'_>,
    reference: &str,
    python: &str,
    cache: &Cache,
) -> Result<OwnImage> {
    let next = "Where no registry can be reached, load the image into the engine first";
    let unpinned = "; pull or build it there first, or name it by its digest: \
                    REPOSITORY@sha256:DIGEST";
    let unfit = |problem: String| Error::Input(format!("image {reference}: {problem}"));
    let words = (next, unpinned);
    let (found, pulled) = found_in(store, reference, cache, words, unfit).await?;
    let mut notes = declared(reference, &found);
    let spec = ContainerSpec {
        image: found.id.clone(),
        entrypoint: Some(vec![python.to_owned()]),
        command: vec!["-c".to_owned(), SCRIPT.to_owned()],
        labels: Owner::this_process("images", "look").labels(),
        environment: [("HOME".to_owned(), "/tmp".to_owned())].into(),
        user: User::OfImage,
        shadowed: found.volumes.clone(),
        is_tmp_executable: true,
        ..ContainerSpec::default()
    };
    let told = match store {
        Store::Engine(engine) => in_container(engine, &spec).await,
        Store::Unpacked(by) => in_sandbox(by, &found, &spec).await,
    };
    let inventory = match told.and_then(|(code, said)| inventory(code, &said)) {
        Ok(inventory) => inventory,
        Err(Error::Engine(error)) if error.is_engine_gone() => return Err(error.into()),
        Err(error) => {
            notes.push(format!(
                "what {reference} is made of is not known: {python} in it: {error}"
            ));
            Inventory::default()
        }
    };
    let torch = inventory.versions.get("torch").cloned().unwrap_or_default();
    let parts = ImageParts {
        versions: inventory.versions,
        packages: inventory.packages,
        environment: found.environment.clone(),
        gpu_code: Some(String::new()),
        ..ImageParts::default()
    };
    Ok(OwnImage {
        reference: reference.to_owned(),
        facts: ImageFacts {
            name: reference.to_owned(),
            reference: Some(reference.to_owned()),
            id: Some(found.id.clone()),
            libtorch_version: torch.split('+').next().unwrap_or_default().to_owned(),
            flavour: torch,
            size_bytes: Some(found.size_bytes),
            load_seconds: pulled.seconds,
            pull_bytes: pulled.bytes,
            parts: Some(parts),
            ..ImageFacts::default()
        },
        id: found.id.clone(),
        notes,
        declared: found,
    })
}

/// What the image itself declares of its runs.
fn declared(reference: &str, image: &Declared) -> Vec<String> {
    let or = |text: &str, usual: &str| match text {
        "" => usual.to_owned(),
        text => text.to_owned(),
    };
    let mut notes = vec![format!(
        "{reference} declares USER {}, WORKDIR {}, ENTRYPOINT {}",
        or(&image.user, "root"),
        or(&image.workdir, "/"),
        or(&image.entrypoint.join(" "), "none")
    )];
    if !image.volumes.is_empty() {
        notes.push(format!(
            "{reference} declares VOLUME {}: empty folders in every run",
            image.volumes.join(", ")
        ));
    }
    notes
}

/// How the script ended, and what it said.
type Told = (Option<i64>, Vec<u8>);

/// Starts the script in a container, which goes with it.
async fn in_container(engine: &Engine, spec: &ContainerSpec) -> Result<Told> {
    let folder = tempfile::tempdir().map_err(at(&std::env::temp_dir()))?;
    let log = folder.path().join("log");
    let mut container = engine.create(spec).await?;
    let told = async {
        container.start().await?;
        let exit = container.wait(PATIENCE).await?;
        container.save_logs(&log, MOST_BYTES).await?;
        Ok::<_, engine::Error>(exit)
    }
    .await;
    container.remove().await?;
    let exit = told?;
    Ok((exit.code, fs::read(&log).map_err(at(&log))?))
}

async fn in_sandbox(by: &Unpacked, image: &Declared, spec: &ContainerSpec) -> Result<Told> {
    let folder = tempfile::tempdir().map_err(at(&std::env::temp_dir()))?;
    let command = by.command(image, spec, folder.path(), false)?;
    let program = PathBuf::from(command.get_program());
    let mut command = tokio::process::Command::from(command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(at(&program))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let told = async {
        let (output, errors) = tokio::try_join!(beginning(output), beginning(errors))?;
        Ok::<_, io::Error>((child.wait().await?, [errors, output].concat()))
    };
    let Ok(told) = tokio::time::timeout(PATIENCE, told).await else {
        let seconds = PATIENCE.as_secs();
        return Err(Error::Trouble(format!("no answer in {seconds} s")));
    };
    let (status, said) = told.map_err(at(&program))?;
    Ok((status.code().map(i64::from), said))
}

/// What is said first. Whoever says more has its pipe closed, and ends.
async fn beginning(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MOST_BYTES).read_to_end(&mut said).await?;
    }
    Ok(said)
}

fn inventory(code: Option<i64>, said: &[u8]) -> Result<Inventory> {
    let said = String::from_utf8_lossy(said);
    // What a library prints while it is imported stands before it.
    let last = said.lines().rev().find(|line| line.starts_with('{'));
    let inventory = last.and_then(|line| serde_json::from_str::<Inventory>(line).ok());
    inventory.ok_or_else(|| {
        let line = said.lines().next_back().unwrap_or_default();
        let line: String = line.chars().take(200).collect();
        Error::Trouble(format!("ended with {code:?}: {line}"))
    })
}
