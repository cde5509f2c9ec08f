//! What is said where nothing fits what was asked for.

use std::collections::BTreeSet;

use history::{History, SeriesFilter, SessionFilter};

use crate::{
    cli::SeriesArgs,
    commands::history::series_filter,
    error::{Error, Result},
};

/// More names than these are counted.
const MOST_NAMES: usize = 8;

/// Names what was looked for and what there is.
pub(super) fn nothing(history: &History, args: &SeriesArgs) -> Result<Error> {
    let all = history.series(&SeriesFilter::default())?;
    if all.is_empty() {
        return Ok(Error::NothingToFollow {
            message: format!(
                "the history {} has no series yet; `cargo xtask history add SESSION` adds some",
                history.path().display()
            ),
        });
    }
    let filter = series_filter(args);
    let asked = [
        ("machine", &filter.machine),
        ("device", &filter.device),
        ("driver", &filter.driver),
        ("image", &filter.image),
        ("suite", &filter.suite),
        ("scenario", &filter.scenario),
        ("variant", &filter.variant),
        ("metric", &filter.metric),
    ];
    let mut wanted = Vec::new();
    let mut there = Vec::new();
    for (name, pattern) in asked {
        let Some(pattern) = pattern else { continue };
        wanted.push(format!("--{name} {pattern}"));
        let values = all.iter().flat_map(|info| info.key.parts());
        let values = values.filter(|(part, _)| *part == name);
        there.push(of(name, values.map(|(_, value)| value.to_owned())));
    }
    if let Some(branch) = &args.branch {
        wanted.push(format!("--branch {branch}"));
        let sessions = history.sessions(&SessionFilter::default())?;
        let branches = sessions.into_iter().filter_map(|session| session.branch);
        there.push(of("branch", branches));
    }
    Ok(Error::NothingToFollow {
        message: format!(
            "no series with a point fits {}; the history has {}",
            wanted.join(" "),
            there.join(", ")
        ),
    })
}

/// `metric a or b`.
fn of(name: &str, values: impl Iterator<Item = String>) -> String {
    let values: BTreeSet<String> = values.filter(|value| !value.is_empty()).collect();
    let count = values.len();
    if count == 0 {
        return format!("no {name}");
    }
    let mut told: Vec<String> = values.into_iter().take(MOST_NAMES).collect();
    if count > MOST_NAMES {
        told.push(format!("{} more", count - MOST_NAMES));
    }
    reports::format::clean(&format!("{name} {}", told.join(" or ")))
}
