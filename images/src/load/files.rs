//! Images out of archives, whole or in pieces, for machines that can reach no registry.

use std::{
    io::{self, Cursor, Read, Write as _},
    path::{Path, PathBuf},
};

use engine::Engine;
use serde::Deserialize;

use super::{blocking, ready_made::ReadyMade, send};
use crate::{Digest, Error, Result, error::at, progress::Action, ready_made, store::Cache};

/// How a zstd frame begins.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Our archives have their documents within this; the layers follow.
const DOCUMENTS_BYTES: u64 = 4 << 20;

/// Loads an image out of the archive that `images export` wrote: one file, or its pieces in their
/// order, compressed or not. The engine must come to the ID that the archive promises.
pub async fn load_files(engine: &Engine, files: &[PathBuf], cache: &Cache) -> Result<ReadyMade> {
    let opened = files.to_vec();
    let (promise, mut archive) = blocking(move || open(&opened)).await?;
    let first = files.first().cloned().unwrap_or_default();
    let meter = cache.start(Action::Load, &promise.reference, None);
    let (written, loaded) = send(engine, meter, None, move |to| {
        let copied = io::copy(&mut archive, to).and_then(|_| to.flush());
        copied.map_err(|source| unreadable(&first, source))
    })
    .await?;
    match written {
        // The engine has said why it reads no more.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => loaded?,
        written => written.and(loaded)?,
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

/// What an archive says that the engine will have.
struct Promise {
    reference: String,
    /// The digests of its configuration and of its manifest, either of which is an engine's ID.
    ids: Vec<String>,
}

type Archive = Box<dyn Read + Send>;

/// The archive from its start, unpacked, and what its documents promise.
fn open(files: &[PathBuf]) -> Result<(Promise, Archive)> {
    let mut whole: Archive = Box::new(io::empty());
    for file in files {
        whole = Box::new(whole.chain(regular_file::open(file).map_err(at(file))?));
    }
    let first = files.first().map_or(Path::new(""), PathBuf::as_path);
    let (start, whole) = peek(whole, ZSTD.len() as u64).map_err(at(first))?;
    let unpacked: Archive = if start == ZSTD {
        Box::new(zstd::Decoder::new(whole).map_err(at(first))?)
    } else {
        whole
    };
    let peeked = peek(unpacked, DOCUMENTS_BYTES);
    let (start, archive) = peeked.map_err(|source| unreadable(first, source))?;
    let promise = promise(&start).map_err(|cause| Error::BadArchive {
        file: first.to_owned(),
        cause,
    })?;
    Ok((promise, archive))
}

/// Why an archive cannot be read to its end, or is not taken any more.
fn unreadable(first: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::BrokenPipe => at(first)(source),
        _ => Error::BadArchive {
            file: first.to_owned(),
            cause: format!("it is cut off or damaged, or a piece is missing ({source})"),
        },
    }
}

/// The first bytes, and all of it from its start again.
fn peek(mut from: Archive, most: u64) -> io::Result<(Vec<u8>, Archive)> {
    let mut start = Vec::new();
    (&mut from).take(most).read_to_end(&mut start)?;
    Ok((start.clone(), Box::new(Cursor::new(start).chain(from))))
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
