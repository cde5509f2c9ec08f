//! What a history knows of the metrics of sessions that are drawn.

use std::{collections::HashMap, path::Path};

use history::{Aggregate, History, Point, PointFilter, SeriesFilter, SeriesInfo, SeriesKey};
use metrics::Metric;
use record::Session;
use reports::Past;

use crate::{commands::trend::follow, error::Result};

/// The series of the history that was named that these sessions are points of: of the metrics that
/// fail a comparison and of those that answer a suite's question. Nothing where none was named: a
/// report is not to depend on what else lies on the machine.
pub(crate) fn of(db: Option<&Path>, sessions: &[Session]) -> Result<Vec<Past>> {
    let Some(history) = named(db)? else {
        return Ok(Vec::new());
    };
    let mut past = Vec::new();
    for session in sessions {
        let filter = SeriesFilter {
            machine: Some(session.machine.name.clone()),
            ..SeriesFilter::default()
        };
        let mut read = Vec::new();
        for info in history.series(&filter)? {
            if is_followed(&info.key, session) {
                let points =
                    history.points(&info.key, &PointFilter::default(), Aggregate::Session)?;
                read.push((info, points));
            }
        }
        past.extend(of_session(&session.session, read)?);
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
fn of_session(session: &str, read: Vec<(SeriesInfo, Vec<Point>)>) -> Result<Vec<Past>> {
    let mut images = Vec::new();
    let mut own = Vec::new();
    for (info, mut points) in read {
        let is_own = |point: &Point| point.session.as_deref() == Some(session);
        if let Some(place) = points.iter().position(is_own) {
            let image = points[place].attributes.get("image");
            images.push(image.cloned().unwrap_or_default());
            points.truncate(place + 1);
            own.push((info, points));
        }
    }
    let past = follow(own, &HashMap::new())?.into_iter().zip(images);
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
pub(crate) fn named(db: Option<&Path>) -> Result<Option<History>> {
    let Some(path) = db else {
        return Ok(None);
    };
    let is_usual = std::env::var_os("TORCHGAUGE_HISTORY").is_some_and(|usual| usual == path);
    if is_usual && !path.exists() {
        return Ok(None);
    }
    Ok(Some(History::open_existing(path)?))
}
