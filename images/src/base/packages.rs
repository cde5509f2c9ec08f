//! Which packages a base holds, read out of its files: nothing in it is run.

use std::{collections::BTreeSet, io};

use serde_json::Value;

use crate::{
    base::filesystem::{Filesystem, Place},
    lock::{BaseContents, BasePackage, PackageKind},
};

/// Databases of packages are a few MiB: what is larger is none.
const MAX_BYTES: u64 = 256 << 20;

const DPKG: &str = "var/lib/dpkg/status";
/// Where images without dpkg itself say what they are made of, one file each.
const DPKG_PARTS: &str = "var/lib/dpkg/status.d";
const APK: [&str; 2] = ["lib/apk/db/installed", "usr/lib/apk/db/installed"];
const RPM: [&str; 2] = ["usr/lib/sysimage/rpm", "var/lib/rpm"];
const CUDA: &str = "usr/local/cuda/version.json";

/// The packages of a base, and why some may be lacking.
pub(crate) fn read(files: &Filesystem) -> (BaseContents, Vec<String>) {
    let mut reader = Reader {
        files,
        found: BTreeSet::new(),
        unread: Vec::new(),
    };
    reader.debian();
    reader.alpine();
    reader.rpm();
    reader.python_and_conda();
    reader.cuda();
    let contents = BaseContents {
        distribution: reader.distribution(),
        packages: reader.found.into_iter().collect(),
    };
    (contents, reader.unread)
}

struct Reader<'a> {
    files: &'a Filesystem,
    found: BTreeSet<BasePackage>,
    unread: Vec<String>,
}

impl Reader<'_> {
    fn text(&mut self, path: &str) -> Option<String> {
        let place = self.files.file(path)?;
        match bytes(&place) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => {
                self.unread.push(printable(&format!("/{path}: {error}")));
                None
            }
        }
    }

    fn add(&mut self, kind: PackageKind, package: Option<(&str, &str, Option<&str>)>) {
        let Some((name, version, architecture)) = package else {
            return;
        };
        self.found.insert(BasePackage {
            kind,
            name: printable(name),
            version: printable(version),
            architecture: architecture.map(printable),
        });
    }

    fn distribution(&mut self) -> Option<String> {
        let text = self.text("etc/os-release")?;
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(printable(line.trim().trim_matches(['"', '\''])))
        };
        let id = value("ID=")?;
        Some(match value("VERSION_ID=") {
            Some(version) => format!("{id} {version}"),
            None => id,
        })
    }

    fn debian(&mut self) {
        let parts = self.files.files_below(DPKG_PARTS);
        let parts = parts.into_iter().map(|(path, _)| path);
        let parts: Vec<String> = parts.filter(|path| !path.ends_with(".md5sums")).collect();
        for path in std::iter::once(DPKG.to_owned()).chain(parts) {
            let keys = ["Package: ", "Version: ", "Architecture: "];
            self.paragraphs(&path, PackageKind::Deb, keys);
        }
    }

    fn alpine(&mut self) {
        for path in APK {
            self.paragraphs(path, PackageKind::Apk, ["P:", "V:", "A:"]);
        }
    }

    /// Reads a database with a paragraph for each package, by how the lines with its name, version
    /// and architecture begin.
    fn paragraphs(&mut self, path: &str, kind: PackageKind, keys: [&str; 3]) {
        let text = self.text(path).unwrap_or_default();
        for paragraph in text.split("\n\n") {
            // What dpkg removed and left settings of is listed too.
            let status = field(paragraph, "Status: ");
            let is_there = status.is_none_or(|status| status.ends_with(" installed"));
            let [name, version, architecture] = keys.map(|key| field(paragraph, key));
            let named = name.zip(version).filter(|_| is_there);
            self.add(
                kind,
                named.map(|(name, version)| (name, version, architecture)),
            );
        }
    }

    /// Only rpm's own libraries and `SQLite` read its databases: that there is one is said.
    fn rpm(&mut self) {
        let databases = ["rpmdb.sqlite", "Packages", "Packages.db"];
        for folder in RPM {
            let paths = databases.map(|name| format!("{folder}/{name}"));
            let found = paths
                .into_iter()
                .find(|path| self.files.file(path).is_some());
            self.unread
                .extend(found.map(|path| format!("/{path}: databases of rpm are not read")));
        }
    }

    fn python_and_conda(&mut self) {
        let is_python = |path: &str| {
            path.contains("-packages/")
                && (path.ends_with(".dist-info/METADATA") || path.ends_with(".egg-info/PKG-INFO"))
        };
        let is_conda = |path: &str| {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            folder.ends_with("conda-meta")
                && std::path::Path::new(path)
                    .extension()
                    .is_some_and(|end| end == "json")
        };
        let wanted = |path: &&str| is_python(path) || is_conda(path);
        let paths = self.files.paths().filter(wanted);
        for path in paths.map(str::to_owned).collect::<Vec<_>>() {
            let Some(text) = self.text(&path) else {
                continue;
            };
            if is_conda(&path) {
                let json: Value = serde_json::from_str(&text).unwrap_or_default();
                let value = |key: &str| json[key].as_str();
                let read = || Some((value("name")?, value("version")?, value("subdir")));
                self.add(PackageKind::Conda, read());
            } else {
                let head = text.split("\n\n").next().unwrap_or_default();
                // As package indexes write it, whatever its own metadata does.
                let name =
                    field(head, "Name: ").map(|name| name.to_lowercase().replace(['_', '.'], "-"));
                let read = || Some((name.as_deref()?, field(head, "Version: ")?, None));
                self.add(PackageKind::Pip, read());
            }
        }
    }

    fn cuda(&mut self) {
        let Some(text) = self.text(CUDA) else {
            return;
        };
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let version = json["cuda"]["version"].as_str();
        self.add(
            PackageKind::Generic,
            version.map(|version| ("cuda", version, None)),
        );
    }
}

/// The value in the line of a paragraph that begins with `key`.
fn field<'a>(paragraph: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = paragraph.lines();
    lines.find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// Names and versions reach terminals and reports.
fn printable(text: &str) -> String {
    let shown = text.chars().filter(|c| !c.is_control());
    shown.take(200).collect()
}

fn bytes(place: &Place) -> io::Result<Vec<u8>> {
    if place.size_bytes > MAX_BYTES {
        return Err(io::Error::other("too large for what it is to be"));
    }
    place.bytes()
}
