//! What a history knows of the metrics of sessions that are drawn.

use std::path::Path;

use history::{Aggregate, History, Point, PointFilter, Series, SeriesFilter, SeriesKey};
use metrics::Metric;
use record::Session;
use reports::Past;

use crate::{cli::history::read, commands::trend::follow, error::Result, printer::Printer};

/// The series of the history that was named that these sessions are points of: of the metrics that
/// fail a comparison and of those that answer a suite's question. Nothing where none was named: a
/// report is not to depend on what else lies on the machine.
pub(crate) fn of(
    folder: Option<&Path>,
    sessions: &[Session],
    printer: &Printer,
) -> Result<Vec<Past>> {
    let Some(history) = named(folder)? else {
        return Ok(Vec::new());
    };
    let mut past = Vec::new();
    for session in sessions {
        let asked = session.questions.values();
        let filter = SeriesFilter {
            machine: Some(session.machine_names()),
            gated_or: Some(asked.flat_map(|one| one.answered_by.clone()).collect()),
            ..SeriesFilter::default()
        };
        let contents = read(&history, &filter, printer);
        let mut all = contents.series(&PointFilter::default(), Aggregate::Session);
        all.retain(|one| is_followed(&one.info.key, session));
        past.extend(of_session(&session.session, all)?);
    }
    Ok(past)
}

/// Whether a series is of a metric that a report of this session is about.
fn is_followed(key: &SeriesKey, session: &Session) -> bool {
    let asked = session.questions.get(&key.suite);
    let is_asked = asked.is_some_and(|asked| asked.answered_by.contains(&key.metric));
    let is_gated = Metric::named(&key.metric).is_some_and(Metric::is_gated);
    session.suites.contains_key(&key.suite) && (is_gated || is_asked)
}

/// Those of these series that a session is a point of, up to that point.
fn of_session(session: &str, read: Vec<Series>) -> Result<Vec<Past>> {
    let mut images = Vec::new();
    let mut own = Vec::new();
    for mut one in read {
        let is_own = |point: &Point| point.origin.session == session;
        if let Some(place) = one.points.iter().position(is_own) {
            let image = one.points[place].origin.attributes.get("image");
            images.push(image.cloned().unwrap_or_default());
            one.points.truncate(place + 1);
            own.push(one);
        }
    }
    let past = follow(own)?.into_iter().zip(images);
    let past = past.map(|(one, image)| Past {
        cell: one.series.key.cell(),
        image,
        metric: one.series.key.metric.clone(),
        series: one.shown(),
        href: None,
    });
    Ok(past.collect())
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
