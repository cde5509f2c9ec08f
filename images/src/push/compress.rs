//! Layers as registries keep them: compressed, to the same bytes on any machine.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use flate2::{GzBuilder, write::GzEncoder};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Digest, Error, Result,
    assembly::Layer,
    digest::HashingWriter,
    error::at,
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
/// The same for zstd.
pub(crate) const ZSTD_LEVEL: i32 = 10;

/// How layers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Every engine takes it.
    Gzip,
    /// Smaller and faster to unpack; Docker from 23 with containerd's store, and Podman from 4.
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// A layer that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blob {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
    pub(super) file: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Note {
    digest: Digest,
    size_bytes: u64,
}

/// Compresses a layer into the cache, once.
pub(super) fn compressed(layer: &Layer, by: Compression, cache: &Cache) -> Result<Blob> {
    let name = format!("{}.{by}", layer.id.digest.hex());
    let place = cache.folder(PUSHED).join(&name);
    let file = place.join("blob");
    let note = cache.note_path("hashes", format!("pushed {FORMAT} {name}").as_bytes());
    if let Some(Note { digest, size_bytes }) = read_note(&note)
        && fs::metadata(&file).is_ok_and(|found| found.len() == size_bytes)
    {
        cache.used(&place);
        return Ok(Blob {
            digest,
            size_bytes,
            file,
        });
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
    let heard = |done| meter.advance_to(done);
    let (compressed, found) = match by {
        Compression::Gzip => {
            let mut reading = HashingWriter::new(Members::new(to)).heard(heard);
            layer.source.write(total, &mut reading)?;
            let (members, found, _) = reading.finish();
            (members.finish().map_err(at(&aside))?, found)
        }
        Compression::Zstd => {
            let mut reading =
                HashingWriter::new(zstd_encoder(to).map_err(at(&aside))?).heard(heard);
            layer.source.write(total, &mut reading)?;
            let (encoder, found, _) = reading.finish();
            (encoder.finish().map_err(at(&aside))?, found)
        }
    };
    let (mut to, digest, size_bytes) = compressed.finish();
    to.flush().map_err(at(&aside))?;
    if found != layer.id.digest {
        layer.source.forget(cache)?;
        return Err(Error::StaleLayer {
            layer: layer.name.to_owned(),
            expected: layer.id.digest,
            found,
        });
    }
    publish(scratch, &place)?;
    cache.write_note(&note, &Note { digest, size_bytes })?;
    Ok(Blob {
        digest,
        size_bytes,
        file,
    })
}

/// An encoder whose frames come out the same for any number of workers.
pub(crate) fn zstd_encoder<W: Write>(to: W) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(to, ZSTD_LEVEL)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    encoder.multithread(u32::try_from(workers).unwrap_or(1))?;
    encoder.include_checksum(true)?;
    Ok(encoder)
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
    use crate::oci::layer::{Node, Source, Tree};

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
            id: crate::oci::layer::LayerId {
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
        for by in [Compression::Gzip, Compression::Zstd] {
            let mut digests = Vec::new();
            for threads in [1, 3] {
                let cache = Cache::at(&folder.path().join(format!("{by}{threads}"))).unwrap();
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let pool = pool.build().unwrap();
                let blob = pool.install(|| compressed(&layer, by, &cache)).unwrap();
                assert_eq!(Digest::of_file(&blob.file).unwrap(), blob.digest);
                assert_eq!(compressed(&layer, by, &cache).unwrap(), blob);
                digests.push(blob.digest);
                let mut bytes = Vec::new();
                let file = File::open(&blob.file).unwrap();
                match by {
                    Compression::Gzip => MultiGzDecoder::new(file).read_to_end(&mut bytes),
                    Compression::Zstd => zstd::Decoder::new(file).unwrap().read_to_end(&mut bytes),
                }
                .unwrap();
                assert_eq!(Digest::of(&bytes), layer.id.digest);
            }
            assert_eq!(digests[0], digests[1]);
        }
    }

    #[test]
    fn a_layer_that_is_not_what_was_hashed_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let mut layer = layer();
        layer.id.digest = Digest::of(b"another");
        let error = compressed(&layer, Compression::Gzip, &cache).unwrap_err();
        assert!(matches!(error, Error::StaleLayer { .. }), "{error}");
        assert_eq!(fs::read_dir(cache.folder(PUSHED)).unwrap().count(), 0);
    }
}
