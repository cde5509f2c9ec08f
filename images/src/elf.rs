//! What an ELF file says about itself: its name, what it needs, and which glibc.

use std::{
    io::{Read, Seek},
    path::Path,
};

use object::{
    Endianness, ReadCache, ReadRef,
    elf::{self, FileHeader64},
    read::elf::{FileHeader, ProgramHeader},
};

use crate::{Error, Glibc, Result, error::at};

/// What a shared library or program says in its dynamic section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    /// The name that others ask for, `DT_SONAME`.
    pub(crate) soname: Option<String>,
    /// What it asks for, `DT_NEEDED`.
    pub(crate) needed: Vec<String>,
    /// The loader that a program names, `PT_INTERP`.
    pub(crate) interpreter: Option<String>,
    /// The newest `GLIBC_x.y` that it asks for.
    pub(crate) glibc_needed: Option<Glibc>,
    /// The newest that it offers: glibc's own libc.so.6 alone.
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
    let cache = ReadCache::new(regular_file::open(path).map_err(at(path))?);
    let data = &cache;
    let start = data.read_bytes_at(0, elf::ELFMAG.len() as u64);
    if !start.is_ok_and(|start| start == elf::ELFMAG) {
        return Ok(Some("it is no ELF file".to_owned()));
    }
    let starts = || -> object::Result<Option<String>> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let machine: elf::Machine = header.e_machine(endian);
        if machine != elf::EM_X86_64 {
            let name = if machine == elf::EM_AARCH64 {
                "64-bit ARM"
            } else {
                "another machine"
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
        let cache = ReadCache::new(regular_file::open(path).map_err(at(path))?);
        Self::read(&cache).map_err(|error| {
            let file = path.display();
            Error::Input(format!("{file} is not a readable ELF file: {error}"))
        })
    }

    /// The same of what can be read from any place in it.
    pub(crate) fn of_reader(from: impl Read + Seek) -> object::Result<Self> {
        Self::read(&ReadCache::new(from))
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
        for segment in header.program_headers(endian, data)? {
            if let Some(path) = segment.interpreter(endian, data)? {
                dynamic.interpreter = Some(text(path));
            }
        }
        if let Some((mut libraries, strings)) = sections.gnu_verneed(endian, data)? {
            let strings = sections.strings(endian, data, strings)?;
            while let Some((_, mut versions)) = libraries.next()? {
                while let Some(version) = versions.next()? {
                    // The loader goes on without a weak one.
                    if version.vna_flags.get(endian) != elf::VER_FLG_WEAK {
                        let needed = text(version.name(endian, strings)?).parse().ok();
                        dynamic.glibc_needed = dynamic.glibc_needed.max(needed);
                    }
                }
            }
        }
        if let Some((mut definitions, strings)) = sections.gnu_verdef(endian, data)? {
            let strings = sections.strings(endian, data, strings)?;
            while let Some((_, mut names)) = definitions.next()? {
                if let Some(name) = names.next()? {
                    let offered = text(name.name(endian, strings)?).parse().ok();
                    dynamic.glibc_offered = dynamic.glibc_offered.max(offered);
                }
            }
        }
        Ok(dynamic)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
        assert!(dynamic.glibc_needed > "GLIBC_2.2".parse().ok());
        assert_eq!(dynamic.glibc_offered, None);
        let loader = dynamic.interpreter.unwrap();
        assert!(loader.contains("ld-linux"), "{loader}");
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
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libx.so");
        std::fs::write(&file, b"not an ELF file").unwrap();
        let error = Dynamic::of_file(&file).unwrap_err();
        let error = error.to_string();
        insta::assert_snapshot!(error.replace(folder.path().to_str().unwrap(), "/folder"), @"/folder/libx.so is not a readable ELF file: Invalid ELF header size or alignment");
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
