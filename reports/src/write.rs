//! Files of a report, whole or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use record::FolderError;

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("no session to report on; give the folder of at least one")]
    Nothing,
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot render the page: {0}")]
    Page(#[from] askama::Error),
    #[error("cannot write the metrics as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("cannot write {path}: {source}; check the folder's permissions and the disk's space")]
    Write { path: PathBuf, source: io::Error },
}

/// What a report is written as, with the names of the files.
pub(crate) type Files = [(&'static str, String); 3];

/// Writes files into a folder, which is made where it is not there: either all are new or none is,
/// and nothing half-written takes the room of a full disk.
pub fn write_files(out: &Path, files: &[(&str, String)]) -> Result<(), ReportError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReportError::Write { path, source }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    let fresh = |name: &str| out.join(format!("{name}.new"));
    let write = || {
        for (name, text) in files {
            let fresh = fresh(name);
            fs::write(&fresh, text).map_err(failed(&fresh))?;
        }
        for (name, _) in files {
            let path = out.join(name);
            fs::rename(fresh(name), &path).map_err(failed(&path))?;
        }
        Ok(())
    };
    let written = write();
    if written.is_err() {
        for (name, _) in files {
            let _ = fs::remove_file(fresh(name));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_whole_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b.new")).unwrap();
        let files = ["a", "b"].map(|name| (name, "text".to_owned()));
        let error = write_files(folder.path(), &files).unwrap_err().to_string();
        assert!(error.contains("b.new"), "{error}");
        assert!(!folder.path().join("a.new").exists());
        assert!(!folder.path().join("a").exists());
    }
}
