//! `cargo xtask bars`: what the judge and the history promise, measured.

use std::process::Command;

use crate::{
    cli::BarsArgs,
    error::{Error, Result},
    printer::Printer,
    workspace,
};

/// Runs the two benchmarks one after the other; both print to standard output.
pub(crate) fn run(args: &BarsArgs, printer: &Printer) -> Result<()> {
    let mut judge = example("judge", "bars")?;
    judge.args(["--repeats", &args.repeats.to_string()]);
    for (word, path) in [("--series", &args.series), ("--noise", &args.noise)] {
        if let Some(path) = path {
            // The benchmark runs in the checkout's root, not where the user stands.
            let whole = std::path::absolute(path).map_err(|source| Error::Read {
                path: path.clone(),
                source,
            })?;
            judge.arg(word).arg(whole);
        }
    }
    let mut missed = 0;
    for (name, mut command) in [
        ("the judge", judge),
        ("the history", example("history", "million")?),
    ] {
        printer.heading(name);
        let status = command.status().map_err(|source| Error::Start {
            what: "cargo".to_owned(),
            source,
        })?;
        missed += usize::from(!status.success());
    }
    if missed == 0 {
        Ok(())
    } else {
        Err(Error::BarsMissed { missed })
    }
}

fn example(package: &str, name: &str) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace::root()?).args([
        "run",
        "--quiet",
        "--release",
        "-p",
        package,
        "--example",
        name,
        "--",
    ]);
    Ok(command)
}
