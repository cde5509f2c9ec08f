//! The report of one or more sessions.

mod behind;
pub(crate) mod cells;
mod facts;
pub mod html;
pub mod markdown;
mod matrix;
mod ranks;
pub(crate) mod sections;
pub mod text;
mod topology;

use std::path::{Path, PathBuf};

use record::SessionFolder;

use crate::{
    model::{Source, View},
    render::json,
    write::{Files, ReportError, write_files},
};

/// Draws `report.html`, `report.md` and `report.json` of these sessions into `out`, which is
/// made where it is not there. Either all three are new or none is.
pub fn write(folders: &[SessionFolder], out: &Path) -> Result<[PathBuf; 3], ReportError> {
    if folders.is_empty() {
        return Err(ReportError::Nothing);
    }
    let sources = folders
        .iter()
        .map(Source::read)
        .collect::<Result<Vec<_>, _>>()?;
    let files = files(&View::of(&sources))?;
    write_files(out, &files)?;
    Ok(files.map(|(name, _)| out.join(name)))
}

pub(crate) fn files(view: &View) -> Result<Files, ReportError> {
    Ok([
        ("report.html", html::render(view)?),
        ("report.md", markdown::render(view)),
        ("report.json", json::render(&view.report)?),
    ])
}
