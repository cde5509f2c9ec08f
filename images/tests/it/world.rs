//! A small world to build images in: libraries of a few KiB in libtorch's place, a program in the
//! scenario's, a base with this machine's C library. No network, no wheels.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use images::{Assembly, Cache, Catalog, Digest, Image, LockUse, Result, Sources, assemble};
use tempfile::TempDir;

/// The libraries of the base: what the small program needs.
pub(crate) const BASE_LIBRARIES: [&str; 2] = ["libc.so.6", "ld-linux-x86-64.so.2"];
const HOST_LIBRARIES: &str = "/lib/x86_64-linux-gnu";

/// What stands for libc10: the mangled name shows the C++11 string ABI, as in the real one.
const C10: &str = "int c10_answer(void) { return 41; }\n\
                   void _ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcEE(void) {}\n";
const TORCH: &str = "int c10_answer(void);\nint torch_answer(void) { return c10_answer() + 1; }\n";
const SCENARIO: &str = "#include <stdio.h>\n#include <stdlib.h>\nint torch_answer(void);\n\
                        int main(void) { printf(\"answer %d, libraries in %s\\n\", torch_answer(), \
                        getenv(\"LD_LIBRARY_PATH\")); return 0; }\n";

pub(crate) const SPEC: &str = "\
version: 1
description: A small world
base: {archive: base.tar}
libtorch: {version: 2.11.0, flavour: cpu, from: wheels}
environment: {GREETING: hello}
";

pub(crate) struct World {
    folder: TempDir,
    /// An ID of its own in every image, so that tests do not share any in the engine.
    pub(crate) image: String,
}

impl World {
    pub(crate) fn new(image: &str) -> Self {
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
            image: image.to_owned(),
        };
        fs::create_dir_all(world.path("torch/lib")).unwrap();
        fs::write(world.path("torch/build-version"), "2.11.0\n").unwrap();
        // Layers of its own too: an engine would find them among those of another test's image.
        let named = format!("{C10}const char *c10_world = \"{image}\";\n");
        world.library("libc10.so", &named, &[]);
        world.library("libtorch_cpu.so", TORCH, &["-lc10"]);
        world.program(SCENARIO);
        world.base(&BASE_LIBRARIES);
        world.spec(SPEC);
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn spec(&self, yaml: &str) {
        fs::create_dir_all(self.path("images")).unwrap();
        fs::write(self.path(&format!("images/{}.yaml", self.image)), yaml).unwrap();
    }

    fn compile(&self, name: &str, source: &str, arguments: &[&str]) {
        let file = self.path("source.c");
        fs::write(&file, source).unwrap();
        let status = Command::new("cc")
            .arg(&file)
            .arg("-o")
            .arg(self.path(name))
            .arg("-L")
            .arg(self.path("torch/lib"))
            // Newer linkers drop what is not referred to, and complain about what they cannot find.
            .args([
                "-Wl,--no-as-needed",
                "-Wl,--allow-shlib-undefined",
                "-Wl,--build-id=none",
            ])
            .args(arguments)
            .status()
            .expect("the tests compile small libraries with `cc`: install gcc");
        assert!(status.success(), "compiling {name}");
    }

    pub(crate) fn library(&self, name: &str, source: &str, links: &[&str]) {
        let mut arguments = vec!["-shared", "-fPIC"];
        let soname = format!("-Wl,-soname,{name}");
        arguments.push(&soname);
        arguments.extend(links);
        self.compile(&format!("torch/lib/{name}"), source, &arguments);
    }

    /// What stands for the workload.
    pub(crate) fn program(&self, source: &str) {
        self.compile("scenario", source, &["-ltorch_cpu", "-lc10"]);
    }

    /// A base with these libraries of this machine, in a merged `/usr`.
    pub(crate) fn base(&self, libraries: &[&str]) {
        self.base_with(libraries, &[]);
    }

    /// The same with more files: path in the base, and content.
    pub(crate) fn base_with(&self, libraries: &[&str], files: &[(&str, &[u8])]) {
        let mut archive = tar::Builder::new(File::create(self.path("images-base.tar")).unwrap());
        archive.mode(tar::HeaderMode::Deterministic);
        for (link, target) in [("lib", "usr/lib"), ("lib64", "usr/lib")] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            archive.append_link(&mut header, link, target).unwrap();
        }
        for library in libraries {
            let from = fs::canonicalize(Path::new(HOST_LIBRARIES).join(library)).unwrap();
            // The loader is asked for as /lib64/…, the rest is found in the default folder.
            let folder = if library.starts_with("ld-") {
                "usr/lib"
            } else {
                "usr/lib/x86_64-linux-gnu"
            };
            archive
                .append_path_with_name(from, format!("{folder}/{library}"))
                .unwrap();
        }
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o755);
            archive.append_data(&mut header, path, *content).unwrap();
        }
        archive.finish().unwrap();
        drop(archive);
        fs::create_dir_all(self.path("images")).unwrap();
        fs::rename(self.path("images-base.tar"), self.path("images/base.tar")).unwrap();
    }

    pub(crate) fn cache(&self) -> Cache {
        Cache::at(&self.path("cache")).unwrap()
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources {
            workspace: self.path("."),
            target: self.path("target"),
            libtorch: Some(self.path("torch")),
            scenario_binary: Some(self.path("scenario")),
            base_archive: None,
            locks: LockUse::Preferred,
            cache_bytes: u64::MAX,
        }
    }

    pub(crate) fn read(&self) -> Result<Image> {
        Catalog::new(&self.path("images")).image(&self.image)
    }

    pub(crate) fn assemble(&self) -> Result<Assembly> {
        self.assemble_with(LockUse::Preferred)
    }

    pub(crate) fn assemble_with(&self, locks: LockUse) -> Result<Assembly> {
        let sources = Sources {
            locks,
            ..self.sources()
        };
        assemble(&self.read()?, &sources, &self.cache())
    }
}

/// Checks that an error says all of this.
/// What an image is made of below its scenario binary.
pub(crate) fn parts(assembly: &Assembly) -> record::ImageParts {
    assembly.facts.parts.clone().unwrap()
}

/// The digests of its layers.
pub(crate) fn layers(assembly: &Assembly) -> Vec<Digest> {
    assembly.lock.layers().map(|layer| layer.digest).collect()
}

pub(crate) fn says(error: &impl std::fmt::Display, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}
