//! What `dist` packs, as an archive and as a wheel: the same bytes from any folder, and in the archive
//! a list of checksums by which the program in it knows what was changed since.

use std::{
    collections::BTreeMap,
    io::{BufWriter, Cursor, Write as _},
    path::Path,
};

use flate2::{Compression, GzBuilder};
use zip::{DateTime, ZipWriter, write::SimpleFileOptions};

use crate::{
    Cache, Digest, Glibc, Image, Result, atomic_write, base,
    elf::Dynamic,
    error::at,
    oci::{
        archive::{ArchiveLayer, Documents, Settings, write_archive},
        layer::{Node, Source, Tree},
    },
};

/// The list of checksums, in the form of `sha256sum`.
const SUMS: &str = "SHA256SUMS";
/// Files that are packed into one folder, each with its permissions.
#[derive(Debug)]
pub struct Package {
    folder: String,
    files: BTreeMap<String, (Vec<u8>, u32)>,
}

impl Package {
    /// Nothing yet, in a folder of this name.
    pub fn new(folder: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            files: BTreeMap::new(),
        }
    }

    /// Adds a file with these permissions.
    pub fn add(&mut self, path: &str, content: Vec<u8>, mode: u32) {
        self.files.insert(path.to_owned(), (content, mode));
    }

    /// The archive, gzipped, with the checksums of all that was added.
    pub fn pack(mut self) -> Result<Vec<u8>> {
        let line = |(path, (content, _)): (&String, &(Vec<u8>, u32))| {
            format!("{}  {path}\n", Digest::of(content).hex())
        };
        let sums: String = self.files.iter().map(line).collect();
        self.add(SUMS, sums.into_bytes(), 0o644);
        let mut tree = Tree::default();
        for (path, (content, mode)) in self.files {
            let place = format!("{}/{path}", self.folder);
            tree.insert(&place, Node::Bytes { content, mode });
        }
        // Neither a time nor the name of an operating system.
        let gzip = GzBuilder::new().mtime(0).operating_system(255);
        let mut to = gzip.write(Vec::new(), Compression::best());
        tree.write(&mut to)?;
        to.finish().map_err(at(Path::new(&self.folder)))
    }

    /// Writes an image that runs the file `program`, as an archive that engines load under `reference`,
    /// with its checksum beside it: the files, at their places below `/`, on the Debian base that
    /// `locked` has.
    pub fn image(
        self,
        reference: &str,
        program: &str,
        locked: &Image,
        to: &Path,
        cache: &Cache,
    ) -> Result<Digest> {
        let base = base::ready(&locked.spec.base, Some(&locked.usable_lock()?.base), cache)?;
        let mut tree = Tree::default();
        for (path, (content, mode)) in self.files {
            tree.insert(&path, Node::Bytes { content, mode });
        }
        let mut layers: Vec<_> = base
            .layers
            .into_iter()
            .map(|layer| {
                let (file, offset) = (layer.file, layer.offset);
                (layer.id, Source::Part { file, offset })
            })
            .collect();
        layers.push((tree.id(reference, cache)?, Source::Tree(tree)));
        let settings = Settings {
            environment: vec!["PATH=/usr/local/bin:/usr/bin:/bin".to_owned()],
            labels: BTreeMap::new(),
            entrypoint: vec![format!("/{program}")],
            // An engine's socket is root's, and whoever starts it may say another.
            user: "0:0".to_owned(),
        };
        let ids: Vec<_> = layers.iter().map(|(id, _)| *id).collect();
        let documents = Documents::new(&settings, &ids);
        let layers: Vec<_> = layers
            .iter()
            .map(|(id, source)| ArchiveLayer {
                name: reference,
                id: *id,
                source: Some(source),
            })
            .collect();
        atomic_write::whole(to, |file| {
            write_archive(reference, &documents, &layers, BufWriter::new(file))
        })?;
        let digest = Digest::of_file(to).map_err(at(to))?;
        write_sum(to, digest)?;
        Ok(digest)
    }

    /// The files as a wheel, in their order, with the list that installers check: the folder is that
    /// of its metadata, `NAME-VERSION.dist-info`.
    pub fn wheel(mut self) -> Result<Vec<u8>> {
        let record = format!("{}/RECORD", self.folder);
        let line = |(path, (content, _)): (&String, &(Vec<u8>, u32))| {
            let sum = Digest::of(content).base64();
            format!("{path},sha256={sum},{}\n", content.len())
        };
        let lines: String = self.files.iter().map(line).collect();
        self.add(&record, format!("{lines}{record},,\n").into_bytes(), 0o644);
        let mut to = ZipWriter::new(Cursor::new(Vec::new()));
        let failed = at(Path::new(&self.folder));
        for (path, (content, mode)) in self.files {
            let options = SimpleFileOptions::default()
                .unix_permissions(mode)
                .last_modified_time(DateTime::default());
            to.start_file(path, options.compression_level(Some(9)))
                .map_err(|error| failed(error.into()))?;
            to.write_all(&content).map_err(&failed)?;
        }
        let bytes = to.finish().map_err(|error| failed(error.into()))?;
        Ok(bytes.into_inner())
    }
}

/// The oldest glibc that a program starts with; `None` where it needs none.
pub fn glibc_needed(program: &Path) -> Result<Option<Glibc>> {
    Ok(Dynamic::of_file(program)?.glibc_needed)
}

/// Writes an archive, whole or not at all, and beside it `FILE.sha256` for `sha256sum --check`.
pub fn write_package(bytes: &[u8], to: &Path) -> Result<Digest> {
    let digest = Digest::of(bytes);
    atomic_write::whole(to, |file| file.write_all(bytes).map_err(at(to)))?;
    write_sum(to, digest)?;
    Ok(digest)
}

fn write_sum(of: &Path, digest: Digest) -> Result<()> {
    let name = of.file_name().unwrap_or_default().to_string_lossy();
    let sum = format!("{}  {name}\n", digest.hex());
    let beside = of.with_file_name(format!("{name}.sha256"));
    atomic_write::whole(&beside, |to| {
        to.write_all(sum.as_bytes()).map_err(at(&beside))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn package() -> Package {
        let mut package = Package::new("tool-1");
        package.add("tool", b"#!/bin/sh\n".to_vec(), 0o755);
        package.add("share/man/tool.1", b"manual".to_vec(), 0o644);
        package
    }

    fn run(program: &str, words: &[&str], folder: &Path) {
        let mut command = Command::new(program);
        let output = command.args(words).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
    }

    #[test]
    fn what_is_packed_is_the_same_twice_and_unpacks_with_what_debian_has() {
        let home = tempfile::tempdir().unwrap();
        let bytes = package().pack().unwrap();
        assert_eq!(package().pack().unwrap(), bytes);
        let archive = home.path().join("tool.tar.gz");
        assert_eq!(
            write_package(&bytes, &archive).unwrap(),
            Digest::of_file(&archive).unwrap()
        );
        run("sha256sum", &["--check", "tool.tar.gz.sha256"], home.path());
        run("tar", &["-xzf", "tool.tar.gz"], home.path());
        let folder = home.path().join("tool-1");
        run("sha256sum", &["--check", SUMS], &folder);
        run("./tool", &[], &folder);
    }

    #[test]
    fn a_wheel_is_the_same_twice_and_lists_its_files() {
        let bytes = package().wheel().unwrap();
        assert_eq!(package().wheel().unwrap(), bytes);
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        assert_eq!(
            archive.by_name("tool").unwrap().unix_mode(),
            Some(0o100_755)
        );
        let record = archive.by_name("tool-1/RECORD").unwrap();
        let record = std::io::read_to_string(record).unwrap();
        // By hand: printf manual | openssl dgst -sha256 -binary | basenc --base64url
        let manual = "share/man/tool.1,sha256=Nr3mbyiaNWg2g7BBxtj0GKXzZge1R9ol0ArVWJHoC4g,6";
        assert!(record.lines().any(|line| line == manual), "{record}");
        assert!(record.ends_with("tool-1/RECORD,,\n"), "{record}");
    }
}
