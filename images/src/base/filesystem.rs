//! The files of a base as they lie in its layers: found by reading headers alone, taken out one by
//! one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use tar::EntryType;

use crate::{
    Digest,
    digest::{CopyError, copy_hashed},
    oci::{layer::BLOCK_BYTES, part::FilePart},
};

/// How a layer says that a file below it is gone, and that a whole folder is.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    archive: Arc<PathBuf>,
    pub(super) offset: u64,
    pub(crate) size_bytes: u64,
    mode: u32,
    /// Seconds since 1970.
    modified: u64,
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
    /// What of it is not as an engine would show it, and why.
    untold: Option<String>,
}

/// What one layer says, before it is laid over those below.
#[derive(Default)]
struct Layer {
    entries: BTreeMap<String, Entry>,
    gone: Vec<String>,
    emptied: Vec<String>,
    /// Links to files of layers below.
    hard_links: Vec<(String, String)>,
    untold: Option<String>,
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
        if layer.emptied.iter().any(String::is_empty) {
            self.entries.clear();
        }
        for path in &layer.gone {
            self.remove_below(path);
            self.entries.remove(path);
        }
        // A layer is a tree of its own: what it has below a link of another's takes the link's place.
        for above in layer.entries.keys().flat_map(|path| above(path)) {
            if !layer.entries.contains_key(above)
                && let Some(entry) = self.entries.get_mut(above)
            {
                *entry = Entry::Folder;
            }
        }
        for (path, entry) in layer.entries {
            if entry != Entry::Folder {
                self.remove_below(&path);
            }
            self.entries.insert(path, entry);
        }
        let mut untold = layer.untold;
        for (path, target) in layer.hard_links {
            match self.entries.get(&target).cloned() {
                Some(entry) => drop(self.entries.insert(path, entry)),
                None => {
                    untold = Some(format!(
                        "{path} is a hard link to {target}, which is not there"
                    ));
                }
            }
        }
        self.untold = self.untold.take().or(untold);
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

    /// Writes all of it into a folder that is there, as the caller's; `done` hears how many bytes.
    /// Python takes a compiled file for that of a source by the time of the source's last change.
    ///
    /// # Errors
    /// Where a file cannot be written, and where something would lie below a link or a file: nothing
    /// is followed, so nothing is written anywhere else.
    pub(crate) fn write_to(&self, root: &Path, mut done: impl FnMut(u64)) -> io::Result<()> {
        if let Some(untold) = &self.untold {
            return Err(io::Error::other(untold.clone()));
        }
        let mut bytes = 0;
        for (path, entry) in &self.entries {
            let is_folder = |above: &str| {
                let entry = self.entries.get(above);
                entry.is_none_or(|entry| *entry == Entry::Folder)
            };
            if !above(path).all(is_folder) || path.split('/').any(|part| part == "..") {
                let why = format!("{path} lies below a link or a file, or outside");
                return Err(io::Error::other(why));
            }
            let to = root.join(path);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            let made = match entry {
                Entry::Folder => fs::create_dir_all(&to),
                Entry::Link(target) => symlink(target, &to),
                Entry::File(place) => {
                    bytes += place.size_bytes;
                    place.write_to(&to).inspect(|()| done(bytes))
                }
            };
            made.map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        }
        Ok(())
    }

    /// Bytes of all files.
    pub(crate) fn size_bytes(&self) -> u64 {
        let files = self.entries.values().map(|entry| match entry {
            Entry::File(place) => place.size_bytes,
            Entry::Folder | Entry::Link(_) => 0,
        });
        files.sum()
    }

    /// Where a path leads once every link in it was followed. A link that leads out of the root
    /// starts there again, as in a container.
    fn resolve(&self, path: &str) -> Option<String> {
        let link = |place: &Path| match self.entries.get(place.to_str()?)? {
            Entry::Link(target) => Some(PathBuf::from(target)),
            Entry::Folder | Entry::File(_) => None,
        };
        let found = engine::resolve(Path::new(path), link)?;
        found.to_str().map(str::to_owned)
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
        if std::str::from_utf8(&entry.path_bytes()).is_err() {
            layer.untold = Some(format!("the name of {path} is not UTF-8"));
        }
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
                mode: entry.header().mode().unwrap_or(0o644),
                modified: entry.header().mtime().unwrap_or(0),
            }),
            // Devices and pipes: nothing that is linked or loaded.
            _ => continue,
        };
        if !path.is_empty() {
            layer.entries.insert(path, found);
        }
    }
    for (path, target) in hard_links {
        match layer.entries.get(&target).cloned() {
            Some(entry) => drop(layer.entries.insert(path, entry)),
            None => layer.hard_links.push((path, target)),
        }
    }
    Ok(layer)
}

/// The folders that a path is in.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
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

    /// Makes a file of it, with its mode and the time of its last change.
    fn write_to(&self, to: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(to)?;
        io::copy(&mut self.open()?, &mut file)?;
        let mode = self.mode & 0o777 | 0o600;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        let modified = UNIX_EPOCH.checked_add(Duration::from_secs(self.modified));
        modified.map_or(Ok(()), |modified| file.set_modified(modified))
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
            header.set_mode(0o754);
            header.set_mtime(1_234_567);
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
    fn layers_are_written_as_an_engine_shows_them() {
        use Made::{File as F, Hard as H, Link as L};
        let (folder, found) = stack(&[
            &[
                F("usr/lib/a", "1"),
                F("usr/lib/gone", ""),
                L("lib", "/usr/lib"),
                L("was-link", "/usr/lib"),
                H("usr/lib/b", "usr/lib/a"),
            ],
            &[
                F("was-link/file", "2"),
                H("usr/c", "usr/lib/a"),
                F("usr/lib/.wh.gone", ""),
            ],
        ]);
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut bytes = 0;
        found.write_to(&root, |done| bytes = done).unwrap();
        assert_eq!((bytes, found.size_bytes()), (4, 4));
        assert_eq!(fs::read_to_string(root.join("was-link/file")).unwrap(), "2");
        assert!(!root.join("usr/lib/file").exists());
        for path in ["usr/lib/a", "usr/lib/b", "usr/c"] {
            assert_eq!(fs::read_to_string(root.join(path)).unwrap(), "1", "{path}");
        }
        assert!(!root.join("usr/lib/gone").exists());
        assert_eq!(
            fs::read_link(root.join("lib")).unwrap(),
            Path::new("/usr/lib")
        );
        let file = fs::metadata(root.join("usr/lib/a")).unwrap();
        assert_eq!(file.permissions().mode() & 0o7777, 0o754);
        assert_eq!(
            file.modified().unwrap(),
            UNIX_EPOCH + Duration::from_secs(1_234_567)
        );
    }

    /// Archives of nobody's honest making: each would have the kernel follow a link that they have made.
    #[test]
    fn a_layer_is_written_nowhere_else() {
        use Made::{File as F, Link as L};
        let outside = tempfile::tempdir().unwrap();
        let away = outside.path().to_str().unwrap();
        let through = [L("a", "zz"), L("a/y", away), F("zz/y/file", "x")];
        let up = [L("b", away), F("b/file", "x")];
        let above = [F("b/f", "x"), L("b/l", away), F("b/l/file", "x")];
        for entries in [&through[..], &up, &above] {
            let (folder, found) = stack(&[entries]);
            let root = folder.path().join("root");
            fs::create_dir(&root).unwrap();
            assert!(found.write_to(&root, |_| {}).is_err());
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        }
        let (folder, mut found) = stack(&[&up[..1]]);
        found
            .entries
            .insert("x/../b/file".to_owned(), Entry::Folder);
        assert!(found.write_to(folder.path(), |_| {}).is_err());
        let (folder, found) = stack(&[&[Made::Hard("a", "nowhere")]]);
        let error = found.write_to(folder.path(), |_| {}).unwrap_err();
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "/folder"), @"a is a hard link to nowhere, which is not there");
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
