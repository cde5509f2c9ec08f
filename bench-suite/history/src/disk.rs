//! Files of a history: their names, and reading and writing them.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{HistoryError, key::matches};

/// A larger file is of no session; some, such as `/dev/zero`, have no end.
const MOST_BYTES: u64 = 64 << 20;
/// File systems take names of up to 255 bytes.
const LONGEST_NAME: usize = 200;
/// What of a name is written as in a URI.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-');
/// Stands between the suites or tracks of one session, and before a name that stands for a long one.
const AND: char = '+';

/// Reads files, each in its turn, and says what is wrong with the others.
pub(crate) fn read_all<T: Send>(
    places: &[PathBuf],
    parse: impl Fn(&PathBuf) -> Result<T, String> + Send + Sync,
    left_out: &mut Vec<String>,
) -> Vec<T> {
    let all: Vec<Result<T, String>> = places.par_iter().map(parse).collect();
    let read = all.into_iter().zip(places).filter_map(|(one, path)| {
        one.map_err(|why| left_out.push(format!("{} left out: {why}", path.display())))
            .ok()
    });
    read.collect()
}

/// The files of a tree whose folders fit, level by level; hidden ones are none.
pub(crate) fn files(
    folder: &Path,
    levels: &[&Option<String>],
    left_out: &mut Vec<String>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return found,
        Err(error) => {
            left_out.push(format!("{} left out: {error}", folder.display()));
            return found;
        }
    };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let why = match levels {
            _ if name.starts_with('.') => continue,
            [level, below @ ..] if is_folder => {
                let fits = |pattern: &String| may_have(&name, pattern);
                if level.as_ref().is_none_or(fits) {
                    found.extend(files(&path, below, left_out));
                }
                continue;
            }
            [] if !is_folder && path.extension() == Some(OsStr::new("json")) => {
                found.push(path);
                continue;
            }
            [] => "not a .json file",
            _ => "it is a file; expected a folder",
        };
        left_out.push(format!("{} left out: {why}", path.display()));
    }
    found.sort_unstable();
    found
}

/// The folders so many levels below one; hidden ones are none.
pub(crate) fn folders(folder: &Path, levels: usize) -> Vec<PathBuf> {
    if levels == 0 {
        return vec![folder.to_owned()];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let inner = entries.filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && !entry.file_name().to_string_lossy().starts_with('.')
    });
    let mut found: Vec<PathBuf> = inner
        .flat_map(|entry| folders(&entry.path(), levels - 1))
        .collect();
    found.sort_unstable();
    found
}

/// The bytes of a file that is not larger than any should be.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    regular_file::read(path, MOST_BYTES).map_err(|error| error.to_string())
}

/// Writes a file whole, and its folder where there is none.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), HistoryError> {
    let attempt = || {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        regular_file::replace(path, |file| file.write_all(&text))
    };
    attempt().map_err(|source| HistoryError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Removes a file, which may be gone already.
pub(crate) fn remove(path: &Path) -> Result<(), HistoryError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(HistoryError::Write {
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

pub(crate) fn file_name(name: &str) -> String {
    folder_name([name]) + ".json"
}

/// The folder of these names: letters, digits, `.`, `_` and `-` as they are, everything else as in a
/// URI, joined by `+`. `%` is the empty name.
pub(crate) fn folder_name<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut name = String::new();
    for one in names {
        if !name.is_empty() {
            name.push(AND);
        }
        let visible = one.strip_prefix('.');
        name.push_str(visible.map_or("", |_| "%2E"));
        name.extend(utf8_percent_encode(visible.unwrap_or(one), ESCAPED));
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > LONGEST_NAME {
        let digest = Sha256::digest(name.as_bytes());
        let short: [u8; 8] = std::array::from_fn(|at| digest[at]);
        name = format!("{AND}{:016x}", u64::from_be_bytes(short));
    }
    name
}

/// Whether a folder may have something in it whose name fits the pattern.
fn may_have(folder: &str, pattern: &str) -> bool {
    let folder = if folder == "%" { "" } else { folder };
    let unescaped = |name| percent_decode_str(name).decode_utf8_lossy().into_owned();
    let mut names = folder.split(AND);
    folder.starts_with(AND) || names.any(|name| matches(pattern, &unescaped(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_found_by_each_of_its_names() {
        let long = "x".repeat(300);
        for (names, expect) in [
            (&["gpu-1"][..], "gpu-1"),
            (&["main", "torch-cu"], "main+torch-cu"),
            (&["a/../b", ".hidden"], "a%2F..%2Fb+%2Ehidden"),
            (&["über + mehr"], "%C3%BCber%20%2B%20mehr"),
            (&["50%"], "50%25"),
            (&[""], "%"),
            (&[], "%"),
        ] {
            let folder = folder_name(names.iter().copied());
            assert_eq!(folder, expect);
            for name in names {
                assert!(may_have(&folder, name), "{name}");
                assert!(!may_have(&folder, "other*"), "{name}");
            }
        }
        let short = folder_name([&*long]);
        assert!(short.len() < 20 && may_have(&short, &long), "{short}");
    }
}
