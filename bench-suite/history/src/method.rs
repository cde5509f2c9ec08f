//! Series that are the same in everything but their method: what tells them apart, and following
//! several as one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use record::{Method, MethodKey};

use crate::{Attributes, JoinedMethod, Series, SeriesInfo, SeriesKey};

/// Puts series together whose methods differ in nothing but `ignore`: the one with the newest point
/// goes on, and has the others in [`SeriesInfo::joined`]. Settings in which they differ become
/// attributes of their points, such as `method.limits.cpus`.
pub fn join(all: Vec<Series>, ignore: &[MethodKey]) -> Vec<Series> {
    if ignore.is_empty() {
        return all;
    }
    let mut groups: BTreeMap<(SeriesKey, String), Vec<Series>> = BTreeMap::new();
    for one in all {
        let info = &one.info;
        let alike = match &info.settings {
            _ if MethodKey::any_is_whole(ignore) => String::new(),
            Some(settings) => settings.clone().without(ignore).to_string(),
            None => format!("not known: {}", info.key.method),
        };
        let group = (info.key.without_method(), alike);
        groups.entry(group).or_default().push(one);
    }
    let mut joined: Vec<Series> = groups.into_values().filter_map(as_one).collect();
    joined.sort_by(|a, b| a.info.key.cmp(&b.info.key));
    joined
}

fn as_one(mut group: Vec<Series>) -> Option<Series> {
    group.sort_by(|a, b| {
        let newest = |one: &Series| one.info.newest.unwrap_or(f64::NEG_INFINITY);
        newest(a).total_cmp(&newest(b))
    });
    let methods = group
        .iter()
        .map(|one| (&*one.info.key.method, one.info.settings.as_ref()));
    let values = values(&methods.collect::<Vec<_>>());
    for (one, values) in group.iter_mut().zip(values) {
        let attributes = values.into_iter().map(|(key, value)| match &*key {
            "" => ("method".to_owned(), value),
            key => (format!("method.{key}"), value),
        });
        let attributes: Attributes = attributes.collect();
        for point in &mut one.points {
            let origin = Arc::make_mut(&mut point.origin);
            Arc::make_mut(&mut origin.attributes).extend(attributes.clone());
        }
    }
    let mut last = group.pop()?;
    for one in group {
        let info = &mut last.info;
        info.points += one.info.points;
        let both = [info.oldest, one.info.oldest];
        info.oldest = both.into_iter().flatten().reduce(f64::min);
        info.joined.push(JoinedMethod {
            method: one.info.key.method,
            settings: one.info.settings,
        });
        last.points.extend(one.points);
    }
    last.points
        .sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
    Some(last)
}

/// What tells the method of each series from those of its siblings, which are the same in
/// everything else: value by setting. Nothing for a series without siblings. The setting `""`
/// stands for a whole method where the history does not know the settings of all.
pub fn told_apart(all: &[&SeriesInfo]) -> Vec<BTreeMap<String, String>> {
    let mut groups: BTreeMap<SeriesKey, Vec<usize>> = BTreeMap::new();
    for (place, info) in all.iter().enumerate() {
        let alike = groups.entry(info.key.without_method());
        alike.or_default().push(place);
    }
    let mut told = vec![BTreeMap::new(); all.len()];
    for places in groups.into_values().filter(|places| places.len() > 1) {
        let methods = places.iter().map(|place| {
            let info = all[*place];
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
    let others = known.iter().skip(1);
    let differences = others.flat_map(|other| known[0].told_apart(other));
    let keys: BTreeSet<String> = differences.map(|one| one.key).collect();
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
