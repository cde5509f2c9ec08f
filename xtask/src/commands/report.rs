//! `cargo xtask report`: draw sessions that have run.

use record::SessionFolder;

use crate::{cli::ReportArgs, error::Result, printer::Printer};

/// Writes the three files and says where.
pub(crate) fn run(args: &ReportArgs, printer: &Printer) -> Result<()> {
    let folders: Vec<SessionFolder> = args.sessions.iter().map(SessionFolder::at).collect();
    let out = args.out.as_ref().unwrap_or(&args.sessions[0]);
    let written = reports::write(&folders, out)?;
    for path in [written.html, written.markdown, written.json] {
        printer.line(&path.display().to_string());
    }
    Ok(())
}
