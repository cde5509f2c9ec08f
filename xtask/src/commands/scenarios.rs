//! `cargo xtask scenarios`: list, show and check suites.

use bench_suite::suite::{self, Catalog, DeviceKind, Suite, SuiteError};

use crate::{
    cli::{DeviceWord, Format, ScenariosCommand},
    error::{Error, Result},
    printer::Printer,
    table::table,
    workspace,
};

/// The suites in `scenarios/`.
pub(crate) fn catalog() -> Result<Catalog> {
    Ok(Catalog::of(workspace::root()?.join("scenarios")))
}

/// Carries one of its commands out.
pub(crate) fn run(command: &ScenariosCommand, printer: &Printer) -> Result<()> {
    match command {
        ScenariosCommand::List => list(printer),
        ScenariosCommand::Show { suite, device } => {
            let device = match device {
                DeviceWord::Cpu => DeviceKind::Cpu,
                DeviceWord::Cuda => DeviceKind::Cuda,
            };
            show(
                &catalog()?.load(suite).map_err(Error::Suite)?,
                device,
                printer,
            );
            Ok(())
        }
        ScenariosCommand::Check { suites } => check(suites, printer),
        ScenariosCommand::Schema => {
            printer.raw(&suite::schema());
            Ok(())
        }
    }
}

fn list(printer: &Printer) -> Result<()> {
    let mut table = table(
        Format::Text,
        [
            "suite",
            "cells on cpu",
            "cells on cuda",
            "blocks",
            "what for",
        ],
    );
    for listed in catalog()?
        .list()
        .map_err(SuiteError::from)
        .map_err(Error::Suite)?
    {
        match listed.suite {
            Ok(suite) => table.add_row([
                listed.name,
                suite.cells(DeviceKind::Cpu).to_string(),
                suite.cells(DeviceKind::Cuda).to_string(),
                suite.blocks.to_string(),
                suite.description,
            ]),
            Err(error) => {
                let words = "cannot be read; see `cargo xtask scenarios check`";
                printer.note(&format!("{}: {error}", listed.name));
                table.add_row([listed.name.as_str(), "", "", "", words])
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
        ["scenario", "model", "task", "variant", "warm-up", "steps"],
    );
    for scenario in &suite.scenarios {
        for variant in scenario.variants_for(device) {
            table.add_row([
                scenario.name.clone(),
                scenario.model.to_string(),
                scenario.task.to_string(),
                variant.to_string(),
                scenario.steps.warmup.to_string(),
                scenario.steps.measured.to_string(),
            ]);
        }
    }
    let (cells, blocks) = (suite.cells(device), suite.blocks);
    let word = device.word();
    printer.line(&format!(
        "{table}\n{cells} cells on {word}, {blocks} blocks: {} runs",
        cells * blocks as usize
    ));
}

fn check(suites: &[String], printer: &Printer) -> Result<()> {
    let catalog = catalog()?;
    let names = if suites.is_empty() {
        catalog
            .names()
            .map_err(SuiteError::from)
            .map_err(Error::Suite)?
    } else {
        suites.to_vec()
    };
    let mut first = None;
    for name in names {
        match catalog.load(&name) {
            Ok(suite) => printer.line(&format!(
                "{name}: sound, {} cells on cpu, {} on cuda",
                suite.cells(DeviceKind::Cpu),
                suite.cells(DeviceKind::Cuda)
            )),
            // The last is shown by the caller, which also gives the exit code.
            Err(error) => {
                if let Some(earlier) = first.replace(Error::Suite(error)) {
                    printer.error(&earlier);
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}
