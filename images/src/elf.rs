//! What an ELF file says about itself: its name, what it needs, and which glibc.

use std::{collections::BTreeSet, fs::File, path::Path};

use object::{
    Endianness, ReadCache, ReadRef,
    elf::{self, FileHeader64},
    read::elf::{FileHeader, ProgramHeader, SectionTable},
};

use crate::{Error, Glibc, Result, error::at};

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

/// Whether a file name is that of a shared library: `libx.so`, `libx.so.12`.
pub(crate) fn is_library(name: &str) -> bool {
    name.starts_with("lib")
        && name.split_once(".so").is_some_and(|(_, rest)| {
            rest.is_empty()
                || (rest.starts_with('.') && rest.bytes().all(|b| b == b'.' || b.is_ascii_digit()))
        })
}

/// Why a file cannot start as a program on x86-64 Linux; `None` where it can.
pub(crate) fn why_no_program(path: &Path) -> Result<Option<String>> {
    let cache = ReadCache::new(File::open(path).map_err(at(path))?);
    let data = &cache;
    let Ok(start) = data.read_bytes_at(0, elf::ELFMAG.len() as u64 + 1) else {
        return Ok(Some("it is too short for a program".to_owned()));
    };
    if !start.starts_with(&elf::ELFMAG) {
        return Ok(Some("it is no ELF file".to_owned()));
    }
    if start.last() == Some(&elf::ELFCLASS32.0) {
        return Ok(Some("it is for CPUs with 32 bits".to_owned()));
    }
    let starts = || -> object::Result<Option<String>> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let machine: elf::Machine = header.e_machine(endian);
        if machine != elf::EM_X86_64 {
            let name = match machine {
                elf::EM_AARCH64 => "64-bit ARM".to_owned(),
                elf::EM_RISCV => "RISC-V".to_owned(),
                elf::EM_PPC64 => "64-bit POWER".to_owned(),
                other => format!("machine {} in ELF's count", other.0),
            };
            return Ok(Some(format!("it is for {name}")));
        }
        let segments = header.program_headers(endian, data)?;
        let has_loader = segments
            .iter()
            .any(|segment| segment.p_type(endian) == elf::PT_INTERP);
        Ok((!has_loader).then(|| {
            "it is a library, an object file or linked statically, and libtorch is a shared library"
                .to_owned()
        }))
    };
    Ok(starts().unwrap_or_else(|error| Some(format!("its ELF header cannot be read: {error}"))))
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

    #[test]
    fn shared_libraries_are_told_by_name() {
        for name in [
            "libc10.so",
            "libcudart.so.13",
            "libgomp-a34b3233.so.1",
            "libz.so.1.2.3",
        ] {
            assert!(is_library(name), "{name}");
        }
        for name in [
            "_C.cpython-311-x86_64-linux-gnu.so",
            "libcudart_static.a",
            "libshm",
            "libx.so.txt",
        ] {
            assert!(!is_library(name), "{name}");
        }
    }
}
