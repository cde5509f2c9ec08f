//! Tests that failed, once more and alone. Sessions, engines and clocks of many tests share one
//! machine: a test that fails only then is named and passes, one that fails alone too fails.

use std::process::Command;

/// More failures than these are no chance.
const MOST: usize = 4;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) tests: Vec<String>,
    /// The options by which cargo names the binaries that they are in.
    targets: Vec<String>,
}

/// The tests that failed in what `cargo test` printed; none where they are too many, or where
/// something failed that is no test of libtest's: compiling, a process that died, a documented
/// example.
pub(super) fn failed_tests(printed: &str) -> Failed {
    const RERUN: &str = "error: test failed, to rerun pass `";
    let (mut failed, mut listed) = (Failed::default(), Vec::new());
    let mut without_a_list = 0_i32;
    for line in printed.lines() {
        if line == "failures:" {
            listed.clear();
        } else if let Some(name) = line.strip_prefix("    ") {
            listed.push(name.to_owned());
        } else if line.starts_with("test result: FAILED") {
            failed.tests.append(&mut listed);
            without_a_list -= 1;
        } else if let Some(target) = line.strip_prefix(RERUN) {
            // With one package alone, cargo would choose other features and compile all anew.
            let words = target.trim_end_matches('`').split(' ').map(str::to_owned);
            let words: Vec<_> = words.skip_while(|word| !word.starts_with("--")).collect();
            failed.targets.extend(words);
            without_a_list += 1;
        } else if line.starts_with("error: doctest failed") {
            without_a_list += 1;
        }
    }
    let are_names = failed.tests.iter().all(|name| !name.contains(' '));
    if without_a_list != 0 || !are_names || failed.tests.len() > MOST {
        return Failed::default();
    }
    failed
}

/// The command that runs only these tests of `command`, one after the other.
pub(super) fn alone(command: &Command, failed: &Failed) -> Command {
    let mut again = Command::new(command.get_program());
    again
        .args(command.get_args().take_while(|word| *word != "--"))
        .args(&failed.targets)
        .args(["--", "--exact", "--test-threads=1"])
        .args(&failed.tests);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        again.current_dir(folder);
    }
    again
}

/// How many tests passed in what `cargo test` printed.
pub(super) fn passed_count(printed: &str) -> usize {
    let of = |line: &str| {
        let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
        rest.split_once(" passed")?.0.parse::<usize>().ok()
    };
    printed.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "
test tests::x ... FAILED

failures:

---- tests::x stdout ----
failures:
    printed by the test
thread 'tests::x' panicked
   0: __rustc::rust_begin_unwind
             at /rustc/library/std/src/panicking.rs:689:5

failures:
    tests::x
    tests::y

test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out

error: test failed, to rerun pass `-p judge --lib`
     Running tests/a.rs

failures:
    z

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

error: test failed, to rerun pass `-p judge --test a`
error: 2 targets failed:
    `--lib`
    `--test a`
";

    #[test]
    fn failed_tests_are_found_where_nothing_else_failed() {
        let failed = failed_tests(FAILED);
        assert_eq!(failed.tests, ["tests::x", "tests::y", "z"]);
        assert_eq!(failed.targets, ["--lib", "--test", "a"]);
        assert_eq!(passed_count(FAILED), 4);
        let died = format!("{FAILED}error: test failed, to rerun pass `-p judge --test b`\n");
        let documented = FAILED.replace("    z", "    src/lib.rs - a (line 1)");
        let many = FAILED.replace("    z", "    z1\n    z2\n    z3");
        for printed in [&died, &documented, &many, "error: could not compile `a`"] {
            assert_eq!(failed_tests(printed), Failed::default(), "{printed}");
        }
    }

    #[test]
    fn only_what_failed_is_run_again() {
        let mut command = Command::new("cargo");
        command
            .args(["test", "--test", "it", "--", "--test-threads=1", "images::"])
            .env("DOCKER_HOST", "unix:///podman.sock")
            .current_dir("/");
        let failed = Failed {
            tests: vec!["images::one".to_owned()],
            targets: vec!["--lib".to_owned()],
        };
        let again = alone(&command, &failed);
        let words: Vec<_> = again.get_args().collect();
        let expected = [
            "test",
            "--test",
            "it",
            "--lib",
            "--",
            "--exact",
            "--test-threads=1",
            "images::one",
        ];
        assert_eq!(words, expected);
        assert!(again.get_envs().eq(command.get_envs()));
        assert_eq!(again.get_current_dir(), command.get_current_dir());
    }
}
