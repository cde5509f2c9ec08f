//! A series with what was found in it.

use history::{SeriesInfo, SeriesKey};
use judge::{
    compare::Verdict,
    trend::{ChangePoint, Point, Staleness, Trend},
};
use metrics::Metric;
use reports::{
    format,
    trend::{GpuChange, Series},
};
use serde::Serialize;

use super::{gate, supersede};

/// One series with what was found in it.
#[derive(Debug, Serialize)]
pub(super) struct Followed {
    #[serde(flatten)]
    pub(super) series: SeriesInfo,
    pub(super) change_points: Vec<ChangePoint>,
    pub(super) staleness: Option<Staleness>,
    /// What the newest run's level is against the one before, where it brought a new one to
    /// light.
    pub(super) verdict: Option<Verdict>,
    /// How sure that is among all series that the gate looks at: the smallest false discovery
    /// rate at which it would count.
    pub(super) q: Option<f64>,
    /// Change points at which the GPU changed as well: the level may be the GPU's.
    pub(super) gpu_changes: Vec<GpuChange>,
    /// The largest relative change that counts as none, as in a comparison: what the suite of the
    /// newest session sets, else the metric's default; 0 for series from elsewhere.
    pub(super) threshold: f64,
    /// The series that has taken its place, with another image or driver. Nobody waits for results
    /// of this one any more, and the gate does not look at it.
    pub(super) superseded_by: Option<SeriesKey>,
    /// Whether the gate looks at it.
    pub(super) gated: bool,
    /// Whether the gate would look at it, had no other taken its place.
    #[serde(skip)]
    pub(super) of_gate: bool,
    /// Why the gate says no to it; empty where it does not.
    pub(super) fails: Vec<gate::Reason>,
    #[serde(skip)]
    pub(super) news: Option<usize>,
    #[serde(skip)]
    pub(super) points: Vec<Point>,
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
        let ratio = news.and_then(|place| found.change_points[place].ratio);
        let metric = Metric::named(&series.key.metric);
        Self {
            verdict: ratio.map(|ratio| Verdict::of_change(ratio.ln(), series.direction)),
            staleness: None,
            change_points: found.change_points,
            q: None,
            gpu_changes: Vec::new(),
            threshold: metric.map_or(0.0, |metric| metric.threshold),
            superseded_by: None,
            gated: false,
            of_gate: false,
            fails: Vec::new(),
            series,
            news,
            points,
            directed: true,
        }
    }

    /// As the reports show it.
    pub(super) fn shown(&self) -> Series {
        let key = &self.series.key;
        let metric = Metric::named(&key.metric);
        let imported = key.machine == SeriesKey::IMPORTED;
        let subtitle = if imported {
            String::new()
        } else {
            let place = match key.driver.as_str() {
                "none" => key.device.clone(),
                driver => format!("{}, driver {driver}", key.device),
            };
            let label = metric.map_or(key.metric.as_str(), |metric| metric.label);
            [label, &key.image, &key.suite, &key.machine, &place].join(" · ")
        };
        Series {
            title: key.cell(),
            subtitle,
            quantity: format::Quantity::of_metric(&key.metric),
            unit: if imported {
                self.series.unit.clone()
            } else {
                String::new()
            },
            direction: self.directed.then_some(self.series.direction),
            points: self.points.clone(),
            changes: self.change_points.clone(),
            gpu_changes: self.gpu_changes.clone(),
            news: self.news,
            staleness: self.staleness,
            threshold: self.threshold,
            successor: self
                .superseded_by
                .as_ref()
                .map(|successor| supersede::told(key, successor)),
        }
    }
}
