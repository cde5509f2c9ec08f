//! The hook for Python programs, as it lies in `scenarios/python`.

use std::{ffi::OsString, fs, io, os::unix::fs::PermissionsExt as _, path::Path};

const FILES: [(&str, &str); 3] = [
    (
        "torchgauge.py",
        include_str!("../../scenarios/python/torchgauge.py"),
    ),
    (
        "torchgauge_hook.py",
        include_str!("../../scenarios/python/hook/torchgauge_hook.py"),
    ),
    (
        "sitecustomize.py",
        include_str!("../../scenarios/python/hook/sitecustomize.py"),
    ),
];

/// What a program must be for it to report anything.
pub const NEEDS: &str = "the hook needs a Python without -I, -E and -S that imports torch";

/// Writes the hook's files into a folder that is there; everybody may read them.
pub fn write(folder: &Path) -> io::Result<()> {
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    allow(folder, 0o755)?;
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::write(&path, text)?;
        allow(&path, 0o644)?;
    }
    Ok(())
}

/// `PYTHONPATH` with the hook's folder before all that was there.
pub fn python_path(folder: OsString, before: Option<OsString>) -> OsString {
    let mut path = folder;
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    path
}
