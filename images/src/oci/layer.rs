//! Layers: trees of files as tar archives that come out the same anywhere.
//!
//! Entries are sorted by path, belong to root, and carry no times. Files are read when the
//! archive is written and never held in memory.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tar::{Builder, EntryType, Header};

use crate::{
    Digest, Result, canonical,
    digest::HashingWriter,
    error::at,
    oci::part::FilePart,
    progress::Action,
    slim::{Pieces, Slim},
    store::{Cache, Stamp, read_note},
};

/// Changes whenever the bytes of a layer would change for the same tree.
const FORMAT: u32 = 1;
pub(crate) const BLOCK_BYTES: u64 = 512;
/// Longest path that a header holds; more would take further entries.
const PATH_MAX_BYTES: usize = 100;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Folder {
        mode: u32,
    },
    Link {
        target: String,
    },
    Bytes {
        content: Vec<u8>,
        mode: u32,
    },
    File {
        source: PathBuf,
        size_bytes: u64,
        mode: u32,
        /// What is made of it, where that is another file.
        slim: Option<Slim>,
    },
}

impl Node {
    /// How much it takes in the archive besides its header.
    fn size_bytes(&self) -> u64 {
        match self {
            Self::Folder { .. } | Self::Link { .. } => 0,
            Self::Bytes { content, .. } => content.len() as u64,
            Self::File {
                size_bytes, slim, ..
            } => slim.as_ref().map_or(*size_bytes, Slim::size_bytes),
        }
    }
}

/// A tree of files. Paths have no leading slash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerId {
    pub(crate) digest: Digest,
    pub(crate) size_bytes: u64,
}

impl Tree {
    /// Adds a node, and the folders above it.
    pub(crate) fn insert(&mut self, path: &str, node: Node) {
        let mut above = path;
        while let Some((parent, _)) = above.rsplit_once('/') {
            self.nodes
                .entry(parent.to_owned())
                .or_insert(Node::Folder { mode: 0o755 });
            above = parent;
        }
        self.nodes.insert(path.to_owned(), node);
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.nodes.contains_key(path)
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The size of the archive, without reading a file.
    fn size_bytes(&self) -> u64 {
        let entries: u64 = self
            .nodes
            .values()
            .map(|node| BLOCK_BYTES + node.size_bytes().next_multiple_of(BLOCK_BYTES))
            .sum();
        entries + 2 * BLOCK_BYTES
    }

    /// The digest and size; read from files only where they have changed since the last time.
    pub(crate) fn id(&self, name: &str, cache: &Cache) -> Result<LayerId> {
        let note = cache.note_path("layers", self.key()?.as_bytes());
        if let Some(known) = read_note::<LayerId>(&note) {
            return Ok(known);
        }
        let size_bytes = self.size_bytes();
        let mut meter = cache.start(Action::Hash, name, Some(size_bytes));
        let mut writer = HashingWriter::new(io::sink()).heard(|done| meter.advance_to(done));
        self.write(&mut writer)?;
        let (_, digest, size_bytes) = writer.finish();
        let id = LayerId { digest, size_bytes };
        cache.write_note(&note, &id)?;
        Ok(id)
    }

    /// What the layer's bytes follow from: the tree, and each file's path, size, time and inode.
    fn key(&self) -> Result<String> {
        #[derive(Serialize)]
        #[serde(rename_all = "lowercase")]
        enum Part<'a> {
            Folder(u32),
            Link(&'a str),
            Bytes(Digest, u32),
            File(Stamp, u32),
            Slim(Stamp, u32, Digest),
        }
        let mut parts = BTreeMap::new();
        for (path, node) in &self.nodes {
            let part = match node {
                Node::Folder { mode } => Part::Folder(*mode),
                Node::Link { target } => Part::Link(target),
                Node::Bytes { content, mode } => Part::Bytes(Digest::of(content), *mode),
                Node::File {
                    source, mode, slim, ..
                } => {
                    let stamp = Stamp::of(source).map_err(at(source))?;
                    match slim {
                        None => Part::File(stamp, *mode),
                        Some(slim) => {
                            let pieces = canonical::json(&slim.pieces);
                            Part::Slim(stamp, *mode, Digest::of(pieces.as_bytes()))
                        }
                    }
                }
            };
            parts.insert(path, part);
        }
        Ok(canonical::json(&(FORMAT, parts)))
    }

    pub(crate) fn write(&self, to: impl Write) -> Result<()> {
        let mut archive = Builder::new(to);
        for (path, node) in &self.nodes {
            append(&mut archive, path, node).map_err(|error| match node {
                Node::File { source, .. } => at(source)(error),
                _ => at(Path::new(path))(error),
            })?;
        }
        archive.finish().map_err(at(Path::new("layer")))
    }
}

fn append(archive: &mut Builder<impl Write>, path: &str, node: &Node) -> io::Result<()> {
    let (kind, mode) = match node {
        Node::Folder { mode } => (EntryType::Directory, *mode),
        Node::Link { .. } => (EntryType::Symlink, 0o777),
        Node::Bytes { mode, .. } | Node::File { mode, .. } => (EntryType::Regular, *mode),
    };
    if path.len() >= PATH_MAX_BYTES {
        return Err(io::Error::other(
            "the path is longer than 99 bytes, the most a layer takes",
        ));
    }
    let mut header = header(kind, mode, node.size_bytes());
    header.set_path(path)?;
    if let Node::Link { target } = node {
        header.set_link_name(target)?;
    }
    header.set_cksum();
    match node {
        Node::Folder { .. } | Node::Link { .. } => archive.append(&header, io::empty()),
        Node::Bytes { content, .. } => archive.append(&header, content.as_slice()),
        Node::File {
            source,
            size_bytes,
            slim,
            ..
        } => {
            let file = FilePart::whole(source, *size_bytes)?;
            match slim {
                None => archive.append(&header, file),
                Some(slim) => archive.append(&header, Pieces::new(file, &slim.pieces)),
            }
        }
    }
}

/// A header without a time or an owner.
pub(crate) fn header(kind: EntryType, mode: u32, size_bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size_bytes);
    header
}

/// Where a layer's bytes come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Tree(Tree),
    /// A part of a file that is a tar archive already.
    Part {
        file: PathBuf,
        offset: u64,
    },
}

impl Source {
    pub(crate) fn write(&self, size_bytes: u64, mut to: impl Write) -> Result<()> {
        match self {
            Self::Tree(tree) => tree.write(to),
            Self::Part { file, offset } => {
                let part = FilePart::open(file, *offset, size_bytes).map_err(at(file))?;
                io::copy(&mut part.buffered(), &mut to)
                    .map(drop)
                    .map_err(at(file))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::fs;

    fn tree(folder: &Path) -> Tree {
        let source = folder.join("libx.so");
        fs::write(&source, "x".repeat(1000)).unwrap();
        let mut tree = Tree::default();
        tree.insert(
            "opt/lib/libx.so",
            Node::File {
                source,
                size_bytes: 1000,
                mode: 0o755,
                slim: None,
            },
        );
        tree.insert(
            "etc/passwd",
            Node::Bytes {
                content: b"root".to_vec(),
                mode: 0o644,
            },
        );
        tree.insert(
            "lib",
            Node::Link {
                target: "usr/lib".to_owned(),
            },
        );
        tree
    }

    fn bytes(tree: &Tree) -> Vec<u8> {
        let mut bytes = Vec::new();
        tree.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_same_tree_gives_the_same_bytes_in_any_folder() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = bytes(&tree(one.path()));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(first, bytes(&tree(two.path())));
    }

    #[test]
    fn size_and_digest_are_those_of_the_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let tree = tree(folder.path());
        let bytes = bytes(&tree);
        let id = tree.id("x", &cache).unwrap();
        assert_eq!(id.size_bytes, bytes.len() as u64);
        assert_eq!(tree.size_bytes(), bytes.len() as u64);
        assert_eq!(id.digest, Digest::of(&bytes));
    }

    #[test]
    fn entries_are_sorted_and_carry_no_time_or_owner() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = bytes(&tree(folder.path()));
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut paths = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 0);
            assert_eq!(entry.header().uid().unwrap(), 0);
            paths.push(entry.path().unwrap().display().to_string());
        }
        assert_eq!(
            paths,
            [
                "etc",
                "etc/passwd",
                "lib",
                "opt",
                "opt/lib",
                "opt/lib/libx.so"
            ]
        );
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        fs::write(folder.path().join("libx.so"), "short").unwrap();
        let error = tree.write(Vec::new()).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "/folder"), @"/folder/libx.so: its size changed while the image was made; run again");
    }

    #[test]
    fn a_changed_file_changes_the_digest() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let first = tree(folder.path()).id("x", &cache).unwrap();
        let tree = tree(folder.path());
        fs::write(folder.path().join("libx.so"), "y".repeat(1000)).unwrap();
        let second = tree.id("x", &cache).unwrap();
        assert_ne!(first.digest, second.digest);
        assert_eq!(first.size_bytes, second.size_bytes);
    }
}
