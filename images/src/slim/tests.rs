//! Fatbins and libraries that are made here, slimmed and loaded.

use std::{
    fs,
    io::{Cursor, Read as _, Write as _},
    path::PathBuf,
    process::Command,
};

use super::*;
use crate::elf::Dynamic;

fn entry(kind: u16, architecture: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind.to_le_bytes());
    bytes.extend([1, 1]);
    bytes.extend(64_u32.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.resize(28, 0);
    bytes.extend(architecture.to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(payload);
    bytes
}

pub(crate) fn fatbin(entries: &[(u16, u32, &str)]) -> Vec<u8> {
    let body: Vec<u8> = entries
        .iter()
        .flat_map(|(kind, sm, payload)| entry(*kind, *sm, payload.as_bytes()))
        .collect();
    let mut bytes = MAGIC.to_vec();
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(16_u16.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn gpus(names: &[&str]) -> Vec<GpuArchitecture> {
    names.iter().map(|gpu| gpu.parse().unwrap()).collect()
}

/// The file as it comes out for these GPUs.
fn slim(content: &[u8], names: &[&str]) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    let size = content.len() as u64;
    let found = scan(&file, size, &gpus(names), |_| {}).unwrap();
    let slim = Slim::made(&file, size, &found).unwrap();
    let mut out = Vec::new();
    // In pieces of no special size.
    let mut from = Pieces::new(Cursor::new(content), &slim.pieces);
    let mut piece = [0; 4001];
    while let n @ 1.. = from.read(&mut piece).unwrap() {
        out.extend(&piece[..n]);
    }
    assert_eq!(out.len() as u64, slim.size_bytes());
    out
}

fn has(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

#[test]
fn code_of_other_gpus_is_emptied_and_nothing_else() {
    let whole = fatbin(&[
        (CUBIN, 80, "ampere"),
        (CUBIN, 90, "hopper"),
        (PTX, 90, "text of hopper"),
        (CUBIN, 100, "blackwell"),
        (4, 80, "another kind"),
    ]);
    let mut content = b"before".to_vec();
    content.extend(&whole);
    content.extend(b"after");
    let out = slim(&content, &["sm_90"]);
    assert_eq!(out.len(), content.len(), "nothing here is a shared library");
    let stays = ["before", "hopper", "another kind", "after"];
    assert!(stays.iter().all(|text| has(&out, text)));
    let goes = ["ampere", "text of", "blackwell"];
    assert!(!goes.iter().any(|text| has(&out, text)));
    let both = slim(&content, &["sm_80", "sm_90"]);
    assert!(has(&both, "ampere") && has(&both, "hopper") && !has(&both, "blackwell"));
    let code = |content: &[u8]| -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let found = gpu_code(&file, content.len() as u64).unwrap();
        found.iter().map(ToString::to_string).collect()
    };
    assert_eq!(code(&content), ["sm_80", "sm_90", "sm_100", "PTX of sm_90"]);
    assert_eq!(code(&out), ["sm_90"]);
}

#[test]
fn a_library_is_looked_through_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libx.so");
    fs::write(
        &path,
        fatbin(&[(CUBIN, 80, "ampere"), (CUBIN, 90, "hopper")]),
    )
    .unwrap();
    let cache = Cache::at(&folder.path().join("cache")).unwrap();
    let first = Slim::of(&path, &gpus(&["sm_90"]), &cache).unwrap();
    assert_eq!((first.kept_bytes, first.left_out_bytes), (6, 6));
    assert_eq!(Slim::of(&path, &gpus(&["sm_90"]), &cache).unwrap(), first);
    let other = Slim::of(&path, &gpus(&["sm_80"]), &cache).unwrap();
    assert_ne!(other.pieces, first.pieces);
}

#[test]
fn without_its_own_code_a_gpu_runs_its_generations_or_ptx() {
    let content = fatbin(&[(CUBIN, 80, "old"), (CUBIN, 86, "newer"), (PTX, 80, "text")]);
    let out = slim(&content, &["sm_89"]);
    assert!(has(&out, "newer") && !has(&out, "old") && !has(&out, "text"));
    let out = slim(&content, &["sm_90"]);
    assert!(has(&out, "text") && !has(&out, "old") && !has(&out, "newer"));
}

#[test]
fn what_only_looks_like_a_fatbin_stays() {
    let good = fatbin(&[(CUBIN, 80, "ampere")]);
    for at in [4, 6, 16 + 4] {
        let mut bad = good.clone();
        bad[at..at + 2].fill(0xff);
        assert_eq!(slim(&bad, &["sm_90"]), bad, "{at}");
    }
    for length in 0..good.len() {
        assert_eq!(slim(&good[..length], &["sm_90"]), good[..length]);
    }
}

/// As `dlopen` has it: what lies at the library's fatbin, and what two functions return.
const LOADER: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    int main(int, char **words) {
        void *library = dlopen(words[1], RTLD_NOW);
        if (!library) { fprintf(stderr, "%s", dlerror()); return 1; }
        auto start = (const char *) dlsym(library, "fatbin");
        auto end = (const char *) dlsym(library, "fatbin_end");
        auto thrown = (int (*)()) dlsym(library, "thrown");
        auto pointed = (int (*)()) dlsym(library, "pointed");
        fwrite(start, 1, end - start, stdout);
        fprintf(stderr, "%d %d", thrown(), pointed());
    }"#;

/// A library with a fatbin between its code and its data, and what needs tables from both.
fn library(folder: &Path, name: &str, section_flags: &str, fatbin: &[u8]) -> PathBuf {
    fs::write(folder.join("fatbin"), fatbin).unwrap();
    let source = format!(
        r#"
        __asm__(".section .nv_fatbin,\"{section_flags}\"\n.balign 8\n.globl fatbin\nfatbin:\n"
                ".incbin \"{}\"\n.globl fatbin_end\nfatbin_end:\n.previous");
        int value = 7;
        int *volatile pointer = &value;
        char zeros[100000];
        extern "C" int pointed() {{ return *pointer + zeros[99999]; }}
        extern "C" int thrown() {{ try {{ throw 42; }} catch (int n) {{ return n; }} }}
        "#,
        folder.join("fatbin").display()
    );
    compile(folder, name, &source, &["-shared", "-fPIC"])
}

fn compile(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let (file, out) = (folder.join("source.cpp"), folder.join(name));
    fs::write(&file, source).unwrap();
    let status = Command::new("c++")
        .arg(&file)
        .args(arguments)
        .arg("-o")
        .arg(&out)
        .arg("-ldl")
        .status()
        .expect("the tests compile small libraries with `c++`: install g++");
    assert!(status.success(), "compiling {name}");
    out
}

#[test]
fn pages_of_zeros_leave_the_file_and_come_back_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let code = |letter: &str, bytes: usize| letter.repeat(bytes);
    let (a, b, h, z) = (
        code("a", 300_000),
        code("b", 200_001),
        code("h", 100_003),
        code("z", 250_000),
    );
    let whole = fatbin(&[
        (CUBIN, 80, &a),
        (CUBIN, 86, &b),
        (CUBIN, 90, &h),
        (PTX, 90, "text"),
        (CUBIN, 100, &z),
    ]);
    let loader = compile(folder, "loader", LOADER, &[]);
    // In memory that is read, run, or written.
    for flags in ["a", "ax", "aw"] {
        let path = library(folder, "libwhole.so", flags, &whole);
        let content = fs::read(&path).unwrap();
        let out = slim(&content, &["sm_90"]);
        let less = content.len() - out.len();
        let unused = a.len() + b.len() + z.len();
        assert!(less > unused - 5 * 4096, "{less} bytes of {unused} less");
        assert!(less < unused, "{less} bytes of {unused} less");
        let slim_path = folder.join("libslim.so");
        fs::write(&slim_path, &out).unwrap();
        assert_eq!(
            Dynamic::of_file(&slim_path).unwrap(),
            Dynamic::of_file(&path).unwrap()
        );

        let output = Command::new(&loader).arg(&slim_path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "42 7", "{flags}: {}", output.status);
        let memory = output.stdout;
        assert_eq!(memory.len(), whole.len());
        let place = |bytes: &[u8]| memchr::memmem::find(&memory, bytes);
        let kept = memchr::memmem::find(&whole, h.as_bytes());
        assert_eq!(place(h.as_bytes()), kept);
        assert_eq!([place(b"aa"), place(b"bb"), place(b"zz")], [None; 3]);
        // A list of entries to its end still; what is not used and stands side by side is one.
        let mut architectures = Vec::new();
        let mut at = 16;
        while at < memory.len() {
            architectures.push((u16_at(&memory, at), u32_at(&memory, at + 28)));
            let payload = usize::try_from(u64_at(&memory, at + 8)).unwrap();
            at += u32_at(&memory, at + 4) as usize + payload;
        }
        assert_eq!(at, memory.len());
        assert_eq!(architectures, [(CUBIN, 80), (CUBIN, 90), (PTX, 90)]);
    }
}

#[test]
fn a_damaged_library_is_slimmed_or_left_but_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let code = "a".repeat(200_000);
    let whole = fatbin(&[(CUBIN, 80, &code), (CUBIN, 90, "hopper")]);
    let path = library(folder.path(), "libwhole.so", "a", &whole);
    let content = fs::read(&path).unwrap();
    let table = usize::try_from(u64_at(&content, 40)).unwrap();
    let headers = (16..64 + 12 * 56).chain(table..content.len());
    for at in headers.step_by(3) {
        for value in [0x00, 0x7f, 0xff] {
            let mut bad = content.clone();
            bad[at] = value;
            assert!(slim(&bad, &["sm_90"]).len() <= content.len() + 2 * 4096);
        }
    }
}
