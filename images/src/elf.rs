//! What an ELF file says about itself: its name, what it needs, and which glibc.

use std::{collections::BTreeSet, fmt, fs::File, path::Path, str::FromStr};

use object::{
    Endianness, ReadCache, ReadRef,
    elf::{self, FileHeader64},
    read::elf::{FileHeader, SectionTable},
};

use crate::{Error, Result, error::at};

/// What a shared library or program says in its dynamic section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    /// The name that others ask for, `DT_SONAME`.
    pub(crate) soname: Option<String>,
    /// What it asks for, `DT_NEEDED`.
    pub(crate) needed: Vec<String>,
    /// The newest `GLIBC_x.y` symbol version that it needs.
    pub(crate) glibc_needed: Option<Glibc>,
    /// The newest `GLIBC_x.y` symbol version that it offers: glibc's own libc.so.6 alone.
    pub(crate) glibc_offered: Option<Glibc>,
}

/// A glibc version, as in the symbol version `GLIBC_2.36`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glibc {
    /// 2, so far.
    pub major: u32,
    /// The release.
    pub minor: u32,
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Glibc {
    type Err = ();

    /// Reads a symbol version. `GLIBC_PRIVATE` and the like are none; of `GLIBC_2.2.5`
    /// the first two numbers count.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.strip_prefix("GLIBC_").ok_or(())?.split('.');
        let mut next = || numbers.next().and_then(|n| n.parse().ok()).ok_or(());
        Ok(Self {
            major: next()?,
            minor: next()?,
        })
    }
}

impl Dynamic {
    /// Reads a file's dynamic section; of a large file only the parts that matter.
    pub(crate) fn of_file(path: &Path) -> Result<Self> {
        let cache = ReadCache::new(File::open(path).map_err(at(path))?);
        Self::read(&cache).map_err(|error| Error::NotElf {
            file: path.to_owned(),
            cause: error.to_string(),
        })
    }

    /// Reads the dynamic section of a file's bytes.
    pub(crate) fn of_bytes(name: &str, bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(|error| Error::NotElf {
            file: name.into(),
            cause: error.to_string(),
        })
    }

    fn read<'data, R: ReadRef<'data>>(data: R) -> object::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let mut dynamic = Self::default();
        let table = sections.dynamic_table(endian, data)?;
        for entry in &table {
            if entry.tag == elf::DT_SONAME {
                dynamic.soname = Some(text(table.string(entry)?));
            } else if entry.tag == elf::DT_NEEDED {
                dynamic.needed.push(text(table.string(entry)?));
            }
        }
        dynamic.glibc_needed = newest(&needed_versions(&sections, endian, data)?);
        dynamic.glibc_offered = newest(&offered_versions(&sections, endian, data)?);
        Ok(dynamic)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn newest(versions: &BTreeSet<String>) -> Option<Glibc> {
    versions.iter().filter_map(|name| name.parse().ok()).max()
}

fn needed_versions<'data, R: ReadRef<'data>>(
    sections: &SectionTable<'data, FileHeader64<Endianness>, R>,
    endian: Endianness,
    data: R,
) -> object::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let Some((mut needs, strings)) = sections.gnu_verneed(endian, data)? else {
        return Ok(names);
    };
    let strings = sections.strings(endian, data, strings)?;
    while let Some((_, mut versions)) = needs.next()? {
        while let Some(version) = versions.next()? {
            names.insert(text(version.name(endian, strings)?));
        }
    }
    Ok(names)
}

fn offered_versions<'data, R: ReadRef<'data>>(
    sections: &SectionTable<'data, FileHeader64<Endianness>, R>,
    endian: Endianness,
    data: R,
) -> object::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let Some((mut offers, strings)) = sections.gnu_verdef(endian, data)? else {
        return Ok(names);
    };
    let strings = sections.strings(endian, data, strings)?;
    while let Some((_, mut versions)) = offers.next()? {
        if let Some(version) = versions.next()? {
            names.insert(text(version.name(endian, strings)?));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_binary_is_read() {
        let dynamic = Dynamic::of_file(&std::env::current_exe().unwrap()).unwrap();
        assert!(
            dynamic.needed.contains(&"libc.so.6".to_owned()),
            "{dynamic:?}"
        );
        let glibc = dynamic.glibc_needed.unwrap();
        assert!(
            glibc > Glibc { major: 2, minor: 2 } && glibc.major == 2,
            "{glibc}"
        );
        assert_eq!(dynamic.glibc_offered, None);
    }

    #[test]
    fn versions_compare_as_numbers() {
        let parse = |text: &str| text.parse::<Glibc>();
        assert!(parse("GLIBC_2.4").unwrap() < parse("GLIBC_2.36").unwrap());
        assert_eq!(parse("GLIBC_2.2.5").unwrap().to_string(), "2.2");
        assert_eq!(parse("GLIBC_PRIVATE"), Err(()));
        assert_eq!(parse("GLIBCXX_3.4"), Err(()));
    }

    #[test]
    fn what_is_no_elf_file_is_named() {
        let error = Dynamic::of_bytes("libx.so", b"not an ELF file").unwrap_err();
        assert!(error.to_string().contains("libx.so"), "{error}");
    }
}
