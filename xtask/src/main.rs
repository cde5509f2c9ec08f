//! The command line of Torchgauge: parse, call the rooms, print.

mod cli;
mod commands;
mod error;
mod exit_code;
mod printer;
mod progress;
mod table;
mod workspace;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};
use printer::Printer;

#[tokio::main]
async fn main() -> ExitCode {
    let printer = Printer::new();
    if let Err(error) = workspace::check_unpacked() {
        printer.error(&error);
        return error.exit_code();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) => {
            // A closed standard output is no reason to panic over a help text.
            let _ = help.print();
            return ExitCode::from(u8::try_from(help.exit_code()).unwrap_or(2));
        }
    };
    let ended = match &cli.command {
        Command::Bench(args) => commands::bench::run(args, &printer).await,
        Command::Bisect(args) => commands::bisect::run(args, &printer).await,
        Command::Claims(args) => commands::claims::run(args, &printer),
        Command::Compare(args) => commands::compare::run(args, &printer),
        Command::Doctor(args) => commands::doctor::run(args, &printer).await,
        Command::History(args) => commands::history::run(args, &printer),
        Command::Ledger(args) => commands::ledger::run(args, &printer),
        Command::Images(command) => commands::images::run(command, &printer).await,
        Command::Fit(args) => commands::fit::run(args, &printer).await,
        Command::Overhead(args) => commands::overhead::run(args, &printer).await,
        Command::Report(args) => commands::report::run(args, &printer),
        Command::Scenarios(command) => commands::scenarios::run(command, &printer),
        Command::Session(command) => commands::session::run(command, &printer),
        Command::Site(args) => commands::site::run(args, &printer),
        Command::Trend(args) => commands::trend::run(args, &printer),
        Command::Completions { shell } => {
            commands::shell::completions(*shell, &printer);
            Ok(())
        }
        Command::Man { folder } => commands::shell::man(folder, &printer),
        Command::Dist(args) => commands::dist::run(args, &printer),
        Command::Test(args) => commands::test::run(args, &printer).await,
    };
    // A gate's answer comes before where it could not be written.
    match ended.and_then(|()| printer.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = error.with_what_engines_know().await;
            printer.error(&error);
            error.exit_code()
        }
    }
}
