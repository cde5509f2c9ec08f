//! A series with what was found in it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use history::{Place, SeriesInfo, SeriesKey, moment};
use jiff::Timestamp;
use judge::{
    compare::Verdict,
    trend::{Point, Staleness, Trend, staleness},
};
use metrics::Metric;
use record::Method;
use reports::{
    format,
    trend::{AttributeChange, Failure, MethodChange, MethodChanges, Series},
};
use serde::Serialize;

use super::DAY_SECONDS;

/// One series with what was found in it.
#[derive(Debug, Serialize)]
pub(crate) struct Followed {
    #[serde(flatten)]
    pub(crate) series: SeriesInfo,
    #[serde(flatten)]
    pub(super) found: Trend,
    pub(super) staleness: Option<Staleness>,
    /// What the newest run's level is against the one before, where it brought a new one to
    /// light.
    pub(super) verdict: Option<Verdict>,
    /// How sure that is among all series that the gate looks at: the smallest false discovery
    /// rate at which it would count.
    pub(super) q: Option<f64>,
    /// What was upgraded or replaced with a change point.
    pub(super) attribute_changes: Vec<AttributeChange>,
    /// Where another method took over.
    #[serde(skip_serializing_if = "MethodChanges::is_empty")]
    pub(super) methods: MethodChanges,
    /// The settings that tell its method from those of its siblings.
    #[serde(skip)]
    pub(super) told_apart: BTreeMap<String, String>,
    /// The largest relative change that counts as none, as in a comparison: what the suite of the
    /// newest session sets, else the metric's default; 0 for series from elsewhere.
    pub(super) threshold: f64,
    pub(super) gated: bool,
    /// Why the gate fails it; empty where it does not.
    pub(super) fails: Vec<Failure>,
    /// The entries of the ledger that it is in, by ID.
    pub(super) entries: Vec<String>,
    #[serde(skip)]
    pub(super) news: Option<usize>,
    #[serde(skip)]
    pub(crate) points: Vec<Point>,
    /// What each point is to the ledger.
    #[serde(skip)]
    pub(super) places: Vec<Place>,
    /// Whether somebody said which way is better.
    #[serde(skip)]
    pub(super) directed: bool,
}

impl Followed {
    /// A series in which these changes were found, the newest of them news or not.
    pub(super) fn new(
        series: SeriesInfo,
        points: Vec<Point>,
        found: Trend,
        news: Option<usize>,
    ) -> Self {
        let last = news.map(|place| &found.change_points[place]);
        let places = points.iter().map(|point| Place {
            time: moment(point.timestamp),
            revision: point.revision.clone(),
            attributes: Arc::default(),
        });
        Self {
            places: places.collect(),
            verdict: last.map(|change| change.verdict(series.direction)),
            staleness: None,
            found,
            q: None,
            attribute_changes: Vec::new(),
            methods: MethodChanges::default(),
            told_apart: BTreeMap::new(),
            threshold: series.threshold.unwrap_or(0.0),
            gated: false,
            fails: Vec::new(),
            entries: Vec::new(),
            series,
            news,
            points,
            directed: true,
        }
    }

    /// As [`Self::new`], with what the history knows of each point. The cells of one session are
    /// measured one after the other, and belong to the moment at which it began.
    pub(super) fn of_history(
        series: history::Series,
        mut found: Trend,
        news: Option<usize>,
    ) -> Self {
        let history::Series { info, points } = series;
        let mut attribute_changes = Vec::new();
        for change in &mut found.change_points {
            change
                .revision
                .clone_from(&points[change.index].origin.revision);
            // What began between the last good point and the first bad one may be the cause.
            let [good, bad] = [change.range[0].saturating_sub(1), change.range[1]];
            let changes = points[good].changes_to(&points[bad]);
            attribute_changes.extend(AttributeChange::all(change.index, changes));
        }
        let places = points.iter().map(|point| Place {
            time: moment(point.origin.session_began),
            revision: point.origin.revision.clone(),
            attributes: Arc::clone(&point.origin.attributes),
        });
        let places = places.collect();
        let points = points.into_iter().map(Point::from).collect();
        Self {
            attribute_changes,
            places,
            ..Self::new(info, points, found, news)
        }
    }

    /// How long ago the newest result was; so many days, or else the series' own pace, say whether
    /// that is too long.
    pub(super) fn look_at_age(&mut self, days: Option<f64>) {
        let now = Timestamp::now().as_duration().as_secs_f64();
        let times: Vec<f64> = self.points.iter().map(|point| point.timestamp).collect();
        self.staleness = staleness(&times, now, days.map(|days| days * DAY_SECONDS));
    }

    pub(crate) fn shown(&self) -> Series {
        let key = &self.series.key;
        let subtitle = if key.machine == SeriesKey::ELSEWHERE {
            String::new()
        } else {
            let method = method_words(&self.told_apart);
            let parts = [
                label(key),
                &key.track,
                &key.suite,
                &key.machine,
                &key.device,
                &method,
            ];
            let named = if method.is_empty() {
                &parts[..5]
            } else {
                &parts
            };
            named.join(" · ")
        };
        Series {
            title: key.cell(),
            subtitle,
            quantity: format::Quantity::of_metric(&key.metric),
            direction: self.directed.then_some(self.series.direction),
            points: self.points.clone(),
            found: self.found.clone(),
            attribute_changes: self.attribute_changes.clone(),
            methods: self.methods.clone(),
            news: self.news,
            staleness: self.staleness,
            threshold: self.threshold,
            gated: self.gated,
            fails: self.fails.clone(),
            entries: self.entries.clone(),
        }
    }
}

/// `limits.memory 8.0 GiB, seed 1`; of a method whose settings are not known its fingerprint.
pub(crate) fn method_words(told_apart: &BTreeMap<String, String>) -> String {
    let words = told_apart.iter().map(|(key, value)| match key.as_str() {
        "" => format!("method {value}"),
        key => format!("{key} {value}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Says of each series what tells it from those that are the same in everything but the method,
/// and which of them it takes over from: the last that ended before it begins.
pub(super) fn tell_methods(all: &mut [Followed]) {
    let infos: Vec<&SeriesInfo> = all.iter().map(|one| &one.series).collect();
    let told = history::told_apart(&infos);
    let mut siblings: HashMap<SeriesKey, Vec<usize>> = HashMap::new();
    for (place, told) in told
        .into_iter()
        .enumerate()
        .filter(|(_, told)| !told.is_empty())
    {
        all[place].told_apart = told;
        let key = all[place].series.key.without_method();
        siblings.entry(key).or_default().push(place);
    }
    for places in siblings.into_values() {
        let end = |place: usize| Some((place, all[place].points.last()?.timestamp));
        let ends: Vec<(usize, f64)> = places.iter().filter_map(|place| end(*place)).collect();
        for place in places {
            let Some(begin) = all[place].points.first().map(|point| point.timestamp) else {
                continue;
            };
            let before = ends.iter().filter(|(_, end)| *end < begin);
            let Some(&(before, _)) = before.max_by(|a, b| a.1.total_cmp(&b.1)) else {
                continue;
            };
            let settings = |place: usize| all[place].series.settings.as_ref();
            let known = settings(before).zip(settings(place));
            let differences = known.map(|(here, there): (&Method, _)| here.told_apart(there));
            let change = MethodChange {
                differences: differences.unwrap_or_default(),
            };
            all[before].methods.after = Some(change.clone());
            all[place].methods.before = Some(change);
        }
    }
}

/// What people call its metric.
fn label(key: &SeriesKey) -> &str {
    Metric::named(&key.metric).map_or(key.metric.as_str(), |metric| metric.label)
}
