//! Where the history lies by default.

use std::path::PathBuf;

use etcetera::base_strategy::{BaseStrategy, Xdg};

/// `$XDG_DATA_HOME/torchgauge/history.sqlite`, by default
/// `~/.local/share/torchgauge/history.sqlite`; `None` where there is no home folder.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let strategy = Xdg::new().ok()?;
    Some(
        strategy
            .data_dir()
            .join("torchgauge")
            .join("history.sqlite"),
    )
}
