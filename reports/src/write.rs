//! From session folders to files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use record::{FolderError, SessionFolder};

use crate::{Past, Source, View, html, json, markdown};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No session was given.
    #[error("no session to report on; give the folder of at least one")]
    Nothing,
    /// A session cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The page cannot be put together.
    #[error("cannot render the page: {0}")]
    Page(#[from] askama::Error),
    /// The metrics cannot be written as JSON.
    #[error("cannot write the metrics as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A file cannot be written.
    #[error("cannot write {path}: {source}; check the folder's permissions and the disk's space")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub html: PathBuf,
    /// For a pull request.
    pub markdown: PathBuf,
    /// For programs.
    pub json: PathBuf,
}

/// Draws `report.html`, `report.md` and `report.json` of these sessions into `out`, which is
/// made where it is not there. Either all three are new or none is.
pub fn write(folders: &[SessionFolder], out: &Path) -> Result<Written, ReportError> {
    write_with(folders, Vec::new(), out)
}

/// As [`write()`], with what a history knows of the metrics beside them.
pub fn write_with(
    folders: &[SessionFolder],
    past: Vec<Past>,
    out: &Path,
) -> Result<Written, ReportError> {
    if folders.is_empty() {
        return Err(ReportError::Nothing);
    }
    let sources = folders
        .iter()
        .map(Source::read)
        .collect::<Result<Vec<_>, _>>()?;
    let files = files(&View::of(&sources).with_past(past))?;
    let [html, markdown, json] = files.each_ref().map(|(name, _)| out.join(name));
    write_files(out, &files)?;
    Ok(Written {
        html,
        markdown,
        json,
    })
}

/// The files of a report, each with its name.
pub(crate) fn files(view: &View) -> Result<[(&'static str, String); 3], ReportError> {
    Ok([
        ("report.html", html::render(view)?),
        ("report.md", markdown::render(view)),
        ("report.json", json::render(&view.report)?),
    ])
}

/// Writes files into a folder, which is made where it is not there: either all are new or none is.
pub fn write_files(out: &Path, files: &[(&str, String)]) -> Result<(), ReportError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReportError::Write { path, source }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    for (name, text) in files {
        let fresh = out.join(format!("{name}.new"));
        fs::write(&fresh, text).map_err(failed(&fresh))?;
    }
    for (name, _) in files {
        let path = out.join(name);
        fs::rename(out.join(format!("{name}.new")), &path).map_err(failed(&path))?;
    }
    Ok(())
}
