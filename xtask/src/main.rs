//! The command line of Torchgauge: parse, call the rooms, print.

mod cli;
mod commands;
mod error;
mod printer;
mod progress;
mod table;
#[cfg(test)]
mod tests;
mod workspace;

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::exit_codes;
use commands::{
    attribution::AttributionArgs, bench::BenchArgs, bisect::BisectArgs, claims::ClaimsArgs,
    compare::CompareArgs, dist::DistArgs, doctor::DoctorArgs, driver::DriverCommand, fit::FitArgs,
    history::HistoryArgs, images::ImagesCommand, ledger::LedgerArgs, node::NodeArgs,
    pod::PodCommand, report::ReportArgs, scenarios::ScenariosCommand, site::SiteArgs,
    test::TestArgs, trend::TrendArgs,
};
use printer::Printer;

/// What does this PyTorch-CUDA image cost in memory and give in speed, and can I believe it?
#[derive(Debug, Parser)]
#[command(
    name = "torchgauge",
    bin_name = workspace::program(),
    version = concat!(env!("CARGO_PKG_VERSION"), " (", env!("TORCHGAUGE_REVISION"), ")"),
    max_term_width = 100
)]
#[command(after_help = exit_codes!())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run suites in images and draw the report
    Bench(Box<BenchArgs>),
    /// Attribute a step's memory and time to the modules of the model
    Attribution(Box<AttributionArgs>),
    /// Find the image that brought a regression
    Bisect(Box<BisectArgs>),
    /// Find the largest batch that trains within a memory budget
    Fit(FitArgs),
    /// Carry out a part of a session on this node
    Node(NodeArgs),
    /// What the containers of a Pod do
    #[command(subcommand, hide = true)]
    Pod(PodCommand),
    /// Draw the report of sessions that have run
    Report(ReportArgs),
    /// Compare two images or two sessions, cell by cell
    Compare(CompareArgs),
    /// Compare two versions of the NVIDIA driver, each over several boots
    #[command(subcommand, after_help = exit_codes!())]
    Driver(DriverCommand),
    /// Hold a session against what somebody claimed
    Claims(ClaimsArgs),
    /// Find change points in the history, or in a CSV series
    Trend(Box<TrendArgs>),
    /// Make a static site of sessions, comparisons and trends
    Site(SiteArgs),
    /// Keep sessions, and read them over time
    History(HistoryArgs),
    /// List regressions that `trend --gate` found, and accept them
    Ledger(LedgerArgs),
    /// Build, lock, push and remove images
    #[command(subcommand, after_help = exit_codes!())]
    Images(ImagesCommand),
    /// List, show and check suites; check a program of your own
    #[command(subcommand)]
    Scenarios(ScenariosCommand),
    /// Say what works on this machine, and the fix where something does not
    Doctor(DoctorArgs),
    /// Print completions for a shell
    #[command(
        after_help = "For bash, into ~/.local/share/bash-completion/completions/torchgauge; for zsh, into \
        a file _torchgauge in a folder of $fpath; for fish, into \
        ~/.config/fish/completions/torchgauge.fish."
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages: `torchgauge.1`, and one for each command
    Man {
        /// Where to write them, such as ~/.local/share/man/man1
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Pack this program with suites, image specs, completions and manual into archive and wheel, for
    /// machines that build nothing; needs a checkout
    Dist(DistArgs),
    /// Run the whole test suite; needs a checkout
    Test(TestArgs),
    /// Write schemas, pages, snapshots and the gallery anew; needs a checkout
    Codegen,
}

#[tokio::main]
async fn main() -> ExitCode {
    protocol::set_program(workspace::program());
    let printer = Printer::new();
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
        Command::Attribution(args) => commands::attribution::run(args, &printer).await,
        Command::Bisect(args) => commands::bisect::run(args, &printer).await,
        Command::Claims(args) => commands::claims::run(args, &printer),
        Command::Compare(args) => commands::compare::run(args, &printer),
        Command::Doctor(args) => commands::doctor::run(args, &printer).await,
        Command::Driver(command) => commands::driver::run(command, &printer).await,
        Command::History(args) => commands::history::run(args, &printer),
        Command::Ledger(args) => commands::ledger::run(args, &printer),
        Command::Images(command) => commands::images::run(command, &printer).await,
        Command::Fit(args) => commands::fit::run(args, &printer).await,
        Command::Node(args) => commands::node::run(args, &printer).await,
        Command::Pod(command) => commands::pod::run(command, &printer).await,
        Command::Report(args) => commands::report::run(args, &printer),
        Command::Scenarios(command) => commands::scenarios::run(command, &printer),
        Command::Site(args) => commands::site::run(args, &printer),
        Command::Trend(args) => commands::trend::run(args, &printer),
        Command::Completions { shell } => {
            commands::shell::completions(*shell, Cli::command(), &printer);
            Ok(())
        }
        Command::Man { folder } => commands::shell::man(folder, Cli::command(), &printer),
        Command::Dist(args) => commands::dist::run(args, &printer),
        Command::Test(args) => commands::test::run(args, &printer).await,
        Command::Codegen => commands::codegen::run(&printer),
    };
    // A gate's answer comes before where it could not be written.
    match ended.and_then(|()| printer.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer.error(&error);
            error.exit_code()
        }
    }
}
