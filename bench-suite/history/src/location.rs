//! Where the history lies.

use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy, Xdg};

/// `$XDG_DATA_HOME/torchgauge/history.sqlite`, by default
/// `~/.local/share/torchgauge/history.sqlite`; `None` where there is no home folder.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let strategy = Xdg::new().ok()?;
    Some(strategy.data_dir().join("torchgauge/history.sqlite"))
}

/// The folder with what a database is made of: `history.sqlite.sources`.
pub(crate) fn sources_of(database: &Path) -> PathBuf {
    with_suffix(database, ".sources")
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The folder that a file lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// With everything escaped, as in a URI, that could mean something in one or in a file's name.
pub(crate) fn escaped(bytes: &[u8], plain: &[u8]) -> String {
    let escape = |byte: &u8| {
        if byte.is_ascii_alphanumeric() || plain.contains(byte) {
            char::from(*byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    bytes.iter().map(escape).collect()
}
