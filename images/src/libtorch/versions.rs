//! Versions of libraries, read out of the files themselves.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
};

use memchr::memmem;

use crate::{
    Digest, Libtorch, Result,
    error::at,
    libtorch::{Library, answers::QUESTIONS},
    store::{Cache, read_note},
};

/// A version that a library holds as text.
struct Rule {
    /// How the library's file name starts.
    file: &'static str,
    /// What the version is of.
    of: &'static str,
    /// The text before the version.
    before: &'static str,
    /// What stands between the version's numbers.
    between: u8,
}

/// The compiler inside NVRTC carries the toolkit's version; cuDNN's graph library names a table
/// by its version; NCCL prints its own.
const RULES: [Rule; 3] = [
    Rule {
        file: "libnvrtc.so.",
        of: "CUDA toolkit",
        before: "Cuda compilation tools, release",
        between: b'.',
    },
    Rule {
        file: "libcudnn_graph.so.",
        of: "cuDNN",
        before: "cudnn_version_",
        between: b'_',
    },
    Rule {
        file: "libnccl.so.",
        of: "NCCL",
        before: "NCCL version ",
        between: b'.',
    },
];

/// The versions that a libtorch's libraries state: as text, or by what their code would answer. Read
/// once a file.
pub(crate) fn of(libtorch: &Libtorch, cache: &Cache) -> Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::from([("torch".to_owned(), libtorch.version.clone())]);
    for library in &libtorch.libraries {
        let starts = |start: &str| library.name.starts_with(start);
        let found = if let Some(rule) = RULES.iter().find(|rule| starts(rule.file)) {
            let read = || {
                let file = File::open(&library.path).map_err(at(&library.path))?;
                find(file, rule).map_err(at(&library.path))
            };
            (rule.of, once(library, rule.before, cache, read)?)
        } else if let Some(question) = QUESTIONS.iter().find(|one| starts(one.file)) {
            let ask = || question.ask(&library.path, &library.name);
            (question.of, once(library, question.of, cache, ask)?)
        } else {
            continue;
        };
        if let (of, Some(version)) = found {
            versions.insert(of.to_owned(), version);
        }
    }
    // Where the code is another than is known, the file names carry the major version.
    for (start, of) in [
        ("libcudart.so.", "CUDA runtime"),
        ("libcublas.so.", "cuBLAS"),
    ] {
        let mut names = libtorch.libraries.iter().map(|library| &library.name);
        if let Some(version) = names.find_map(|name| name.strip_prefix(start)) {
            versions
                .entry(of.to_owned())
                .or_insert_with(|| version.to_owned());
        }
    }
    Ok(versions)
}

/// What `read` finds in a library, kept under its digest.
fn once(
    library: &Library,
    what: &str,
    cache: &Cache,
    read: impl FnOnce() -> Result<Option<String>>,
) -> Result<Option<String>> {
    let digest = cache.digest_of(&library.path, &crate::Silent)?;
    let key = format!("version {what} {digest}");
    let note = cache.note_path("hashes", Digest::of(key.as_bytes()).hex().as_bytes());
    if let Some(known) = read_note::<Option<String>>(&note) {
        return Ok(known);
    }
    let found = read()?;
    cache.write_note(&note, &found)?;
    Ok(found)
}

/// Finds the version in a file without holding the file.
fn find(mut file: impl Read, rule: &Rule) -> io::Result<Option<String>> {
    const AFTER_BYTES: usize = 64;
    let overlap = rule.before.len() + AFTER_BYTES;
    let before = memmem::Finder::new(rule.before);
    let mut buffer = Vec::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut piece)?;
        buffer.extend_from_slice(&piece[..n]);
        for start in before.find_iter(&buffer) {
            let after = &buffer[start + rule.before.len()..];
            if (after.len() >= AFTER_BYTES || n == 0)
                && let Some(version) = version_at(after, rule.between)
            {
                return Ok(Some(version));
            }
        }
        if n == 0 {
            return Ok(None);
        }
        let keep = buffer.len().saturating_sub(overlap);
        buffer.drain(..keep);
    }
}

/// The last run of at least three numbers in the text that starts here.
fn version_at(bytes: &[u8], between: u8) -> Option<String> {
    let end = bytes
        .iter()
        .position(|byte| !(b' '..=b'~').contains(byte))
        .unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end.min(64)]).ok()?;
    text.split(|c: char| !c.is_ascii_digit() && c != char::from(between))
        .map(|run| run.trim_matches(char::from(between)))
        .map(|run| run.split(char::from(between)).take(4).collect::<Vec<_>>())
        .find(|numbers| numbers.len() >= 3 && numbers.iter().all(|n| !n.is_empty()))
        .map(|numbers| numbers.join("."))
}

/// The version of glibc in a base, and torch's libraries' versions together.
pub(crate) fn with_glibc(
    mut versions: BTreeMap<String, String>,
    glibc: Option<crate::Glibc>,
) -> BTreeMap<String, String> {
    if let Some(glibc) = glibc {
        versions.insert("glibc".to_owned(), glibc.to_string());
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The rule for a file of this name.
    fn rule_for(path: &Path) -> Option<&'static Rule> {
        let name = path.file_name()?.to_str()?;
        RULES.iter().find(|rule| name.starts_with(rule.file))
    }

    fn check(file: &str, content: &str, expect: Option<&str>) {
        let rule = rule_for(Path::new(file)).unwrap();
        for padding in [0, (1 << 20) - 20, 3 << 20] {
            let mut bytes = vec![0; padding];
            bytes.extend_from_slice(content.as_bytes());
            bytes.extend_from_slice(&[0; 100]);
            assert_eq!(
                find(bytes.as_slice(), rule).unwrap().as_deref(),
                expect,
                "{file} {padding}"
            );
        }
    }

    #[test]
    fn a_library_whose_code_is_not_known_says_its_major_version_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(&folder.path().join("cache")).unwrap();
        let library = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            Library {
                name: name.to_owned(),
                path,
                size_bytes: name.len() as u64,
            }
        };
        let names = ["libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13"];
        let libtorch = Libtorch {
            version: "2.11.0".to_owned(),
            flavour: crate::Flavour::Cuda,
            name: "2.11.0+cu130".to_owned(),
            cxx11_abi: true,
            build_folder: None,
            libraries: names.map(library).to_vec(),
            origin: crate::libtorch::Origin::Folder(folder.path().to_owned()),
        };
        for _ in 0..2 {
            let versions = of(&libtorch, &cache).unwrap();
            let told = ["CUDA runtime", "cuBLAS", "torch"].map(|name| versions[name].as_str());
            assert_eq!(told, ["13", "13", "2.11.0"]);
        }
    }

    #[test]
    fn versions_are_read_as_libraries_write_them() {
        check(
            "libnccl.so.2",
            "NCCL version 2.28.9+cuda13.0",
            Some("2.28.9"),
        );
        check(
            "libnvrtc.so.13",
            "Cuda compilation tools, release 13.0, V13.0.88",
            Some("13.0.88"),
        );
        check(
            "libcudnn_graph.so.9",
            "cudnn_version_9_19_0_56_",
            Some("9.19.0.56"),
        );
        check(
            "libcudnn_graph.so.9",
            "cudnn_version_9_1_0_70_c34102860_e0",
            Some("9.1.0.70"),
        );
        check("libnccl.so.2", "NCCL version mismatch with remote", None);
    }
}
