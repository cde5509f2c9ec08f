//! Versions of libraries, read out of the files themselves.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
};

use memchr::memmem;

use crate::{
    Digest, Libtorch, Result,
    cache::{Cache, read_note},
    error::at,
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

/// The versions that a libtorch's libraries state. Read once a file.
pub(crate) fn of(libtorch: &Libtorch, cache: &Cache) -> Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::from([("torch".to_owned(), libtorch.version.clone())]);
    for library in &libtorch.libraries {
        let Some(rule) = RULES
            .iter()
            .find(|rule| library.name.starts_with(rule.file))
        else {
            continue;
        };
        let digest = cache.digest_of(&library.path, &crate::Silent)?;
        let key = format!("version {} {digest}", rule.before);
        let note = cache.note_path("hashes", Digest::of(key.as_bytes()).hex().as_bytes());
        let known: Option<Option<String>> = read_note(&note);
        let version = if let Some(version) = known {
            version
        } else {
            let file = File::open(&library.path).map_err(at(&library.path))?;
            let found = find(file, rule).map_err(at(&library.path))?;
            cache.write_note(&note, &found)?;
            found
        };
        if let Some(version) = version {
            versions.insert(rule.of.to_owned(), version);
        }
    }
    // Their file names carry the major version, and nothing else states it as text.
    for (start, of) in [
        ("libcudart.so.", "CUDA runtime"),
        ("libcublas.so.", "cuBLAS"),
    ] {
        let name = libtorch
            .libraries
            .iter()
            .find_map(|library| library.name.strip_prefix(start));
        if let Some(version) = name {
            versions.insert(of.to_owned(), version.to_owned());
        }
    }
    Ok(versions)
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
