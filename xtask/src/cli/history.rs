//! Which history, and which of its series.

use std::path::{Path, PathBuf};

use clap::Args;
use history::{Aggregate, Contents, History, PointFilter, Series, SeriesFilter};

use super::IgnoreArgs;
use crate::{
    error::{Error, Result},
    printer::Printer,
};

/// Where the history is.
#[derive(Debug, Clone, Args)]
pub(crate) struct HistoryFolder {
    /// The history's folder; default: in the user's data folder
    #[arg(long, value_name = "DIR", env = "TORCHGAUGE_HISTORY", global = true)]
    pub(crate) history: Option<PathBuf>,
}

impl HistoryFolder {
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let chosen = self.history.clone();
        let chosen = chosen.or_else(History::default_folder);
        chosen.ok_or_else(|| {
            let message = "this user has no data folder to keep the history in; name a folder with \
                           --history DIR";
            Error::Input(message.to_owned())
        })
    }

    /// One that is there.
    pub(crate) fn existing(&self) -> Result<History> {
        Ok(History::existing(self.path()?)?)
    }
}

/// Reads a history, and names the files that are left out.
pub(crate) fn read(history: &History, filter: &SeriesFilter, printer: &Printer) -> Contents {
    let contents = history.read(filter);
    for why in &contents.left_out {
        printer.note(&format!("warning: {why}"));
    }
    contents
}

/// Which series; `*` matches any characters.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SeriesArgs {
    /// Of these machines
    #[arg(long, value_name = "PATTERN")]
    pub(crate) machine: Option<String>,
    /// On these GPUs or CPUs
    #[arg(long, value_name = "PATTERN")]
    pub(crate) device: Option<String>,
    /// Along these tracks of images
    #[arg(long, value_name = "PATTERN")]
    pub(crate) track: Option<String>,
    /// Of these suites
    #[arg(long, value_name = "PATTERN")]
    pub(crate) suite: Option<String>,
    /// Of these scenarios
    #[arg(long, value_name = "PATTERN")]
    pub(crate) scenario: Option<String>,
    /// Of these variants, as reports write them
    #[arg(long, value_name = "PATTERN")]
    pub(crate) variant: Option<String>,
    /// Of these metrics
    #[arg(long, value_name = "PATTERN")]
    pub(crate) metric: Option<String>,
    /// Points of these images
    #[arg(long, value_name = "PATTERN")]
    pub(crate) image: Option<String>,
    /// Points under these drivers
    #[arg(long, value_name = "PATTERN")]
    pub(crate) driver: Option<String>,
    /// Points from sessions on these branches
    #[arg(long, value_name = "PATTERN")]
    pub(crate) branch: Option<String>,
    #[command(flatten)]
    pub(crate) method: IgnoreArgs,
}

impl SeriesArgs {
    /// Which series the user asks for.
    pub(crate) fn filter(&self) -> SeriesFilter {
        SeriesFilter {
            machine: self.machine.clone(),
            device: self.device.clone(),
            track: self.track.clone(),
            suite: self.suite.clone(),
            scenario: self.scenario.clone(),
            variant: self.variant.clone(),
            metric: self.metric.clone(),
            gated_or: None,
        }
    }

    /// Which of their points.
    pub(crate) fn points(&self) -> PointFilter {
        PointFilter {
            branch: self.branch.clone(),
            image: self.image.clone(),
            driver: self.driver.clone(),
        }
    }

    /// The series, those of ignored methods as one.
    pub(crate) fn read(&self, history: &History, of: Aggregate, printer: &Printer) -> Vec<Series> {
        let contents = read(history, &self.filter(), printer);
        history::join(contents.series(&self.points(), of), &self.method.ignore)
    }
}

/// The history that was named. A runner names its own for all commands, before the first session is
/// in it.
pub(crate) fn named(folder: Option<&Path>) -> Result<Option<History>> {
    let Some(path) = folder else {
        return Ok(None);
    };
    let is_usual = std::env::var_os("TORCHGAUGE_HISTORY").is_some_and(|usual| usual == path);
    if is_usual && !path.exists() {
        return Ok(None);
    }
    Ok(Some(History::existing(path)?))
}
