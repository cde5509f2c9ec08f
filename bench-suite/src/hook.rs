//! The hook for Python programs, as it lies in `scenarios/python`.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// What starts the ranks of a program that does not start them itself.
const RANKS: &str = "torchgauge_ranks.py";

const FILES: [(&str, &str); 4] = [
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
    (
        RANKS,
        include_str!("../../scenarios/python/hook/torchgauge_ranks.py"),
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

/// The command that starts another one once for each of so many ranks and ends them together: by the
/// Python of that command, where it is one. The hook is not in it, so it is taken for no rank.
pub fn of_ranks(folder: &Path, events: &Path, count: u32, command: &[String]) -> Vec<String> {
    let name = command.first().map(Path::new).and_then(Path::file_name);
    let is_python = name.and_then(OsStr::to_str);
    let is_python = is_python.is_some_and(|name| name.starts_with("python"));
    let python = command.first().filter(|_| is_python);
    let (launcher, events) = (folder.join(RANKS), events.display().to_string());
    let mut whole = vec![
        python.map_or("python3", String::as_str).to_owned(),
        "-IS".to_owned(),
        launcher.display().to_string(),
        count.to_string(),
        events,
    ];
    whole.extend_from_slice(command);
    whole
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
