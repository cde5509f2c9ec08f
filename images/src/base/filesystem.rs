//! The files of a base as they lie in its layers: found by reading headers alone, taken out one by
//! one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use tar::EntryType;

use crate::{
    Digest,
    digest::{CopyError, copy_hashed},
    oci::{layer::BLOCK_BYTES, part::FilePart},
};

/// Links that lead on from one to the next, at most: as many as Linux follows.
const LINKS_MAX: usize = 40;
/// How a layer says that a file below it is gone, and that a whole folder is.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    archive: Arc<PathBuf>,
    pub(super) offset: u64,
    pub(crate) size_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder,
    Link(String),
    File(Place),
}

/// The tree that a stack of layers shows. Paths have no leading slash.
#[derive(Debug, Default)]
pub(crate) struct Filesystem {
    entries: BTreeMap<String, Entry>,
}

/// What one layer says, before it is laid over those below.
#[derive(Default)]
struct Layer {
    entries: BTreeMap<String, Entry>,
    gone: Vec<String>,
    emptied: Vec<String>,
    /// Where its last file ends.
    end: u64,
}

impl Filesystem {
    /// What lies in an archive, which must be whole.
    pub(crate) fn of_archive(file: &Path) -> Result<Self, &'static str> {
        let size_bytes = fs::metadata(file).map_err(|_| NO_TAR)?.len();
        let layer = read_layer(file, 0, size_bytes)?;
        // A block of zeros is the end, as the reader sees it: the end of the file is none.
        if layer.end > size_bytes {
            return Err("it is cut off within a file");
        } else if layer.end + BLOCK_BYTES > size_bytes {
            return Err("it is cut off: no end follows its last file");
        }
        let mut files = Self::default();
        files.lay(layer);
        Ok(files)
    }

    /// Lays a layer over what is there: `size_bytes` of an uncompressed archive in a file.
    pub(crate) fn add(
        &mut self,
        archive: &Path,
        offset: u64,
        size_bytes: u64,
    ) -> Result<(), &'static str> {
        self.lay(read_layer(archive, offset, size_bytes)?);
        Ok(())
    }

    fn lay(&mut self, layer: Layer) {
        for path in &layer.emptied {
            self.remove_below(path);
        }
        for path in &layer.gone {
            self.remove_below(path);
            self.entries.remove(path);
        }
        for (path, entry) in layer.entries {
            if entry != Entry::Folder {
                self.remove_below(&path);
            }
            self.entries.insert(path, entry);
        }
    }

    fn remove_below(&mut self, path: &str) {
        let gone: Vec<String> = self.below(path).map(|(path, _)| path.clone()).collect();
        for path in gone {
            self.entries.remove(&path);
        }
    }
    fn below(&self, folder: &str) -> impl Iterator<Item = (&String, &Entry)> {
        let below = format!("{folder}/");
        let from = self.entries.range(below.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&below))
    }

    /// The paths of all files and links.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|(_, entry)| **entry != Entry::Folder)
            .map(|(path, _)| path.as_str())
    }

    /// The paths of files below a folder, links left out.
    pub(crate) fn files_below(&self, folder: &str) -> Vec<(String, Place)> {
        let files = self.below(folder).filter_map(|(path, entry)| match entry {
            Entry::File(place) => Some((path.clone(), place.clone())),
            Entry::Folder | Entry::Link(_) => None,
        });
        files.collect()
    }

    /// The names in a folder, and where the folder really lies; `None` where there is no folder.
    pub(crate) fn names_in(&self, folder: &str) -> Option<BTreeSet<String>> {
        let folder = self.resolve(folder)?;
        let first = |path: &String| {
            path[folder.len() + 1..]
                .split('/')
                .next()
                .map(str::to_owned)
        };
        let names = self.below(&folder).filter_map(|(path, _)| first(path));
        Some(names.collect()).filter(|names: &BTreeSet<String>| !names.is_empty())
    }

    /// The file at a path, links followed.
    pub(crate) fn file(&self, path: &str) -> Option<Place> {
        match self.entries.get(&self.resolve(path)?)? {
            Entry::File(place) => Some(place.clone()),
            Entry::Folder | Entry::Link(_) => None,
        }
    }

    /// Where a path leads once every link in it was followed. A link that leads out of the root
    /// starts there again, as in a container.
    fn resolve(&self, path: &str) -> Option<String> {
        let mut todo: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut found: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    found.pop();
                    continue;
                }
                _ => found.push(part),
            }
            if let Some(Entry::Link(target)) = self.entries.get(&found.join("/")) {
                links += 1;
                if links > LINKS_MAX {
                    return None;
                }
                found.pop();
                if target.starts_with('/') {
                    found.clear();
                }
                todo.extend(target.rsplit('/').map(str::to_owned));
            }
        }
        Some(found.join("/"))
    }
}

const NO_TAR: &str = "it is no tar archive";

fn read_layer(archive: &Path, offset: u64, size_bytes: u64) -> Result<Layer, &'static str> {
    let no_tar = |_: io::Error| NO_TAR;
    let shared = Arc::new(archive.to_owned());
    let mut layer = Layer::default();
    let mut hard_links = Vec::new();
    let part = FilePart::open(archive, offset, size_bytes).map_err(no_tar)?;
    let mut read = tar::Archive::new(part);
    for entry in read.entries_with_seek().map_err(no_tar)? {
        let entry = entry.map_err(|_| match layer.end {
            0 => NO_TAR,
            _ => "it is cut off or damaged",
        })?;
        // A file with holes may say any size.
        let padded = entry.size().checked_next_multiple_of(BLOCK_BYTES);
        let end = padded.and_then(|size| size.checked_add(entry.raw_file_position()));
        layer.end = end.unwrap_or(u64::MAX - BLOCK_BYTES);
        let path = plain(&String::from_utf8_lossy(&entry.path_bytes()));
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if name == OPAQUE {
            layer.emptied.push(folder.to_owned());
            continue;
        }
        if let Some(name) = name.strip_prefix(WHITEOUT) {
            layer.gone.push(join(folder, name));
            continue;
        }
        let link = || {
            entry
                .link_name_bytes()
                .map(|target| String::from_utf8_lossy(&target).into_owned())
                .unwrap_or_default()
        };
        let found = match entry.header().entry_type() {
            EntryType::Directory => Entry::Folder,
            EntryType::Symlink => Entry::Link(link()),
            EntryType::Link => {
                hard_links.push((path, plain(&link())));
                continue;
            }
            EntryType::Regular | EntryType::Continuous => Entry::File(Place {
                archive: Arc::clone(&shared),
                offset: offset + entry.raw_file_position(),
                size_bytes: entry.size(),
            }),
            // Devices and pipes: nothing that is linked or loaded.
            _ => continue,
        };
        if !path.is_empty() {
            layer.entries.insert(path, found);
        }
    }
    for (path, target) in hard_links {
        if let Some(entry) = layer.entries.get(&target).cloned() {
            layer.entries.insert(path, entry);
        }
    }
    Ok(layer)
}

fn plain(path: &str) -> String {
    path.split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect::<Vec<_>>()
        .join("/")
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

impl Place {
    /// A reader of the file's bytes.
    pub(crate) fn open(&self) -> io::Result<FilePart> {
        FilePart::open(&self.archive, self.offset, self.size_bytes)
    }

    /// All of the file.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open()?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A small text; anything may lie at a path of somebody else's image.
    pub(crate) fn small_text(&self) -> Option<String> {
        const LONGEST: u64 = 1 << 20;
        let bytes = (self.size_bytes <= LONGEST).then(|| self.bytes().ok())??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Takes the file out; `done` hears how much of it is there.
    pub(crate) fn extract(&self, to: &Path, done: impl FnMut(u64)) -> io::Result<Digest> {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        match copy_hashed(self.open()?, File::create(to)?, done) {
            Ok((digest, _)) => Ok(digest),
            Err(CopyError::Read(error) | CopyError::Write(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    enum Made<'a> {
        File(&'a str, &'a str),
        Link(&'a str, &'a str),
        Hard(&'a str, &'a str),
    }

    fn layer(folder: &Path, name: &str, entries: &[Made]) -> PathBuf {
        let file = folder.join(name);
        let mut archive = tar::Builder::new(File::create(&file).unwrap());
        for entry in entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            let (path, target, kind) = match entry {
                Made::File(path, content) => {
                    header.set_size(content.len() as u64);
                    archive
                        .append_data(&mut header, path, content.as_bytes())
                        .unwrap();
                    continue;
                }
                Made::Link(path, target) => (path, target, EntryType::Symlink),
                Made::Hard(path, target) => (path, target, EntryType::Link),
            };
            header.set_entry_type(kind);
            header.set_size(0);
            archive.append_link(&mut header, path, target).unwrap();
        }
        archive.into_inner().unwrap();
        file
    }

    fn stack(layers: &[&[Made]]) -> (tempfile::TempDir, Filesystem) {
        let folder = tempfile::tempdir().unwrap();
        let mut found = Filesystem::default();
        for (number, entries) in layers.iter().enumerate() {
            let file = layer(folder.path(), &format!("{number}.tar"), entries);
            let size = fs::metadata(&file).unwrap().len();
            found.add(&file, 0, size).unwrap();
        }
        (folder, found)
    }

    fn text(place: &Place) -> String {
        let mut text = String::new();
        place.open().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn upper_layers_replace_hide_and_empty_what_is_below() {
        use Made::File as F;
        let (_folder, found) = stack(&[
            &[
                F("a/one", "1"),
                F("a/two", "2"),
                F("b/three", "3"),
                F("b/four", "4"),
                F("kept", "k"),
            ],
            &[
                F("a/one", "new"),
                F("a/.wh.two", ""),
                F("b/.wh..wh..opq", ""),
                F("b/five", "5"),
            ],
        ]);
        let paths: Vec<&str> = found.paths().collect();
        assert_eq!(paths, ["a/one", "b/five", "kept"]);
        assert_eq!(text(&found.file("a/one").unwrap()), "new");
        assert_eq!(text(&found.file("/kept").unwrap()), "k");
    }

    #[test]
    fn links_are_followed_and_end() {
        use Made::{File as F, Hard as H, Link as L};
        let (_folder, found) = stack(&[&[
            F("usr/lib/libc-2.31.so", "c"),
            L("usr/lib/libc.so.6", "libc-2.31.so"),
            L("lib", "usr/lib"),
            L("etc/absolute", "/lib/libc.so.6"),
            L("etc/outside", "../../../lib/libc.so.6"),
            L("round", "about"),
            L("about", "round"),
            H("usr/lib/again.so", "usr/lib/libc-2.31.so"),
        ]]);
        for path in [
            "lib/libc.so.6",
            "etc/absolute",
            "etc/outside",
            "usr/lib/again.so",
        ] {
            assert_eq!(text(&found.file(path).unwrap()), "c", "{path}");
        }
        for path in ["round", "absent", "usr"] {
            assert_eq!(found.file(path), None, "{path}");
        }
        assert!(found.names_in("lib").unwrap().contains("libc.so.6"));
        assert_eq!(found.names_in("nothing"), None);
    }

    #[test]
    fn a_file_comes_out_as_it_went_in() {
        let (folder, found) = stack(&[&[Made::File("x", "content")]]);
        let to = folder.path().join("out/x");
        let mut bytes = 0;
        let digest = found
            .file("x")
            .unwrap()
            .extract(&to, |done| bytes = done)
            .unwrap();
        assert_eq!((digest, bytes), (Digest::of(b"content"), 7));
        assert_eq!(fs::read(to).unwrap(), b"content");
    }
}
