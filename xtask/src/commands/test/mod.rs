//! `cargo xtask test`: the whole test suite, one step after the other.

mod examples;
mod repeat;

use std::{
    ffi::OsStr,
    io::{self, Read as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use engine::{Endpoint, Engine, Product};
use images::Catalog;
use record::command_line;
use tokio::task::JoinSet;

use crate::{
    cli::{SourceArgs, TestArgs},
    commands::bench::prepare,
    error::{Error, Result},
    printer::Printer,
    workspace,
};

/// The crates that link libtorch, apart from the rest.
const LIBTORCH_CRATES: [&str; 2] = ["libtorch", "scenario"];

struct Step {
    name: &'static str,
    command: Command,
}

struct Passed {
    name: &'static str,
    took: Duration,
    /// Its tests that failed beside others and passed alone.
    only_alone: Vec<String>,
}

/// Steps with this run what fails once more, alone.
const NO_FAIL_FAST: &str = "--no-fail-fast";

/// How many tests run side by side.
const THREADS: &str = "RUST_TEST_THREADS";

/// Where Podman listens unless `TORCHGAUGE_TEST_PODMAN` says otherwise.
const PODMAN: &str = "unix:///run/podman/podman.sock";

/// The tests that talk to an engine once more, where `cargo test` ran them on the engine that the
/// docker command would use. With the same packages, so that nothing is compiled again. One after
/// the other: Podman 4.3 loses a layer that goes with one image while another that shares it is
/// being loaded («layer not known»).
const ON_PODMAN: [(&str, &[&str]); 2] = [
    (
        "engine on Podman",
        &[
            "test",
            NO_FAIL_FAST,
            "--test",
            "engine",
            "--",
            "--test-threads=1",
        ],
    ),
    (
        "images and programs on Podman",
        &[
            "test",
            NO_FAIL_FAST,
            "--test",
            "it",
            "--test",
            "images",
            "--test",
            "programs",
            "--",
            "--test-threads=1",
            "engine_runs::",
            "bases::",
            "damage::",
            // No engine takes part in the others there.
            "registry::a_registry_with_tls",
            "registry::versions_out_of_one",
            "registry::what_is",
            "images_are_built",
            "two_builds_of_one_image",
            "what_an_image_takes",
            "a_full_disk_is_said",
            "containers::",
            "containers_share_compiled_kernels",
            "a_script_is_compared_in_two_images",
            "a_program_has_what_was_asked_for",
            "what_goes_wrong_has_its_name",
        ],
    ),
];

/// Runs every step up to the first that fails, and sums up.
pub(crate) async fn run(args: &TestArgs, printer: &Printer) -> Result<()> {
    let root = workspace::checkout()?;
    let podman = if args.without_podman {
        printer.note("left out, as asked: the tests on Podman");
        None
    } else {
        Some(podman().await?)
    };
    let mut done = Vec::new();
    for (name, words) in [
        ("formatting", &["fmt", "--all", "--check"][..]),
        (
            "clippy",
            &["clippy", "--all-targets", "--", "-D", "warnings"],
        ),
        // Compiled before two steps ask cargo for them.
        ("compiling tests without libtorch", &["test", "--no-run"]),
    ] {
        let command = cargo(&root, words);
        done.push(Step { name, command }.shown(printer).await?);
    }
    // Those on Podman mostly wait for it.
    let mut beside = Vec::new();
    if let Some(address) = &podman {
        for (name, words) in ON_PODMAN {
            let mut command = cargo(&root, words);
            command.env("DOCKER_HOST", address);
            beside.push(Step { name, command });
        }
    }
    beside.push(Step {
        name: "fuzzing",
        // The same inputs on every machine, as far as the time goes.
        command: cargo(
            &root,
            &["run", "-p", "fuzz", "--", "-runs=2000", "-max_total_time=5"],
        ),
    });
    let mut others = JoinSet::new();
    others.spawn(quietly(beside));
    let mut step = Step {
        name: "tests without libtorch",
        command: cargo(&root, &["test", NO_FAIL_FAST]),
    };
    if std::env::var_os(THREADS).is_none() {
        // Many wait for a process or an engine, and leave their core to another.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        step.command.env(THREADS, (cores + 1).to_string());
    }
    done.push(step.shown(printer).await?);
    for ended in others.join_all().await {
        for (name, printed, passed) in ended.map_err(not_started)? {
            printer.heading(name);
            printer.raw(&printed);
            done.push(passed?);
        }
    }
    let step = Step {
        name: "example changes",
        command: check_examples(&root)?,
    };
    done.push(step.shown(printer).await?);
    if args.without_libtorch {
        printer.note("left out, as asked: the scenario crates and the end-to-end tests");
    } else {
        for step in libtorch_steps(&root, podman.as_deref(), printer).await? {
            done.push(step.shown(printer).await?);
        }
    }
    printer.line("");
    for Passed { name, took, .. } in &done {
        printer.line(&format!("{name:<32} ok  {:>7.1} s", took.as_secs_f64()));
    }
    for test in done.iter().flat_map(|step| &step.only_alone) {
        printer.line(&format!(
            "{test} failed beside other tests and passed alone"
        ));
    }
    Ok(())
}

/// The address of a Podman that answers.
async fn podman() -> Result<String> {
    let address = std::env::var("TORCHGAUGE_TEST_PODMAN").unwrap_or_else(|_| PODMAN.to_owned());
    let found = match Engine::connect(&Endpoint::parse(&address)?).await {
        Ok(engine) if engine.facts().product == Product::Podman => return Ok(address),
        Ok(engine) => format!("what answers is {}", engine.facts().describe()),
        Err(_) => "nothing answers there".to_owned(),
    };
    Err(Error::Trouble(format!(
        "the tests run on Docker and on Podman, and at {address} {found}; install Podman (apt-get \
         install podman) and start it (`podman system service --time=0 {address} &`), name another \
         address with TORCHGAUGE_TEST_PODMAN, or leave it out with --without-podman"
    )))
}

async fn libtorch_steps(root: &Path, podman: Option<&str>, printer: &Printer) -> Result<Vec<Step>> {
    let (root, printer) = (root.to_owned(), printer.clone());
    let podman = podman.map(str::to_owned);
    prepare::blocking(move || {
        let sources = SourceArgs {
            libtorch: None,
            scenario_binary: None,
            base_archive: None,
            cache_size: bytesize::ByteSize::gb(50),
        };
        let sources = prepare::sources(&sources, &root);
        let cache = prepare::cache(&printer)?;
        let catalog = Catalog::new(&root.join("images"));
        let image = catalog.image(&catalog.defaults()?.cpu)?;
        let libtorch = images::libtorch_of(&image, &sources, &cache)?;
        let libtorch = libtorch.with_headers(&cache)?;
        let library_path = std::env::join_paths(libtorch.library_folders()).unwrap_or_default();
        let of = |words: &[&str], last: &[&str]| -> Result<Command> {
            let mut command = images::cargo(words[0], &root, &sources.target, &libtorch)?;
            command
                .args(&words[1..])
                .env("LD_LIBRARY_PATH", &library_path);
            for name in LIBTORCH_CRATES {
                command.args(["--package", name]);
            }
            command.args(last);
            Ok(command)
        };
        let tree = workspace::target(&root).join("examples");
        // With the flags of the checkout itself, so that what both need is compiled once.
        let mut examples_with_libtorch = images::cargo("test", &root, &sources.target, &libtorch)?;
        examples_with_libtorch
            .current_dir(tree)
            .env("LD_LIBRARY_PATH", &library_path)
            .args(["--package", "scenario", "--test", "it", "sleeping"]);
        Ok(vec![
            Step {
                name: "clippy of the scenarios",
                command: of(&["clippy"], &["--all-targets", "--", "-D", "warnings"])?,
            },
            Step {
                name: "tests of the scenarios",
                command: of(&["test", NO_FAIL_FAST], &[])?,
            },
            Step {
                name: "example changes of the scenarios",
                command: examples_with_libtorch,
            },
            Step {
                name: "end to end",
                command: end_to_end(&root, podman.as_deref()),
            },
        ])
    })
    .await
}

fn end_to_end(root: &Path, podman: Option<&str>) -> Command {
    let mut command = cargo(
        root,
        &[
            "test",
            NO_FAIL_FAST,
            "--package",
            "torchgauge",
            "--test",
            "end_to_end",
        ],
    );
    match podman {
        Some(address) => command.env("TORCHGAUGE_TEST_PODMAN", address),
        None => command.args(["--", "--skip", "podman"]),
    };
    command
}

/// Carries out steps up to the first that fails; with each what it printed.
async fn quietly(steps: Vec<Step>) -> io::Result<Vec<(&'static str, String, Result<Passed>)>> {
    let mut ended = Vec::new();
    for step in steps {
        let name = step.name;
        let mut printed = String::new();
        let passed = step.run(&mut |text| printed.push_str(text)).await?;
        let has_failed = passed.is_err();
        ended.push((name, printed, passed));
        if has_failed {
            break;
        }
    }
    Ok(ended)
}

impl Step {
    async fn shown(self, printer: &Printer) -> Result<Passed> {
        printer.heading(self.name);
        if !self.command.get_args().any(|word| word == NO_FAIL_FAST) {
            return self.watched().await;
        }
        self.run(&mut |text| printer.raw(text))
            .await
            .map_err(not_started)?
    }

    /// On the terminal itself, for the sake of cargo's bars.
    async fn watched(self) -> Result<Passed> {
        let (begun, line) = (Instant::now(), in_a_shell(&self.command));
        let mut command = tokio::process::Command::from(self.command);
        let status = command.kill_on_drop(true).status().await;
        let has_passed = status.map_err(not_started)?.success();
        ended(self.name, begun, line, has_passed.then(Vec::new))
    }

    /// Few tests that fail run once more, alone. Nobody waits for a step once another failed: it
    /// ends then.
    async fn run(self, show: &mut (dyn FnMut(&str) + Send)) -> io::Result<Result<Passed>> {
        let (begun, line) = (Instant::now(), in_a_shell(&self.command));
        let mut command = tokio::process::Command::from(self.command);
        let (mut has_passed, printed) = carry_out(&mut command, show).await?;
        let failed = repeat::failed_tests(&printed);
        if !has_passed && !failed.tests.is_empty() {
            show(&format!(
                "\nonce more, alone: {}\n",
                failed.tests.join(", ")
            ));
            let mut command = repeat::alone(command.as_std(), &failed).into();
            let (is_success, printed) = carry_out(&mut command, show).await?;
            has_passed = is_success && repeat::passed_count(&printed) >= failed.tests.len();
        }
        let passed = has_passed.then_some(failed.tests);
        Ok(ended(self.name, begun, line, passed))
    }
}

/// How a step ended: where it passed, with its tests that did so only alone.
fn ended(
    name: &'static str,
    begun: Instant,
    command: String,
    passed: Option<Vec<String>>,
) -> Result<Passed> {
    match passed {
        Some(only_alone) => Ok(Passed {
            name,
            took: begun.elapsed(),
            only_alone,
        }),
        None => Err(Error::TestsFailed {
            step: name,
            command,
        }),
    }
}

/// Whether it succeeded, and what it printed, which `show` gets as it comes. Through a file: a
/// process that a test left behind would hold a pipe open.
async fn carry_out(
    command: &mut tokio::process::Command,
    show: &mut (dyn FnMut(&str) + Send),
) -> io::Result<(bool, String)> {
    let to = tempfile::NamedTempFile::new()?;
    let mut from = to.reopen()?;
    command
        .stdout(to.as_file().try_clone()?)
        .stderr(to.as_file().try_clone()?)
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let (mut printed, mut shown) = (Vec::new(), 0);
    loop {
        let ended = tokio::time::timeout(Duration::from_millis(200), child.wait()).await;
        from.read_to_end(&mut printed)?;
        // Whole lines: a character may have come in part.
        let lines = match &ended {
            Ok(_) => printed.len(),
            Err(_) => printed
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1),
        };
        if lines > shown {
            show(&String::from_utf8_lossy(&printed[shown..lines]));
            shown = lines;
        }
        if let Ok(status) = ended {
            let printed = String::from_utf8_lossy(&printed).into_owned();
            return Ok((status?.success(), printed));
        }
    }
}

fn not_started(source: io::Error) -> Error {
    Error::Start {
        what: "cargo".into(),
        source,
    }
}

/// Compiles and tests the tree with all examples applied, as far as that needs no libtorch.
fn check_examples(root: &Path) -> Result<Command> {
    let target = workspace::target(root);
    let tree = examples::applied(root, &target)?;
    let packages = [
        "protocol",
        "metrics",
        "record",
        "bench-suite",
        "reports",
        "torchgauge",
    ];
    let packages = packages.into_iter().flat_map(|name| ["--package", name]);
    let mut command = cargo(&tree, &["test", "--offline", "--lib", "--bins"]);
    // Pages of commands and of suites' keys follow by `codegen`.
    command.args(packages).args(["--", "--skip", "reference"]);
    command.env("CARGO_TARGET_DIR", target);
    Ok(command)
}

fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = images::plain_cargo(root);
    // Tests run side by side, sessions on the CPU among them.
    command.args(words).env("TORCHGAUGE_SHARE_CPU", "1");
    command.stdin(Stdio::null());
    command
}

/// The line that runs a command, in the folder that it names.
fn in_a_shell(command: &Command) -> String {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    let folder = command.get_current_dir().unwrap_or(Path::new("."));
    let mut words = vec!["env".to_owned(), format!("--chdir={}", folder.display())];
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => words.push(format!("{}={}", text(name), text(value))),
            None if images::is_of_a_package(name) => {}
            None => words.insert(2, format!("--unset={}", text(name))),
        }
    }
    words.push(text(command.get_program()));
    words.extend(command.get_args().map(text));
    command_line(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_line_runs_the_step() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a 'folder'");
        std::fs::create_dir(&folder).unwrap();
        let mut step = Command::new("sh");
        step.args(["-c", "pwd; printf '%s|' \"$FLAGS\" \"$GONE\" \"$@\"", "sh"])
            .args(["", "two words", "it's", "a\nb\\"])
            .env("FLAGS", "-a\u{1f}-b $HOME")
            .env_remove("GONE")
            .current_dir(&folder);
        let line = in_a_shell(&step);
        assert!(!line.contains(|c: char| c.is_ascii_control()), "{line:?}");
        let printed = Command::new("bash")
            .args(["-c", &line])
            .env("GONE", "1")
            .output()
            .unwrap();
        assert!(printed.status.success(), "{printed:?}");
        let itself = step.output().unwrap();
        assert_eq!(printed.stdout, itself.stdout);
        let end = "\n-a\u{1f}-b $HOME|||two words|it's|a\nb\\|";
        assert!(itself.stdout.ends_with(end.as_bytes()), "{itself:?}");
    }
}
