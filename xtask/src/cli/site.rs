//! `site`.

use std::path::PathBuf;

use clap::Args;

use super::Format;

#[derive(Debug, Clone, Args)]
#[command(
    after_help = concat!(
        "The site is written beside DIR and takes its place when it is whole. Pages that would come \
         out the same are taken over from the site that is there. A damaged session is an error \
         where it is named, and left out with a note where it lies below a folder.\n\n",
        exit_codes!()
    )
)]
pub(crate) struct SiteArgs {
    /// Folders of sessions, of comparisons (`compare --out`) and of searches (`fit --out`), or
    /// folders with such in or below them
    #[arg(value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
    /// The site's folder: not there yet, empty, or a site
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Its heading
    #[arg(long, value_name = "TEXT", default_value = "Torchgauge")]
    pub(crate) title: String,
    /// Markdown about what it shows, copied to the site as about.md
    #[arg(long, value_name = "FILE.md")]
    pub(crate) about: Option<PathBuf>,
    /// The history whose trends it shows; without it none are
    #[arg(long, value_name = "FILE", env = "TORCHGAUGE_HISTORY")]
    pub(crate) db: Option<PathBuf>,
    /// Draw every page, those that did not change too
    #[arg(long)]
    pub(crate) redraw: bool,
    /// How to print what was drawn
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
