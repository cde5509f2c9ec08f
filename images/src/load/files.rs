//! Images out of archives, whole or in pieces, for machines that can reach no registry.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Cursor, Read, Write as _},
    path::{Path, PathBuf},
};

use engine::{Engine, LoadProgress};
use serde::Deserialize;
use strict_yaml::open_file;
use tokio::sync::mpsc;

use super::{CHUNK_BYTES, CHUNKS_WAITING, ChannelWriter, ready_made::ReadyMade};
use crate::{Digest, Error, Result, error::at, progress::Action, ready_made, store::Cache};

/// How a zstd frame begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Our archives have their documents within this; the layers follow.
const DOCUMENTS_BYTES: u64 = 4 << 20;

/// Loads an image out of the archive that `images export` wrote: one file, or its pieces in their
/// order, compressed or not. The engine must come to the ID that the archive promises.
pub async fn load_files(engine: &Engine, files: &[PathBuf], cache: &Cache) -> Result<ReadyMade> {
    let first = files.first().cloned().unwrap_or_default();
    let mut total = 0;
    for file in files {
        total += open_file(file)
            .map_err(at(file))?
            .metadata()
            .map_err(at(file))?
            .len();
    }
    let pieces = Pieces::new(files);
    let (sender, mut receiver) = mpsc::channel(CHUNKS_WAITING);
    let (tell, told) = tokio::sync::oneshot::channel();
    let writer = tokio::task::spawn_blocking(move || {
        let sent = send(pieces, &first, sender.clone(), tell);
        if let Err(error) = &sent {
            // Nobody listens any more where the engine has given up.
            let _ = sender.blocking_send(Err(io::Error::other(error.to_string())));
        }
        sent
    });
    let Ok(promise) = told.await else {
        return Err(ended(writer.await, &files[0]));
    };
    let stream = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context));
    let mut meter = cache.start(Action::Load, &promise.reference, None);
    let report = move |step| match step {
        LoadProgress::Sent { bytes } => meter.advance_to(bytes),
        LoadProgress::Engine { message } => meter.message(&message),
    };
    cache.note(&format!(
        "loading {} out of {} MB",
        promise.reference,
        total / 1_000_000
    ));
    let loaded = engine.load(stream, report).await;
    match writer.await {
        Ok(Ok(())) => loaded?,
        // The engine only knows that the archive broke off.
        failed => return Err(ended(failed, &files[0])),
    }
    let found = engine
        .image(&promise.reference)
        .await?
        .map(|found| found.id);
    if !found.as_ref().is_some_and(|id| promise.ids.contains(id)) {
        engine.untag(&promise.reference).await?;
        return Err(Error::LoadedWrong {
            reference: promise.reference,
            found: found.unwrap_or_else(|| "nothing".to_owned()),
            expected: promise.ids.join(" or "),
        });
    }
    ready_made(engine, &promise.reference, cache).await
}

/// Why a writer ended.
fn ended(writer: Result<Result<()>, tokio::task::JoinError>, file: &Path) -> Error {
    match writer {
        Ok(Err(error)) => error,
        Ok(Ok(())) => no_archive(file, "it ends before its documents"),
        Err(panic) => at(Path::new("background work"))(io::Error::other(panic)),
    }
}

fn no_archive(file: &Path, cause: &str) -> Error {
    Error::BadArchive {
        file: file.to_owned(),
        cause: cause.to_owned(),
    }
}

/// What an archive says that the engine will have.
struct Promise {
    reference: String,
    /// The digests of its configuration and of its manifest, either of which is an engine's ID.
    ids: Vec<String>,
}

/// Passes the archive on, once its documents are told.
fn send(
    pieces: Pieces,
    first: &Path,
    sender: mpsc::Sender<io::Result<bytes::Bytes>>,
    tell: tokio::sync::oneshot::Sender<Promise>,
) -> Result<()> {
    let mut from: Box<dyn Read> = {
        let mut start = Vec::new();
        let mut pieces = pieces;
        let failed = at(first);
        (&mut pieces)
            .take(4)
            .read_to_end(&mut start)
            .map_err(failed)?;
        let is_zstd = start == ZSTD;
        let whole = Cursor::new(start).chain(pieces);
        if is_zstd {
            Box::new(zstd::Decoder::new(whole).map_err(at(first))?)
        } else {
            Box::new(whole)
        }
    };
    let mut start = Vec::new();
    (&mut from)
        .take(DOCUMENTS_BYTES)
        .read_to_end(&mut start)
        .map_err(at(first))?;
    let promise = promise(&start).map_err(|cause| no_archive(first, &cause))?;
    // Whoever asked may have gone; then sending ends by itself.
    let _ = tell.send(promise);
    let mut to = ChannelWriter {
        sender,
        buffer: Vec::with_capacity(CHUNK_BYTES),
    };
    io::copy(&mut Cursor::new(start).chain(from), &mut to)
        .and_then(|_| to.flush())
        .map_err(at(first))
}

/// Reads the documents at the start of an archive.
fn promise(start: &[u8]) -> Result<Promise, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Entry {
        config: String,
        repo_tags: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Index {
        manifests: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        digest: String,
    }
    let (mut list, mut index) = (None, None);
    let mut archive = tar::Archive::new(start);
    for entry in archive.entries().map_err(|error| error.to_string())? {
        // The last one is cut off.
        let Ok(mut entry) = entry else { break };
        let path = entry
            .path()
            .map_err(|error| error.to_string())?
            .into_owned();
        let mut content = Vec::new();
        match path.to_str() {
            Some("manifest.json") if entry.read_to_end(&mut content).is_ok() => {
                list = serde_json::from_slice::<Vec<Entry>>(&content).ok();
            }
            Some("index.json") if entry.read_to_end(&mut content).is_ok() => {
                index = serde_json::from_slice::<Index>(&content).ok();
            }
            _ => {}
        }
        if list.is_some() && index.is_some() {
            break;
        }
    }
    let (Some(list), Some(index)) = (list, index) else {
        return Err("its documents are not at its start".to_owned());
    };
    let ([entry], [named]) = (&list[..], &index.manifests[..]) else {
        return Err(format!("it holds {} images, expected one", list.len()));
    };
    let [reference] = &entry.repo_tags[..] else {
        return Err("its image has no name, or several".to_owned());
    };
    let config = entry.config.rsplit('/').next().unwrap_or_default();
    let config: Digest = format!("sha256:{config}")
        .parse()
        .map_err(|_| "its configuration has no digest".to_owned())?;
    Ok(Promise {
        reference: reference.clone(),
        ids: vec![config.to_string(), named.digest.clone()],
    })
}

/// Files, one after the other.
struct Pieces {
    left: VecDeque<PathBuf>,
    open: Option<File>,
}

impl Pieces {
    fn new(files: &[PathBuf]) -> Self {
        Self {
            left: files.iter().cloned().collect(),
            open: None,
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(open) = &mut self.open {
                let n = open.read(buffer)?;
                if n > 0 || buffer.is_empty() {
                    return Ok(n);
                }
            }
            match self.left.pop_front() {
                None => return Ok(0),
                Some(next) => self.open = Some(open_file(&next)?),
            }
        }
    }
}
