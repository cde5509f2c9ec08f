//! Images out of archives, whole or in pieces, for machines that can reach no registry.

use std::{
    collections::BTreeSet,
    io::{self, Cursor, Read, Write},
    path::{Path, PathBuf},
};

use engine::Engine;
use serde_json::Value;

use strict_yaml::printable;

use super::{blocking, ready_made::ReadyMade, send, wrong};
use crate::{
    Digest, Error, Result,
    catalog::is_name,
    error::at,
    progress::Action,
    ready_made,
    spec::reserved::{ANNOTATION_FULL_NAME, ANNOTATION_NAME, DOMAIN, OWN},
    store::Cache,
};

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
        let passed = pass_on(&mut archive, to).and_then(|()| to.flush());
        passed.map_err(|source| unreadable(&first, source))
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
        let found = found.as_deref().unwrap_or("nothing");
        return Err(wrong(&promise.reference, found, &promise.ids.join(" or ")));
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
        let opened = regular_file::open(file).map_err(|error| Error::BadArchive {
            file: file.clone(),
            cause: format!("it cannot be read ({error})"),
        })?;
        whole = Box::new(whole.chain(opened));
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
        io::ErrorKind::InvalidData => Error::BadArchive {
            file: first.to_owned(),
            cause: source.to_string(),
        },
        _ => Error::BadArchive {
            file: first.to_owned(),
            cause: format!("it is cut off or damaged, or a piece is missing ({source})"),
        },
    }
}

/// Hands the archive on, up to a second document of those that name its image: an engine goes by
/// the last, and none but the first was read here.
fn pass_on(from: &mut Archive, to: &mut impl Write) -> io::Result<()> {
    let mut seen = BTreeSet::new();
    let mut archive = tar::Archive::new(Tee {
        from: &mut *from,
        to: &mut *to,
    });
    for entry in archive.entries()? {
        let path = entry?.path()?.into_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_document = ["manifest.json", "index.json", "repositories"].contains(&&*name);
        if is_document && (name == "repositories" || !seen.insert(name.into_owned())) {
            let message = "more than one document in it names an image; load one that \
                           `images export` wrote";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    }
    io::copy(from, to).map(drop)
}

/// Writes what is read from it.
struct Tee<'a, R, W> {
    from: &'a mut R,
    to: &'a mut W,
}

impl<R: Read, W: Write> Read for Tee<'_, R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.to.write_all(&buffer[..count])?;
        Ok(count)
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
            Some("manifest.json") if list.is_none() && entry.read_to_end(&mut content).is_ok() => {
                list = serde_json::from_slice::<Value>(&content).ok();
            }
            Some("index.json") if index.is_none() && entry.read_to_end(&mut content).is_ok() => {
                index = serde_json::from_slice::<Value>(&content).ok();
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
    let images = list.as_array().map_or(0, Vec::len);
    if images != 1 {
        return Err(format!("it holds {images} images, expected one"));
    }
    let (named, more) = (&list[0]["RepoTags"][0], &list[0]["RepoTags"][1]);
    let Some(reference) = named.as_str().filter(|_| more.is_null()) else {
        return Err("its image has no name, or several".to_owned());
    };
    // Another name may be the base of somebody's next build, or what runs in production.
    let own = reference.strip_prefix(OWN);
    let own = own.and_then(|own| own.split_once(':'));
    let Some((_, tag)) = own.filter(|(name, _)| is_name(name)) else {
        return Err(format!(
            "its image is named `{}`; expected {OWN}NAME:TAG, as `images export` writes it",
            printable(reference.to_owned())
        ));
    };
    let full = format!("{DOMAIN}{reference}");
    for (annotation, expected) in [(ANNOTATION_FULL_NAME, &*full), (ANNOTATION_NAME, tag)] {
        let found = &index["manifests"][0]["annotations"][annotation];
        if !found.is_null() && found.as_str() != Some(expected) {
            return Err(format!(
                "its index names another image than its manifest: `{annotation}`"
            ));
        }
    }
    let config = list[0]["Config"].as_str().unwrap_or_default();
    let config = config.rsplit('/').next().unwrap_or_default();
    let config: Digest = format!("sha256:{config}")
        .parse()
        .map_err(|_| "its configuration has no digest".to_owned())?;
    let manifest = index["manifests"][0]["digest"].as_str();
    Ok(Promise {
        reference: reference.to_owned(),
        ids: [config.to_string()]
            .into_iter()
            .chain(manifest.map(str::to_owned))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_the_user_s_word() {
        let opened = open(&["no/such.tar".into()]).map(drop);
        assert!(matches!(opened, Err(Error::BadArchive { .. })));
    }
}
