//! Versions that a library holds in its code alone: what the function says that a program would
//! ask. The function is not called; its constant is read.
//!
//! NVIDIA's CUDA runtime and cuBLAS state their versions nowhere as text. Their functions return
//! constants, which compilers write into the instructions.

use std::{collections::BTreeSet, path::Path};

use crate::{Result, elf::Code};

/// A function that answers with its library's version.
#[derive(Debug)]
pub(crate) struct Question {
    /// How the library's file name starts; its major version follows.
    pub(crate) file: &'static str,
    /// What the version is of.
    pub(crate) of: &'static str,
    /// The function.
    function: &'static str,
    /// Every number in its code that may be the version.
    read: fn(&Code, u64, &[u8]) -> BTreeSet<u32>,
    /// What the major version is multiplied by in the number, and the next one, and so on.
    units: &'static [u32],
}

/// `cublasGetVersion` of libcublas hands on what `cublasLtGetVersion` says, so that one is asked.
pub(crate) const QUESTIONS: [Question; 2] = [
    Question {
        file: "libcudart.so.",
        of: "CUDA runtime",
        function: "cudaRuntimeGetVersion",
        read: written_by_callee,
        units: &[1000, 10],
    },
    Question {
        file: "libcublasLt.so.",
        of: "cuBLAS",
        function: "cublasLtGetVersion",
        read: returned,
        units: &[10_000, 100, 1],
    },
];

impl Question {
    /// The version that the library at `path` would answer with; `None` where its code is another
    /// than is known here. The major version must be that of the file's name, and no other number
    /// may come into question.
    pub(crate) fn ask(&self, path: &Path, name: &str) -> Result<Option<String>> {
        let code = Code::open(path)?;
        let major = name
            .strip_prefix(self.file)
            .and_then(|n| n.parse::<u32>().ok());
        let (Some(major), Some((address, bytes))) = (major, code.function(self.function)) else {
            return Ok(None);
        };
        let mut found = (self.read)(&code, address, &bytes);
        found.retain(|number| number / self.units[0] == major);
        let answer = found.pop_first();
        Ok(answer
            .filter(|_| found.is_empty())
            .map(|number| self.in_words(number)))
    }

    fn in_words(&self, mut number: u32) -> String {
        let mut parts = Vec::new();
        for unit in self.units {
            parts.push((number / unit).to_string());
            number %= unit;
        }
        parts.join(".")
    }
}

/// `mov eax, NUMBER`: what a function returns.
fn returned(_: &Code, _: u64, bytes: &[u8]) -> BTreeSet<u32> {
    bytes
        .windows(5)
        .filter(|window| window[0] == 0xb8)
        .map(|window| number(&window[1..]))
        .collect()
}

/// What a function called or jumped to writes to the place that its argument names, where it does
/// nothing else: `if (version == NULL) return …; *version = NUMBER; return 0;`.
fn written_by_callee(code: &Code, address: u64, bytes: &[u8]) -> BTreeSet<u32> {
    const TEST_ARGUMENT: [u8; 3] = [0x48, 0x85, 0xff];
    const JUMP_IF_ZERO: u8 = 0x74;
    const WRITE_TO_ARGUMENT: [u8; 2] = [0xc7, 0x07];
    const RETURN_ZERO: [u8; 3] = [0x31, 0xc0, 0xc3];
    let calls = bytes
        .windows(5)
        .enumerate()
        .filter(|(_, window)| [0xe8, 0xe9].contains(&window[0]));
    calls
        .filter_map(|(offset, window)| {
            let next = address.checked_add(offset as u64 + 5)?;
            let distance = i64::from(number(&window[1..]).cast_signed());
            let callee = code.at(next.checked_add_signed(distance)?, 14)?;
            let [JUMP_IF_ZERO, _, write @ ..] = callee.strip_prefix(&TEST_ARGUMENT)? else {
                return None;
            };
            let constant = write.strip_prefix(&WRITE_TO_ARGUMENT)?;
            Some(number(constant.strip_suffix(&RETURN_ZERO)?))
        })
        .collect()
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    /// Assembles a library of this name, and asks it.
    fn check(question: &Question, name: &str, assembly: &str, expect: Option<&str>) {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("x.s"), folder.path().join(name));
        fs::write(&source, assembly).unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-nostdlib", "-o"])
            .args([&library, &source])
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(question.ask(&library, name).unwrap().as_deref(), expect);
    }

    /// A function of this name, as compilers write one.
    fn function(name: &str, body: &str) -> String {
        format!(
            ".text\n.globl {name}\n.type {name}, @function\n{name}:\n{body}\n.size {name}, . - {name}\n"
        )
    }

    #[test]
    fn the_runtime_is_asked_through_the_function_that_it_hands_over_to() {
        let inner = |number: u32| {
            format!(
                "inner{number}: test %rdi, %rdi\n je 1f\n movl ${number}, (%rdi)\n \
                 xor %eax, %eax\n ret\n1: mov $1, %eax\n ret\n"
            )
        };
        let ask = |name: &str, body: &str, numbers: &[u32], expect: Option<&str>| {
            let inner: String = numbers.iter().map(|number| inner(*number)).collect();
            let assembly = function("cudaRuntimeGetVersion", body) + &inner;
            check(&QUESTIONS[0], name, &assembly, expect);
        };
        let body = " push %rbx\n call inner13000\n pop %rbx\n ret";
        ask("libcudart.so.13", body, &[13000], Some("13.0"));
        ask("libcudart.so.12", body, &[13000], None);
        ask("libcudart.so", body, &[13000], None);
        ask(
            "libcudart.so.12",
            " jmp.d32 inner12080",
            &[12080],
            Some("12.8"),
        );
        // Two answers are none, and so is a function that is not asked.
        let both = " call inner12080\n jmp.d32 inner12040";
        ask("libcudart.so.12", both, &[12080, 12040], None);
        ask("libcudart.so.12", " ret", &[12080], None);
    }

    #[test]
    fn cublas_returns_its_version() {
        let ask = |name: &str, body: &str, expect: Option<&str>| {
            let assembly = function("cublasLtGetVersion", body);
            check(&QUESTIONS[1], name, &assembly, expect);
        };
        let body = " mov $1, %eax\n mov $130100, %eax\n ret";
        ask("libcublasLt.so.13", body, Some("13.1.0"));
        ask(
            "libcublasLt.so.12",
            " mov $120405, %eax\n ret",
            Some("12.4.5"),
        );
        ask("libcublasLt.so.12", body, None);
        let other = function("cublasLtGetOther", body);
        check(&QUESTIONS[1], "libcublasLt.so.13", &other, None);
    }

    #[test]
    fn what_is_no_library_answers_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for content in [b"" as &[u8], b"\x7fELF", b"text"] {
            let file = folder.path().join("libcudart.so.13");
            fs::write(&file, content).unwrap();
            assert_eq!(QUESTIONS[0].ask(&file, "libcudart.so.13").unwrap(), None);
        }
    }
}
