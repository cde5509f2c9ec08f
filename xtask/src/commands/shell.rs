//! `completions` and `man`: what a shell and `man` know of this program, by its installed name.

use std::{fs, path::Path};

use clap::Command;
use clap_complete::Shell;

use crate::{
    error::{Result, writing},
    printer::Printer,
};

const NAME: &str = "torchgauge";

/// Prints the completions of one shell.
pub(crate) fn completions(shell: Shell, program: Command, printer: &Printer) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program.bin_name(NAME), NAME, &mut script);
    printer.verbatim(&String::from_utf8_lossy(&script));
}

/// Writes the manual pages into a folder.
pub(crate) fn man(folder: &Path, program: Command, printer: &Printer) -> Result<()> {
    let failed = writing(folder);
    fs::create_dir_all(folder).map_err(&failed)?;
    clap_mangen::generate_to(program.bin_name(NAME), folder).map_err(&failed)?;
    printer.line(&format!("manual pages in {}", folder.display()));
    Ok(())
}
