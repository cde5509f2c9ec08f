//! Layers as registries keep them: compressed, to the same bytes on any machine.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use flate2::{GzBuilder, write::GzEncoder};
use rayon::prelude::*;

use crate::{
    Error, Result,
    assembly::Layer,
    digest::HashingWriter,
    error::at,
    oci::layer::LayerId,
    progress::Action,
    store::{Cache, PUSHED, publish, read_note},
};

/// Changes whenever the same layer would be compressed to other bytes.
const FORMAT: u32 = 1;
/// What is compressed by itself. Gzip members stand one after another, so that the result is the
/// same however many of them are made at once.
const MEMBER_BYTES: usize = 4 << 20;
/// Members that are made at once.
const BATCH: usize = 8;
/// Above it, GPU code hardly shrinks further, and takes several times as long.
const GZIP_LEVEL: u32 = 6;
/// A layer that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) id: LayerId,
    pub(super) file: PathBuf,
}

/// Compresses a layer into the cache, once.
pub(super) fn compressed(layer: &Layer, cache: &Cache) -> Result<Blob> {
    let name = format!("{}.gzip", layer.id.digest.hex());
    let place = cache.folder(PUSHED).join(&name);
    let file = place.join("blob");
    let note = cache.note_path("hashes", format!("pushed {FORMAT} {name}").as_bytes());
    if let Some(id) = read_note::<LayerId>(&note)
        && fs::metadata(&file).is_ok_and(|found| found.len() == id.size_bytes)
    {
        cache.used(&place);
        return Ok(Blob { id, file });
    }
    if place.exists() {
        cache.remove(&place)?;
    }
    let scratch = cache.scratch()?;
    let aside = scratch.path().join("blob");
    let total = layer.id.size_bytes;
    let mut meter = cache.start(Action::Compress, layer.name, Some(total));
    let to = BufWriter::with_capacity(1 << 20, File::create(&aside).map_err(at(&aside))?);
    let to = HashingWriter::new(to);
    let to = Members::new(to);
    let mut reading = HashingWriter::new(to).heard(|done| meter.advance_to(done));
    layer.source.write(total, &mut reading)?;
    let (members, found, _) = reading.finish();
    let compressed = members.finish().map_err(at(&aside))?;
    let (mut to, digest, size_bytes) = compressed.finish();
    to.flush().map_err(at(&aside))?;
    if found != layer.id.digest {
        cache.forget_notes();
        return Err(Error::StaleLayer {
            layer: layer.name.to_owned(),
            expected: layer.id.digest,
            found,
        });
    }
    publish(scratch, &place)?;
    let id = LayerId { digest, size_bytes };
    cache.write_note(&note, &id)?;
    Ok(Blob { id, file })
}

/// Gzip members, several made at once.
struct Members<W> {
    to: W,
    waiting: Vec<Vec<u8>>,
}

impl<W: Write> Members<W> {
    fn new(to: W) -> Self {
        Self {
            to,
            waiting: Vec::new(),
        }
    }

    fn compress(&mut self) -> io::Result<()> {
        let member = |bytes: &Vec<u8>| {
            // Neither a time nor the name of an operating system.
            let gzip = GzBuilder::new().mtime(0).operating_system(255);
            let to = Vec::with_capacity(bytes.len() / 2);
            let mut encoder: GzEncoder<Vec<u8>> =
                gzip.write(to, flate2::Compression::new(GZIP_LEVEL));
            encoder.write_all(bytes)?;
            encoder.finish()
        };
        let made: Vec<io::Result<Vec<u8>>> = self.waiting.par_iter().map(member).collect();
        for bytes in made {
            self.to.write_all(&bytes?)?;
        }
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<W> {
        self.compress()?;
        Ok(self.to)
    }
}

impl<W: Write> Write for Members<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_full = |member: &Vec<u8>| member.len() == MEMBER_BYTES;
        if self.waiting.last().is_none_or(is_full) {
            if self.waiting.len() == BATCH {
                self.compress()?;
            }
            self.waiting.push(Vec::with_capacity(MEMBER_BYTES));
        }
        let member = self.waiting.last_mut().expect("one was just added");
        let n = bytes.len().min(MEMBER_BYTES - member.len());
        member.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::MultiGzDecoder;

    use super::*;
    use crate::{
        Digest,
        oci::layer::{Node, Source, Tree},
    };

    fn layer() -> Layer {
        let mut tree = Tree::default();
        // More than a batch, and no multiple of a member; no two members alike.
        let content = (0..34_u8).flat_map(|byte| vec![byte; 1_000_001]).collect();
        tree.insert(
            "file",
            Node::Bytes {
                content,
                mode: 0o644,
            },
        );
        let mut bytes = Vec::new();
        tree.write(&mut bytes).unwrap();
        Layer {
            name: "x",
            id: LayerId {
                digest: Digest::of(&bytes),
                size_bytes: bytes.len() as u64,
            },
            source: Source::Tree(tree),
        }
    }

    #[test]
    fn a_layer_is_compressed_to_the_same_bytes_by_any_number_of_threads() {
        let folder = tempfile::tempdir().unwrap();
        let layer = layer();
        let mut digests = Vec::new();
        for threads in [1, 3] {
            let cache = Cache::at(&folder.path().join(format!("{threads}"))).unwrap();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().unwrap();
            let blob = pool.install(|| compressed(&layer, &cache)).unwrap();
            assert_eq!(Digest::of_file(&blob.file).unwrap(), blob.id.digest);
            assert_eq!(compressed(&layer, &cache).unwrap(), blob);
            digests.push(blob.id.digest);
            let mut bytes = Vec::new();
            let file = File::open(&blob.file).unwrap();
            MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            assert_eq!(Digest::of(&bytes), layer.id.digest);
        }
        assert_eq!(digests[0], digests[1]);
    }

    #[test]
    fn a_layer_that_is_not_what_was_hashed_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let mut layer = layer();
        layer.id.digest = Digest::of(b"another");
        let error = compressed(&layer, &cache).unwrap_err();
        assert!(matches!(error, Error::StaleLayer { .. }), "{error}");
        assert_eq!(fs::read_dir(cache.folder(PUSHED)).unwrap().count(), 0);
    }
}
