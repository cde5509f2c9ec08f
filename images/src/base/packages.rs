//! Which packages a base holds, read out of its files: nothing in it is run.

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
};

use rusqlite::{Connection, OpenFlags};
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
pub(crate) fn read(files: &Filesystem, scratch: &std::path::Path) -> (BaseContents, Vec<String>) {
    let mut reader = Reader {
        files,
        found: BTreeSet::new(),
        unread: Vec::new(),
    };
    reader.debian();
    reader.alpine();
    reader.rpm(scratch);
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
            let Some(text) = self.text(&path) else {
                continue;
            };
            for paragraph in text.split("\n\n") {
                let value = |key| field(paragraph, key);
                // What was removed and left settings behind is listed too.
                let is_there =
                    value("Status: ").is_none_or(|status| status.ends_with(" installed"));
                let read = || {
                    Some((
                        value("Package: ")?,
                        value("Version: ")?,
                        value("Architecture: "),
                    ))
                };
                self.add(PackageKind::Deb, is_there.then(read).flatten());
            }
        }
    }

    fn alpine(&mut self) {
        for path in APK {
            let Some(text) = self.text(path) else {
                continue;
            };
            for paragraph in text.split("\n\n") {
                let value = |key| field(paragraph, key);
                let read = || Some((value("P:")?, value("V:")?, value("A:")));
                self.add(PackageKind::Apk, read());
            }
        }
    }

    fn rpm(&mut self, scratch: &std::path::Path) {
        for folder in RPM {
            let file = |name: &str| self.files.file(&format!("{folder}/{name}"));
            if let Some(place) = file("rpmdb.sqlite") {
                let copy = scratch.join("rpmdb.sqlite");
                let headers = place
                    .extract(&copy, |_| {})
                    .map_err(|error| error.to_string())
                    .and_then(|_| {
                        rpm_headers(&copy, |header| self.found.extend(rpm_package(header)))
                    });
                if let Err(error) = headers {
                    let error = format!("/{folder}/rpmdb.sqlite: {error}");
                    self.unread.push(printable(&error));
                }
            } else if let Some(old) = ["Packages", "Packages.db"]
                .into_iter()
                .find(|name| file(name).is_some())
            {
                self.unread.push(format!(
                    "/{folder}/{old}: a database of rpm before 4.16 (BerkeleyDB or ndb), and only \
                     rpmdb.sqlite is read"
                ));
            }
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
        let paths: Vec<String> = self
            .files
            .paths()
            .filter(wanted)
            .map(str::to_owned)
            .collect();
        for path in paths {
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
                let name = field(head, "Name: ").map(python_name);
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

/// As package indexes write it, whatever its own metadata does.
fn python_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
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
    let mut bytes = Vec::new();
    place.open()?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Hands on the headers in a database of rpm's. The database is anybody's: a view may compute rows
/// without end, and pages that lead to each other show one row again and again.
fn rpm_headers(file: &std::path::Path, mut found: impl FnMut(&[u8])) -> Result<(), String> {
    const MOST_PACKAGES: u32 = 100_000;
    const MOST_HEADER_BYTES: u32 = 16 << 20;
    const MOST_READ_BYTES: usize = 1 << 30;
    let words = |error: rusqlite::Error| error.to_string();
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.map_err(words)?;
    let stored = "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' \
                  AND name = 'Packages' AND type = 'table'";
    let computed = "SELECT count(*) FROM pragma_table_xinfo('Packages') WHERE hidden != 0";
    let count = |query: &str| database.query_row(query, [], |row| row.get::<_, u32>(0));
    if count(stored).map_err(words)? != 1 || count(computed).map_err(words)? != 0 {
        return Err("no table `Packages` is stored in it".to_owned());
    }
    let query = format!(
        "SELECT CASE WHEN length(blob) <= {MOST_HEADER_BYTES} THEN blob END FROM Packages \
         LIMIT {MOST_PACKAGES} + 1"
    );
    let mut statement = database.prepare(&query).map_err(words)?;
    let mut rows = statement.query([]).map_err(words)?;
    let (mut packages, mut bytes) = (0, 0);
    while let Some(row) = rows.next().map_err(words)? {
        // What is no header of a package's is none.
        let header = row.get_ref(0).map_err(words)?.as_blob().unwrap_or_default();
        packages += 1;
        bytes += header.len();
        if packages > MOST_PACKAGES || bytes > MOST_READ_BYTES {
            return Err("it has no end".to_owned());
        }
        found(header);
    }
    Ok(())
}

/// Reads a header of rpm's: the numbers of entries and of data bytes, the entries (tag, type,
/// offset, count), the data.
fn rpm_package(header: &[u8]) -> Option<BasePackage> {
    const NAME: u32 = 1000;
    const VERSION: u32 = 1001;
    const RELEASE: u32 = 1002;
    const EPOCH: u32 = 1003;
    const ARCHITECTURE: u32 = 1022;
    let number = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(u32::from_be_bytes(four))
    };
    let count = usize::try_from(number(header, 0)?).ok()?;
    let entries = header.get(8..count.checked_mul(16)?.checked_add(8)?)?;
    let data = &header[8 + entries.len()..];
    let place = |wanted: u32| {
        let entry = entries
            .chunks_exact(16)
            .find(|entry| number(entry, 0) == Some(wanted))?;
        usize::try_from(number(entry, 8)?).ok()
    };
    let text = |tag: u32| {
        let text = data.get(place(tag)?..)?.split(|byte| *byte == 0).next()?;
        Some(printable(&String::from_utf8_lossy(text)))
    };
    let epoch = place(EPOCH).and_then(|at| number(data, at)).unwrap_or(0);
    let version = format!("{}-{}", text(VERSION)?, text(RELEASE)?);
    Some(BasePackage {
        kind: PackageKind::Rpm,
        name: text(NAME)?,
        version: match epoch {
            0 => version,
            epoch => format!("{epoch}:{version}"),
        },
        architecture: text(ARCHITECTURE),
    })
}
