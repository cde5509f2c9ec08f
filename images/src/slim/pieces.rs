//! A file that is made from another: which parts of it are copied, and what stands between them.

use std::{
    collections::VecDeque,
    io::{self, Read, Seek, SeekFrom},
};

use serde::{Deserialize, Serialize};

/// Bytes of a file from the first to before the second.
pub(crate) type Range = (u64, u64);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Piece {
    /// What the other file has there.
    Copy(Range),
    Zeros(u64),
    Bytes(Vec<u8>),
}

impl Piece {
    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Self::Copy((start, end)) => end - start,
            Self::Zeros(size) => *size,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

/// What stands in place of a part of the other file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) place: Range,
    /// `None` where what follows moves up.
    pub(super) by: Option<Piece>,
}

/// The pieces of a file of this size with these edits, of which no two may overlap.
pub(super) fn edited(size: u64, mut edits: Vec<Edit>) -> Vec<Piece> {
    edits.sort_by_key(|edit| edit.place);
    let mut pieces = Vec::new();
    let mut position = 0;
    for Edit {
        place: (start, end),
        by,
    } in edits
    {
        if position < start {
            pieces.push(Piece::Copy((position, start)));
        }
        pieces.extend(by.filter(|piece| piece.size_bytes() > 0));
        position = end;
    }
    if position < size {
        pieces.push(Piece::Copy((position, size)));
    }
    pieces
}

/// Reads the file that is made.
pub(crate) struct Pieces<R> {
    from: R,
    position: u64,
    left: VecDeque<Piece>,
}

impl<R: Read + Seek> Pieces<R> {
    pub(crate) fn new(from: R, pieces: &[Piece]) -> Self {
        Self {
            from,
            position: 0,
            left: pieces.iter().cloned().collect(),
        }
    }
}

impl<R: Read + Seek> Read for Pieces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let up_to = |size: u64| usize::try_from(size).map_or(buffer.len(), |n| n.min(buffer.len()));
        let Some(piece) = self.left.front_mut() else {
            return Ok(0);
        };
        let n = match piece {
            Piece::Copy((start, end)) => {
                let n = up_to(*end - *start);
                if self.position != *start {
                    self.from.seek(SeekFrom::Start(*start))?;
                }
                self.from.read_exact(&mut buffer[..n])?;
                *start += n as u64;
                self.position = *start;
                n
            }
            Piece::Zeros(size) => {
                let n = up_to(*size);
                buffer[..n].fill(0);
                *size -= n as u64;
                n
            }
            Piece::Bytes(bytes) => {
                let n = up_to(bytes.len() as u64);
                buffer[..n].copy_from_slice(&bytes[..n]);
                bytes.drain(..n);
                n
            }
        };
        if piece.size_bytes() == 0 {
            self.left.pop_front();
        }
        Ok(n)
    }
}
