//! The dynamic linker's search over the files of an image that is not loaded yet: what it would not
//! find is found here, before a run ends with status 127.
//!
//! The order is that of ld.so(8): `DT_RPATH`, `LD_LIBRARY_PATH`, `DT_RUNPATH`, the cache, the
//! default folders.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
};

use memchr::memmem;

use crate::{
    Error, Libtorch, Result, ScenarioBinary,
    assembly::contents::{LIBTORCH_IN_IMAGE, SCENARIO_IN_IMAGE},
    base::filesystem::Filesystem,
    elf::Dynamic,
    error::at,
    libtorch::{Origin, linkage::DRIVER},
};

/// Where distributions' loaders look in the end. Each has some of them.
const DEFAULT_FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// A program or library that the loader has found.
struct Object {
    path: String,
    dynamic: Dynamic,
    /// `DT_RPATH` of what asked for it, and of what asked for that.
    inherited: Vec<String>,
}

/// The loader's work over the files of an image: those of its base, and what Torchgauge adds.
struct Search<'a> {
    base: &'a Filesystem,
    /// Path in the image to the file here.
    added: BTreeMap<String, PathBuf>,
    library_path: Vec<String>,
    /// The base's `ld.so.cache`: name to paths.
    cached: BTreeMap<String, Vec<String>>,
    queue: VecDeque<Object>,
    /// Name to the versions that the library offers.
    loaded: BTreeMap<String, BTreeSet<String>>,
    /// The versions that libraries are asked for, and by what.
    wanted: BTreeMap<(String, String), String>,
    missing: Vec<(String, String)>,
}

/// Follows the scenario binary and libtorch's libraries as the loader does.
pub(crate) fn check(
    base: &Filesystem,
    libtorch: &Libtorch,
    scenario: &ScenarioBinary,
    library_path: &str,
) -> Result<()> {
    let mut added = BTreeMap::from([(SCENARIO_IN_IMAGE.to_owned(), scenario.path.clone())]);
    if !matches!(libtorch.origin, Origin::Inside(_)) {
        added.extend(libtorch.libraries.iter().map(|library| {
            let place = format!("{LIBTORCH_IN_IMAGE}/{}", library.name);
            (place, library.path.clone())
        }));
    }
    let cache = base.file("etc/ld.so.cache");
    let cache = cache.map_or(Ok(Vec::new()), |place| place.bytes());
    let cache = cache.map_err(at("etc/ld.so.cache".as_ref()))?;
    let mut search = Search {
        base,
        added,
        library_path: library_path.split(':').map(str::to_owned).collect(),
        cached: read_cache(&cache),
        queue: VecDeque::new(),
        loaded: BTreeMap::new(),
        wanted: BTreeMap::new(),
        missing: Vec::new(),
    };
    search.program(Dynamic::of_file(&scenario.path)?);
    // What is opened by name while programs run, or is a root of libtorch.
    for library in &libtorch.libraries {
        let folders = search.library_path.clone();
        search.find(&library.name, &folders, &[], "libtorch");
        search.follow();
    }
    search.finish()
}

impl Search<'_> {
    fn open(&self, path: &str) -> Option<Dynamic> {
        match self.added.get(path) {
            Some(file) => Dynamic::of_file(file).ok(),
            None => Dynamic::of_reader(self.base.file(path)?.open().ok()?).ok(),
        }
    }

    fn program(&mut self, dynamic: Dynamic) {
        if let Some(loader) = &dynamic.interpreter {
            match self.open(loader) {
                None => self.lacks(format!("the loader {loader}"), "the scenario binary"),
                // It is there before anything is searched for.
                Some(found) => {
                    let name = loader.rsplit('/').next().unwrap_or_default().to_owned();
                    self.loaded.insert(name, found.versions_offered);
                }
            }
        }
        self.queue.push_back(Object {
            path: SCENARIO_IN_IMAGE.to_owned(),
            dynamic,
            inherited: Vec::new(),
        });
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(object) = self.queue.pop_front() {
            let folder = object.path.rsplit_once('/');
            let origin = folder.map_or("", |(folder, _)| folder);
            let expand = |folder: &String| expanded(folder, origin);
            let mut before = Vec::new();
            if object.dynamic.runpath.is_empty() {
                before.extend(object.dynamic.rpath.iter().map(expand));
                before.extend(object.inherited);
            }
            let mut folders = before.clone();
            folders.extend(self.library_path.iter().cloned());
            folders.extend(object.dynamic.runpath.iter().map(expand));
            for wanted in object.dynamic.versions_needed {
                self.wanted.entry(wanted).or_insert(object.path.clone());
            }
            for name in &object.dynamic.needed {
                self.find(name, &folders, &before, &object.path);
            }
        }
    }

    fn find(&mut self, name: &str, folders: &[String], inherited: &[String], needed_by: &str) {
        if DRIVER.contains(&name) || self.loaded.contains_key(name) {
            return;
        }
        let joined = |folder: &str| format!("{}/{name}", folder.trim_end_matches('/'));
        let mut candidates: Vec<String> = Vec::new();
        if name.contains('/') {
            candidates.push(name.to_owned());
        } else {
            let set = folders.iter().filter(|folder| !folder.is_empty());
            candidates.extend(set.map(|folder| joined(folder)));
            candidates.extend(self.cached.get(name).into_iter().flatten().cloned());
            candidates.extend(DEFAULT_FOLDERS.map(joined));
        }
        let mut candidates = candidates.into_iter();
        let found = candidates.find_map(|path| Some((self.open(&path)?, path)));
        let Some((dynamic, path)) = found else {
            let is_it = |path: &&str| path.rsplit_once('/').is_some_and(|(_, file)| file == name);
            let elsewhere = self.base.paths().find(is_it).map(|path| {
                format!(
                    " (the base has /{path}, where the loader does not look, for the folder is \
                     not in the base's LD_LIBRARY_PATH)"
                )
            });
            let what = format!("{name}{}", elsewhere.unwrap_or_default());
            self.lacks(what, needed_by);
            // Once is enough.
            self.loaded.insert(name.to_owned(), BTreeSet::new());
            return;
        };
        let offered = &dynamic.versions_offered;
        for name in dynamic.soname.iter().map(String::as_str).chain([name]) {
            self.loaded.insert(name.to_owned(), offered.clone());
        }
        self.queue.push_back(Object {
            path,
            dynamic,
            inherited: inherited.to_vec(),
        });
    }

    fn lacks(&mut self, what: String, needed_by: &str) {
        self.missing.push((what, needed_by.to_owned()));
    }

    fn finish(mut self) -> Result<()> {
        for ((library, version), by) in std::mem::take(&mut self.wanted) {
            // A library without versions serves all, as far as the loader goes.
            let offers = |known: &BTreeSet<String>| known.is_empty() || known.contains(&version);
            if !self.loaded.get(&library).is_none_or(offers) {
                self.lacks(format!("{version} of {library}"), &by);
            }
        }
        let (missing, needed_by): (Vec<String>, Vec<String>) = self.missing.into_iter().unzip();
        match needed_by.first() {
            None => Ok(()),
            Some(needed_by) => {
                let next = if missing.iter().any(|what| what.starts_with("GLIBC_")) {
                    "build it on a system as old as the base (Debian 12 has glibc 2.36), or take a \
                     newer base"
                } else {
                    "add the package that has it to the base, or use another libtorch"
                };
                let missing = missing.join("; ");
                Err(Error::Input(format!(
                    "the image would lack {missing}, needed by {needed_by}; {next}"
                )))
            }
        }
    }
}

/// A folder of `DT_RPATH` or `DT_RUNPATH`, with what stands for parts of it written out.
fn expanded(folder: &str, origin: &str) -> String {
    let mut text = folder.to_owned();
    for (name, value) in [("ORIGIN", origin), ("LIB", "lib64"), ("PLATFORM", "x86_64")] {
        text = text
            .replace(&format!("${{{name}}}"), value)
            .replace(&format!("${name}"), value);
    }
    text
}

/// Reads `ld.so.cache` in the form that glibc has written since 2.1 (its `sysdeps/generic/dl-cache.h`).
fn read_cache(bytes: &[u8]) -> BTreeMap<String, Vec<String>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let Some(start) = memmem::find(bytes, MAGIC) else {
        return found;
    };
    let table = &bytes[start..];
    let number = |at: usize| {
        let four = table.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(four)).ok()
    };
    let text = |at: usize| {
        let text = table.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let entry = |index: usize| {
        let at = HEADER_BYTES + index * ENTRY_BYTES;
        Some((text(number(at + 4)?)?, text(number(at + 8)?)?))
    };
    for index in 0..number(MAGIC.len()).unwrap_or(0) {
        // A table that is cut off ends here.
        let Some((name, path)) = entry(index) else {
            break;
        };
        found.entry(name).or_default().push(path);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_own_cache_is_read() {
        let bytes = std::fs::read("/etc/ld.so.cache").unwrap();
        let found = read_cache(&bytes);
        let paths = &found["libc.so.6"];
        assert!(
            paths.iter().any(|path| path.ends_with("/libc.so.6")),
            "{paths:?}"
        );
        for cut in [0, 10, 30, 60, bytes.len() / 2] {
            read_cache(&bytes[..cut]);
        }
    }

    #[test]
    fn folders_may_follow_from_where_a_library_lies() {
        for (folder, expect) in [
            ("$ORIGIN/../nvidia/lib", "/x/../nvidia/lib"),
            ("${ORIGIN}", "/x"),
            ("/opt/$LIB", "/opt/lib64"),
            ("/plain", "/plain"),
        ] {
            assert_eq!(expanded(folder, "/x"), expect);
        }
    }
}
