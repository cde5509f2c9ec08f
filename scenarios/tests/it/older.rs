//! On which systems the program starts.

use std::process::Command;

use crate::binary::BINARY;

/// What the libraries of RHEL 8 offer, where PyTorch's wheels start (`manylinux_2_28`).
const OFFERED: [(&str, &[u32]); 4] = [
    ("GLIBC", &[2, 28]),
    ("GLIBCXX", &[3, 4, 25]),
    ("CXXABI", &[1, 3, 11]),
    ("GCC", &[7, 0, 0]),
];

/// A newer version and the symbol that is asked for under it, out of a line of `objdump -T`.
fn newer(line: &str) -> Option<String> {
    let mut words = line.split_once("*UND*")?.1.split_whitespace().skip(1);
    let version = words.next()?.trim_matches(['(', ')']);
    let symbol = words.next()?;
    let (library, numbers) = version.split_once('_')?;
    let numbers: Option<Vec<u32>> = numbers.split('.').map(|part| part.parse().ok()).collect();
    let is_offered = OFFERED
        .iter()
        .any(|(name, newest)| *name == library && numbers.as_deref().is_some_and(|n| n <= *newest));
    (!is_offered).then(|| format!("{symbol} of {version}"))
}

#[test]
fn it_asks_for_nothing_that_the_systems_of_pytorchs_wheels_lack() {
    let output = Command::new("objdump").args(["-T", BINARY]).output();
    let symbols = String::from_utf8(output.unwrap().stdout).unwrap();
    for old in [
        "GLIBC_2.2.5) __libc_start_main",
        "GLIBCXX_3.4",
        "CXXABI_1.3",
        // Of a library, for the program's own would call the shim that calls them.
        "CXXABI_1.3.3) _ZNSt15__exception_ptr13exception_ptrC1ERKS0_",
        "CXXABI_1.3.3) _ZNSt15__exception_ptr13exception_ptrD1Ev",
    ] {
        assert!(symbols.contains(old), "{symbols}");
    }
    let output = Command::new("objdump").args(["-p", BINARY]).output();
    let needs = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(!needs.contains("GLIBC_ABI_"), "{needs}");
    let newer: Vec<String> = symbols.lines().filter_map(newer).collect();
    assert_eq!(
        newer, [""; 0],
        "scenarios/libtorch/shim/older.cpp has what is older"
    );
}

#[test]
fn newer_versions_are_told_from_older_ones() {
    let line = |version: &str| format!("0000  w   DF *UND*\t0000 ({version}) x");
    for version in [
        "GLIBC_2.2.5",
        "GLIBC_2.28",
        "GLIBCXX_3.4",
        "CXXABI_1.3.11",
        "GCC_3.0",
    ] {
        assert_eq!(newer(&line(version)), None, "{version}");
    }
    for version in [
        "GLIBC_2.29",
        "GLIBC_PRIVATE",
        "GLIBCXX_3.4.26",
        "CXXABI_1.3.12",
        "GCC_12.0.0",
    ] {
        assert_eq!(newer(&line(version)), Some(format!("x of {version}")));
    }
    assert_eq!(
        newer("0000  w   D  *UND*\t0000  Base  __gmon_start__"),
        None
    );
}
