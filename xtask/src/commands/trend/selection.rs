//! What is said where nothing fits what was asked for.

use std::collections::BTreeSet;

use history::{Aggregate, History, PointFilter, SeriesFilter, SessionFilter, SessionInfo};

use crate::{cli::history::SeriesArgs, error::Error};

/// What sessions say of one attribute of their points.
type Values = fn(&SessionInfo) -> Vec<String>;

/// More names than these are counted.
const MOST_NAMES: usize = 8;

/// Names what was looked for and what there is.
pub(super) fn nothing(history: &History, args: &SeriesArgs) -> Error {
    let contents = history.read(&SeriesFilter::default());
    let all = contents.series(&PointFilter::default(), Aggregate::Session);
    if all.is_empty() {
        return Error::Input(format!(
            "the history {} has no series yet; `{} history add SESSION` adds some",
            history.folder().display(),
            protocol::program()
        ));
    }
    let mut wanted = Vec::new();
    let mut there = Vec::new();
    for (name, pattern) in args.filter().patterns() {
        let Some(pattern) = pattern else { continue };
        wanted.push(format!("--{name} {pattern}"));
        let values = all.iter().flat_map(|one| one.info.key.parts());
        let values = values.filter(|(part, _)| *part == name);
        there.push(of(name, values.map(|(_, value)| value.to_owned())));
    }
    let sessions = contents.sessions(&SessionFilter::default());
    let of_points: [(_, _, Values); 3] = [
        ("image", &args.image, |session| session.images.clone()),
        ("driver", &args.driver, |session| {
            vec![session.driver.clone()]
        }),
        ("branch", &args.branch, |session| {
            session.branch.clone().into_iter().collect()
        }),
    ];
    for (name, pattern, values) in of_points {
        let Some(pattern) = pattern else { continue };
        wanted.push(format!("--{name} {pattern}"));
        there.push(of(name, sessions.iter().flat_map(values)));
    }
    Error::Input(format!(
        "no series with a point fits {}; the history has {}",
        wanted.join(" "),
        there.join(", ")
    ))
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
