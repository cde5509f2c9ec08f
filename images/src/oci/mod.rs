//! Layers that come out the same anywhere, and the documents and the archive around them.

pub(crate) mod archive;
pub(crate) mod layer;
pub(crate) mod part;

use std::io::{self, Write};

/// Above it, GPU code hardly shrinks further, and takes several times as long.
const ZSTD_LEVEL: i32 = 10;

/// An encoder whose frames come out the same for any number of workers.
pub(crate) fn zstd_encoder<W: Write>(to: W) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(to, ZSTD_LEVEL)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    encoder.multithread(u32::try_from(workers).unwrap_or(1))?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}
