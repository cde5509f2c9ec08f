//! `cargo xtask test`: the whole test suite, one step after the other.

mod examples;
mod repeat;

use std::{
    io::{self, Read as _},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use clap::Args;
use engine::{Endpoint, Engine, Product};
use images::Catalog;
use tokio::process::Command;

use crate::{
    cli::SourceArgs,
    commands::bench::prepare,
    error::{Error, Result, starting},
    printer::Printer,
    workspace,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct TestArgs {
    /// Leave out what needs libtorch: the `scenario` crates and the end-to-end tests
    #[arg(long)]
    without_libtorch: bool,
    /// Leave out what needs a second engine: the tests of engines, images and programs on Podman
    #[arg(long)]
    without_podman: bool,
}

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

const PLAIN: [(&str, &str); 3] = [
    ("formatting", "fmt --all --check"),
    ("clippy", "clippy --all-targets -- -D warnings"),
    // Compiled before two steps ask cargo for them.
    ("compiling tests without libtorch", "test --no-run"),
];

/// The tests that talk to an engine once more, where `cargo test` ran them on the engine that the
/// docker command would use. With the same packages, so that nothing is compiled again. One after
/// the other: Podman 4.3 loses a layer that goes with one image while another that shares it is
/// being loaded («layer not known»). Of the tests of `registry` no engine takes part in others.
const ON_PODMAN: [(&str, &str); 2] = [
    (
        "engine on Podman",
        "test --no-fail-fast --test engine -- --test-threads=1",
    ),
    (
        "images and programs on Podman",
        "test --no-fail-fast --test it --test images --test programs -- --test-threads=1 \
         engine_runs:: bases:: damage:: registry::a_registry_with_tls \
         registry::versions_out_of_one registry::what_is images_are_built \
         two_builds_of_one_image what_an_image_takes a_full_disk_is_said containers:: \
         containers_share_compiled_kernels a_script_is_compared_in_two_images \
         a_program_has_what_was_asked_for what_goes_wrong_has_its_name",
    ),
];

/// The tree with all examples applied, as far as that needs no libtorch. Pages of commands and of
/// suites' keys follow by `codegen`.
const EXAMPLES: &str = "test --offline --lib --bins --package protocol --package metrics \
                        --package record --package bench-suite --package reports \
                        --package torchgauge -- --skip reference";

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
    for (name, words) in PLAIN {
        done.push(Step::new(name, &root, words).shown(printer).await?);
    }
    // Those on Podman mostly wait for it.
    let mut beside = Vec::new();
    for (name, words) in ON_PODMAN {
        let mut step = Step::new(name, &root, words);
        if let Some(address) = &podman {
            step.command.env("DOCKER_HOST", address);
            beside.push(step);
        }
    }
    // The same inputs on every machine, as far as the time goes.
    let fuzz = "run -p fuzz -- -runs=2000 -max_total_time=5";
    beside.push(Step::new("fuzzing", &root, fuzz));
    let others = tokio::spawn(quietly(beside));
    let mut step = Step::new("tests without libtorch", &root, "test --no-fail-fast");
    if std::env::var_os(THREADS).is_none() {
        // Many wait for a process or an engine, and leave their core to another.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        step.command.env(THREADS, (cores + 1).to_string());
    }
    let passed = step.shown(printer).await;
    if passed.is_err() {
        others.abort();
    }
    done.push(passed?);
    for (name, printed, passed) in others.await.map_err(starting("cargo"))? {
        printer.heading(name);
        printer.raw(&printed);
        done.push(passed?);
    }
    let target = workspace::target(&root);
    let tree = examples::applied(&root, &target)?;
    let mut step = Step::new("example changes", &tree, EXAMPLES);
    step.command.env("CARGO_TARGET_DIR", target);
    done.push(step.shown(printer).await?);
    if args.without_libtorch {
        printer.note("left out, as asked: the scenario crates and the end-to-end tests");
    } else {
        for step in libtorch_steps(&root, &tree, podman, printer).await? {
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

async fn libtorch_steps(
    root: &Path,
    tree: &Path,
    podman: Option<String>,
    printer: &Printer,
) -> Result<Vec<Step>> {
    let (root, tree, printer) = (root.to_owned(), tree.to_owned(), printer.clone());
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
        let of = |name, words: &str| -> Result<Step> {
            let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
            let command = images::cargo(first, &root, &sources.target, &libtorch)?;
            let mut command = Command::from(command);
            command.args(rest.split_whitespace());
            command.env("LD_LIBRARY_PATH", &library_path);
            Ok(Step { name, command })
        };
        // With the flags of the checkout itself, so that what both need is compiled once.
        let sleeping = "test --package scenario --test it sleeping";
        let mut examples = of("example changes of the scenarios", sleeping)?;
        examples.command.current_dir(tree);
        let end_to_end = "test --no-fail-fast --package torchgauge --test end_to_end";
        let mut end_to_end = Step::new("end to end", &root, end_to_end);
        match podman {
            Some(address) => end_to_end.command.env("TORCHGAUGE_TEST_PODMAN", address),
            None => end_to_end.command.args(["--", "--skip", "podman"]),
        };
        Ok(vec![
            of(
                "clippy of the scenarios",
                "clippy --package libtorch --package scenario --all-targets -- -D warnings",
            )?,
            of(
                "tests of the scenarios",
                "test --no-fail-fast --package libtorch --package scenario",
            )?,
            examples,
            end_to_end,
        ])
    })
    .await
}

/// Carries out steps up to the first that fails; with each what it printed.
async fn quietly(steps: Vec<Step>) -> Vec<(&'static str, String, Result<Passed>)> {
    let mut ended = Vec::new();
    for step in steps {
        let (name, mut printed) = (step.name, String::new());
        let passed = step.run(&mut |text| printed.push_str(text)).await;
        let has_failed = passed.is_err();
        ended.push((name, printed, passed));
        if has_failed {
            break;
        }
    }
    ended
}

impl Step {
    /// cargo with these words.
    fn new(name: &'static str, root: &Path, words: &str) -> Self {
        let mut command = Command::from(images::plain_cargo(root));
        // Tests run side by side, sessions on the CPU among them.
        command.args(words.split_whitespace());
        command.env("TORCHGAUGE_SHARE_CPU", "1");
        command.stdin(Stdio::null()).kill_on_drop(true);
        Self { name, command }
    }

    async fn shown(mut self, printer: &Printer) -> Result<Passed> {
        printer.heading(self.name);
        let mut words = self.command.as_std().get_args();
        if words.any(|word| word == NO_FAIL_FAST) {
            return self.run(&mut |text| printer.raw(text)).await;
        }
        // On the terminal itself, for the sake of cargo's bars.
        let begun = Instant::now();
        let status = self.command.status().await.map_err(starting("cargo"))?;
        self.ended(begun, status.success().then(Vec::new))
    }

    /// Few tests that fail run once more, alone. Nobody waits for a step once another failed: it
    /// ends then.
    async fn run(mut self, show: &mut (dyn FnMut(&str) + Send)) -> Result<Passed> {
        let begun = Instant::now();
        let (mut has_passed, printed) = carry_out(&mut self.command, show).await?;
        let failed = repeat::failed_tests(&printed);
        if !has_passed && !failed.tests.is_empty() {
            let tests = failed.tests.join(", ");
            show(&format!("\nonce more, alone: {tests}\n"));
            let mut again = repeat::alone(self.command.as_std(), &failed).into();
            let (is_success, printed) = carry_out(&mut again, show).await?;
            has_passed = is_success && repeat::passed_count(&printed) >= failed.tests.len();
        }
        self.ended(begun, has_passed.then_some(failed.tests))
    }

    /// How it ended: where it passed, with its tests that did so only alone.
    fn ended(self, begun: Instant, passed: Option<Vec<String>>) -> Result<Passed> {
        let failed = || Error::tests_failed(self.name, &format!("{:?}", self.command.as_std()));
        Ok(Passed {
            name: self.name,
            took: begun.elapsed(),
            only_alone: passed.ok_or_else(failed)?,
        })
    }
}

/// Whether it succeeded, and what it printed, which `show` gets as it comes. Through a file: a
/// process that a test left behind would hold a pipe open.
async fn carry_out(
    command: &mut Command,
    show: &mut (dyn FnMut(&str) + Send),
) -> Result<(bool, String)> {
    let to = tempfile::NamedTempFile::new().map_err(starting("cargo"))?;
    let mut started = || -> io::Result<_> {
        command.stdout(to.as_file().try_clone()?);
        command.stderr(to.as_file().try_clone()?);
        Ok((command.kill_on_drop(true).spawn()?, to.reopen()?))
    };
    let (mut child, mut from) = started().map_err(starting("cargo"))?;
    let (mut printed, mut shown) = (Vec::new(), 0);
    loop {
        let ended = tokio::time::timeout(Duration::from_millis(200), child.wait()).await;
        from.read_to_end(&mut printed).map_err(starting("cargo"))?;
        // Whole lines: a character may have come in part.
        let last_line = printed.iter().rposition(|byte| *byte == b'\n');
        let lines = match &ended {
            Ok(_) => printed.len(),
            Err(_) => last_line.map_or(0, |at| at + 1),
        };
        if lines > shown {
            show(&String::from_utf8_lossy(&printed[shown..lines]));
            shown = lines;
        }
        if let Ok(status) = ended {
            let is_success = status.map_err(starting("cargo"))?.success();
            return Ok((is_success, String::from_utf8_lossy(&printed).into_owned()));
        }
    }
}
