//! The archive that a machine without a toolchain unpacks: the same bytes from any folder, and a
//! list of checksums by which the program in it knows what was changed since.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Component, Path},
};

use flate2::{Compression, GzBuilder};

use crate::{
    Digest, Error, Glibc, Result, atomic_write,
    elf::{Dynamic, why_no_program},
    error::at,
    oci::layer::{Node, Tree},
};

/// The list of checksums, in the form of `sha256sum`.
const SUMS: &str = "SHA256SUMS";
/// Debian 12's, the oldest system that the program is for.
const GLIBC_FLOOR: Glibc = Glibc {
    major: 2,
    minor: 36,
};
/// What every Debian and Ubuntu has: glibc's libraries and the unwinder.
const EVERYWHERE: [&str; 4] = [
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
];

/// Files that are packed into one folder.
#[derive(Debug)]
pub struct Package {
    folder: String,
    tree: Tree,
    sums: BTreeMap<String, Digest>,
}

impl Package {
    /// Nothing yet, in a folder of this name.
    #[must_use]
    pub fn new(folder: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            tree: Tree::default(),
            sums: BTreeMap::new(),
        }
    }

    /// Adds a file that everybody may read.
    pub fn add(&mut self, path: &str, content: Vec<u8>) {
        self.insert(path, content, 0o644);
    }

    /// Adds a file that everybody may run.
    pub fn add_program(&mut self, path: &str, content: Vec<u8>) {
        self.insert(path, content, 0o755);
    }

    fn insert(&mut self, path: &str, content: Vec<u8>, mode: u32) {
        self.sums.insert(path.to_owned(), Digest::of(&content));
        let place = format!("{}/{path}", self.folder);
        self.tree.insert(&place, Node::Bytes { content, mode });
    }

    /// The archive, gzipped, with the checksums of all that was added.
    pub fn pack(mut self) -> Result<Vec<u8>> {
        let line = |(path, sum): (&String, &Digest)| format!("{}  {path}\n", sum.hex());
        let sums: String = self.sums.iter().map(line).collect();
        self.insert(SUMS, sums.into_bytes(), 0o644);
        // Neither a time nor the name of an operating system.
        let gzip = GzBuilder::new().mtime(0).operating_system(255);
        let mut to = gzip.write(Vec::new(), Compression::best());
        self.tree.write(&mut to)?;
        to.finish().map_err(at(Path::new(&self.folder)))
    }
}

/// Writes an archive, whole or not at all, and beside it `FILE.sha256` for `sha256sum --check`.
pub fn write_package(bytes: &[u8], to: &Path) -> Result<Digest> {
    let digest = Digest::of(bytes);
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let sum = format!("{}  {name}\n", digest.hex());
    let beside = to.with_file_name(format!("{name}.sha256"));
    for (file, content) in [(to, bytes), (&beside, sum.as_bytes())] {
        atomic_write::whole(file, |to| to.write_all(content).map_err(at(file)))?;
    }
    Ok(digest)
}

/// Holds what was unpacked against its checksums, the program in the folder included. A folder
/// without checksums was not unpacked, and nothing is said of it.
pub fn check_unpacked(folder: &Path, program: &str) -> Result<()> {
    let list = folder.join(SUMS);
    let changed = |file: &Path, cause: String| Error::Unpacked {
        file: file.to_owned(),
        cause,
    };
    let text = match fs::read(&list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(changed(&list, error.to_string())),
    };
    let text = String::from_utf8(text).map_err(|_| changed(&list, "it is no text".to_owned()))?;
    let mut has_program = false;
    for (number, line) in text.lines().enumerate() {
        let (sum, name) = sum_of(line).ok_or_else(|| {
            let cause = "is no checksum with the name of a file in this folder";
            changed(&list, format!("line {} {cause}", number + 1))
        })?;
        let file = folder.join(name);
        let found = Digest::of_file(&file).map_err(|error| changed(&file, error.to_string()))?;
        if found != sum {
            let cause = format!("its checksum is {}, packed was {}", found.hex(), sum.hex());
            return Err(changed(&file, cause));
        }
        has_program |= name == program;
    }
    if has_program {
        Ok(())
    } else {
        Err(changed(&list, format!("it does not name `{program}`")))
    }
}

/// A line of checksums: the digest, and a name that leads nowhere else.
fn sum_of(line: &str) -> Option<(Digest, &str)> {
    let (hex, name) = line.split_once("  ")?;
    let is_inside = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let sum = format!("sha256:{hex}").parse().ok()?;
    (is_inside && !name.is_empty()).then_some((sum, name))
}

/// The oldest glibc that a program starts with. One that would not start on a bare Debian 12 is
/// refused.
pub fn glibc_floor(program: &Path) -> Result<Glibc> {
    let no = |cause: String| Error::NotPortable {
        file: program.to_owned(),
        cause,
    };
    if let Some(cause) = why_no_program(program)? {
        return Err(no(cause));
    }
    let dynamic = Dynamic::of_file(program)?;
    let is_missing = |name: &&String| !EVERYWHERE.contains(&name.as_str());
    if let Some(library) = dynamic.needed.iter().find(is_missing) {
        return Err(no(format!("it needs {library}, which a bare Debian lacks")));
    }
    match dynamic.glibc_needed() {
        None => Err(no("it names no version of glibc".to_owned())),
        Some(glibc) if glibc > GLIBC_FLOOR => Err(no(format!(
            "it needs glibc {glibc}, and Debian 12 has {GLIBC_FLOOR}; build it on Debian 12 or older"
        ))),
        Some(glibc) => Ok(glibc),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn package() -> Package {
        let mut package = Package::new("tool-1");
        package.add_program("tool", b"#!/bin/sh\n".to_vec());
        package.add("share/man/tool.1", b"manual".to_vec());
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
        check_unpacked(&folder, "tool").unwrap();
        check_unpacked(home.path(), "tool").unwrap();
    }

    #[test]
    fn a_changed_byte_anywhere_is_found() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("x"), package().pack().unwrap()).unwrap();
        run("tar", &["-xzf", "x"], home.path());
        let folder = home.path().join("tool-1");
        for name in ["tool", "share/man/tool.1", SUMS] {
            let file = folder.join(name);
            let whole = fs::read(&file).unwrap();
            for place in 0..whole.len() {
                let mut other = whole.clone();
                other[place] ^= 1;
                fs::write(&file, &other).unwrap();
                let error = check_unpacked(&folder, "tool").unwrap_err().to_string();
                assert!(error.contains("unpack the archive again"), "{error}");
            }
            fs::remove_file(&file).unwrap();
            // Without its list it is a program that somebody has put there.
            assert_eq!(check_unpacked(&folder, "tool").is_ok(), name == SUMS);
            fs::write(&file, &whole).unwrap();
        }
        check_unpacked(&folder, "tool").unwrap();
        for (line, expected) in [
            ("", "does not name `tool`"),
            ("x", "line 1"),
            (&format!("{}  ../x\n", "0".repeat(64)), "line 1"),
            (&format!("{}  /etc/passwd\n", "0".repeat(64)), "line 1"),
        ] {
            fs::write(folder.join(SUMS), line).unwrap();
            let error = check_unpacked(&folder, "tool").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_program_for_newer_systems_or_with_other_libraries_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let refused = |program: &Path, expected: &str| {
            let error = glibc_floor(program).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let own = std::env::current_exe().unwrap();
        let floor = glibc_floor(&own).unwrap();
        assert!(floor <= GLIBC_FLOOR, "{floor}");
        // The version's name in the file, replaced by a newer one of the same length.
        let (old, new) = (format!("GLIBC_{floor}\0"), "GLIBC_2.99\0");
        assert_eq!(old.len(), new.len());
        let mut bytes = fs::read(&own).unwrap();
        let finder = memchr::memmem::Finder::new(&old);
        let places: Vec<usize> = finder.find_iter(&bytes).collect();
        for place in places {
            bytes[place..place + new.len()].copy_from_slice(new.as_bytes());
        }
        let newer = home.path().join("newer");
        fs::write(&newer, bytes).unwrap();
        refused(&newer, "needs glibc 2.99, and Debian 12 has 2.36");
        refused(&home.path().join("absent"), "No such file");
        let script = home.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        refused(&script, "it is no ELF file");
        let source = home.path().join("x.c");
        fs::write(&source, "int main(void) { return 0; }").unwrap();
        let words = ["x.c", "-o", "linked", "-Wl,--no-as-needed", "-lstdc++"];
        run("cc", &words, home.path());
        refused(&home.path().join("linked"), "needs libstdc++.so.6");
    }
}
