//! `cargo xtask scenarios`: list, show and check suites.

use std::path::Path;

use bench_suite::{
    host,
    suite::{self, Catalog, DeviceKind, ScenarioVariant, Suite},
};
use clap::Subcommand;
use reports::format::plural;

use crate::{
    cli::{Format, word},
    commands::program::{self, ProgramArgs},
    error::Result,
    printer::Printer,
    table::table,
    workspace,
};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ScenariosCommand {
    /// Name the suites
    List,
    /// Show a suite with every cell that it expands to
    Show {
        /// A suite in `scenarios/`, or a file
        suite: String,
        /// The device to expand for; default: a GPU where there is one, else the CPU
        #[arg(long, value_parser = word::<DeviceKind>(&[("cpu", "The CPU"), ("cuda", "A GPU")]))]
        device: Option<DeviceKind>,
    },
    /// Check suites without running them
    Check {
        /// Suites in `scenarios/`, or files; default: all
        suites: Vec<String>,
    },
    /// Print the suite of a program of your own, to be kept and changed
    Init(Box<ProgramArgs>),
    /// Print the JSON Schema of suites
    Schema,
}

/// The suites in `scenarios/`.
pub(crate) fn catalog() -> Result<Catalog> {
    Ok(Catalog::of(workspace::root()?.join("scenarios")))
}

/// The suite and the scenario of `SUITE:SCENARIO`; a file's own name may have a colon.
pub(crate) fn split(reference: &str) -> (&str, Option<&str>) {
    match reference.rsplit_once(':') {
        Some((suite, scenario)) if !Path::new(reference).exists() => (suite, Some(scenario)),
        _ => (reference, None),
    }
}

/// Carries one of its commands out.
pub(crate) fn run(command: &ScenariosCommand, printer: &Printer) -> Result<()> {
    match command {
        ScenariosCommand::List => list(printer),
        ScenariosCommand::Show { suite, device } => {
            let there = || {
                if host::local::open().facts().gpus.is_empty() {
                    DeviceKind::Cpu
                } else {
                    DeviceKind::Cuda
                }
            };
            let suite = catalog()?.load(suite)?;
            show(&suite, device.unwrap_or_else(there), printer);
            Ok(())
        }
        ScenariosCommand::Check { suites } => check(suites, printer),
        ScenariosCommand::Init(args) => {
            let text = args.suite_text()?;
            program::suite(&text)?;
            printer.raw(&text);
            Ok(())
        }
        ScenariosCommand::Schema => {
            printer.json_text(&suite::schema());
            Ok(())
        }
    }
}

fn list(printer: &Printer) -> Result<()> {
    let mut table = table(
        Format::Text,
        ["suite", "cells on cpu", "on cuda", "blocks", "what for"],
    );
    let catalog = catalog()?;
    // A broken one does not hide the others.
    for name in catalog.names()? {
        match catalog.load(&name) {
            Ok(suite) => table.add_row([
                name,
                suite.cells(DeviceKind::Cpu).to_string(),
                suite.cells(DeviceKind::Cuda).to_string(),
                suite.blocks.to_string(),
                suite.description,
            ]),
            Err(error) => {
                let program = protocol::program();
                let words = format!("cannot be read; see `{program} scenarios check`");
                printer.note(&format!("{name}: {error}"));
                table.add_row([name.as_str(), "", "", "", &words])
            }
        };
    }
    printer.line(&table.to_string());
    Ok(())
}

fn show(suite: &Suite, device: DeviceKind, printer: &Printer) {
    printer.line(&format!("{}: {}", suite.name, suite.description));
    let mut table = table(
        Format::Text,
        ["scenario", "workload", "variant", "warm-up", "steps"],
    );
    for scenario in &suite.scenarios {
        for ScenarioVariant { axes, expected, .. } in scenario.variants_for(device) {
            let expected = expected.get(&device).map(|reason| reason.word());
            let expected = expected.map_or_else(String::new, |word| format!(", expects {word}"));
            table.add_row([
                scenario.name.clone(),
                scenario.workload.to_string(),
                format!("{axes}{expected}"),
                scenario.steps.warmup.to_string(),
                scenario.steps.measured.to_string(),
            ]);
        }
    }
    let (cells, blocks) = (suite.cells(device), suite.blocks as usize);
    printer.line(&format!(
        "{table}\n{} on {}, {}: {}",
        plural(cells, "cell", "cells"),
        device.word(),
        plural(blocks, "block", "blocks"),
        plural(cells * blocks, "run", "runs")
    ));
}

fn check(suites: &[String], printer: &Printer) -> Result<()> {
    let catalog = catalog()?;
    let names = if suites.is_empty() {
        catalog.names()?
    } else {
        suites.to_vec()
    };
    let mut first = None;
    for name in names {
        match catalog.load(&name) {
            Ok(suite) => printer.line(&format!(
                "{name}: valid, {} on cpu, {} on cuda",
                plural(suite.cells(DeviceKind::Cpu), "cell", "cells"),
                suite.cells(DeviceKind::Cuda)
            )),
            // The last is shown by the caller, which also gives the exit code.
            Err(error) => {
                if let Some(earlier) = first.replace(error.into()) {
                    printer.error(&earlier);
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}
