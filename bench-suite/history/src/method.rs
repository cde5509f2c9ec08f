//! Series that are the same in everything but their method: what tells them apart, and following
//! several as one.

use std::collections::{BTreeMap, BTreeSet};

use record::{Method, MethodKey};
use rusqlite::Connection;
use serde::Serialize;

use crate::{Aggregate, Point, PointFilter, SeriesInfo, SeriesKey, series, sql::Json};

/// The method of a series that another one is joined with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JoinedMethod {
    /// Its fingerprint, as in [`SeriesKey::method`].
    pub method: String,
    /// Its settings; `None` where the history does not know them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Method>,
}

/// Puts series together whose methods differ in nothing but `ignore`: the one with the newest point
/// goes on, and has the others in [`SeriesInfo::joined`].
#[must_use]
pub fn join(all: Vec<SeriesInfo>, ignore: &[MethodKey]) -> Vec<SeriesInfo> {
    if ignore.is_empty() {
        return all;
    }
    let mut groups: BTreeMap<(SeriesKey, String), Vec<SeriesInfo>> = BTreeMap::new();
    for info in all {
        let alike = match &info.settings {
            _ if MethodKey::any_is_whole(ignore) => String::new(),
            Some(settings) => settings.clone().without(ignore).to_string(),
            None => format!("not known: {}", info.key.method),
        };
        let group = (info.key.without_method(), alike);
        groups.entry(group).or_default().push(info);
    }
    let mut joined: Vec<SeriesInfo> = groups.into_values().filter_map(as_one).collect();
    joined.sort_by(|a, b| a.key.cmp(&b.key));
    joined
}

fn as_one(mut group: Vec<SeriesInfo>) -> Option<SeriesInfo> {
    let newest = |info: &SeriesInfo| info.newest.unwrap_or(f64::NEG_INFINITY);
    group.sort_by(|a, b| newest(a).total_cmp(&newest(b)));
    let mut last = group.pop()?;
    for info in group {
        last.points += info.points;
        last.oldest = [last.oldest, info.oldest]
            .into_iter()
            .flatten()
            .reduce(f64::min);
        last.joined.push(JoinedMethod {
            method: info.key.method,
            settings: info.settings,
        });
    }
    Some(last)
}

/// What tells the method of each series from those of its siblings, which are the same in
/// everything else: value by setting. Nothing for a series without siblings. The setting `""`
/// stands for a whole method where the history does not know the settings of all.
#[must_use]
pub fn told_apart(all: &[SeriesInfo]) -> Vec<BTreeMap<String, String>> {
    let mut groups: BTreeMap<SeriesKey, Vec<usize>> = BTreeMap::new();
    for (place, info) in all.iter().enumerate() {
        groups
            .entry(info.key.without_method())
            .or_default()
            .push(place);
    }
    let mut told = vec![BTreeMap::new(); all.len()];
    for places in groups.into_values().filter(|places| places.len() > 1) {
        let methods = places.iter().map(|place| {
            let info = &all[*place];
            (info.key.method.as_str(), info.settings.as_ref())
        });
        for (place, values) in places.iter().zip(values(&methods.collect::<Vec<_>>())) {
            told[*place] = values;
        }
    }
    told
}

/// The values of the settings in which methods differ, method by method.
fn values(methods: &[(&str, Option<&Method>)]) -> Vec<BTreeMap<String, String>> {
    let known: Vec<&Method> = methods
        .iter()
        .filter_map(|(_, settings)| *settings)
        .collect();
    let keys: BTreeSet<String> = known
        .iter()
        .skip(1)
        .flat_map(|other| known[0].told_apart(other))
        .map(|difference| difference.key)
        .collect();
    let all_known = known.len() == methods.len();
    let of_one = |(fingerprint, settings): &(&str, Option<&Method>)| {
        let value = |key: &String| Some((key.clone(), (*settings)?.shown(key).to_owned()));
        let mut values: BTreeMap<String, String> = keys.iter().filter_map(value).collect();
        if !all_known {
            let word = match *fingerprint {
                "" => "not recorded",
                other => other,
            };
            values.insert(String::new(), word.to_owned());
        }
        values
    };
    methods.iter().map(of_one).collect()
}

/// The points of a series and of those that it is joined with, in order of time. Settings in which
/// they differ are attributes, such as `method.limits.cpus`. `None` where there is no such series.
pub(crate) fn points_of(
    connection: &Connection,
    info: &SeriesInfo,
    filter: &PointFilter,
    aggregate: Aggregate,
) -> rusqlite::Result<Option<Vec<Point>>> {
    if info.joined.is_empty() {
        return series::points(connection, &info.key, filter, aggregate);
    }
    let others = info.joined.iter();
    let mut methods: Vec<(&str, Option<&Method>)> = others
        .map(|one| (one.method.as_str(), one.settings.as_ref()))
        .collect();
    methods.push((&info.key.method, info.settings.as_ref()));
    let mut all = Vec::new();
    for ((method, _), values) in methods.iter().zip(values(&methods)) {
        let key = SeriesKey {
            method: (*method).to_owned(),
            ..info.key.clone()
        };
        let Some(points) = series::points(connection, &key, filter, aggregate)? else {
            return Ok(None);
        };
        for mut point in points {
            let attributes = values.iter().map(|(key, value)| {
                let name = match key.as_str() {
                    "" => "method".to_owned(),
                    key => format!("method.{key}"),
                };
                (name, value.clone())
            });
            point.attributes.extend(attributes);
            all.push(point);
        }
    }
    all.sort_by(|a: &Point, b| a.timestamp.total_cmp(&b.timestamp));
    Ok(Some(all))
}

/// Keeps the settings of a method, by its fingerprint.
pub(crate) fn keep(
    connection: &Connection,
    fingerprint: &str,
    settings: &Method,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO methods VALUES (?, ?)")?
        .execute((fingerprint, Json(settings)))?;
    Ok(())
}
