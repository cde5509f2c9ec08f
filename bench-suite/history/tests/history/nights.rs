//! Nights made up for the ledger: series of numbers, looked at night by night.

use history::{Attributes, Ledger, Night, Place, PointFilter, Seen, SeriesKey};
use jiff::Timestamp;
use judge::{
    compare::Direction,
    trend::{Point, Trend, TrendOptions, change_points, news},
};

pub(crate) const DAY: f64 = 86_400.0;
const BEGIN: f64 = 1_767_225_600.0;

/// When a night's session began.
pub(crate) fn time(night: usize) -> f64 {
    BEGIN + DAY * f64::from(u32::try_from(night).expect("few nights"))
}

/// A scatter of a hundredth at most that repeats no time soon, nor by the day of the week.
pub(crate) fn scatter(night: usize, of: usize) -> f64 {
    let mixed = (night * 7409 + of * 104_729 + 13) % 1009;
    f64::from(u32::try_from(mixed).expect("small")) / 1009.0 - 0.5
}

/// A series of which more is better.
pub(crate) struct Series {
    pub(crate) key: SeriesKey,
    pub(crate) threshold: f64,
    pub(crate) points: Vec<Point>,
    pub(crate) places: Vec<Place>,
}

impl Series {
    pub(crate) fn new(cell: &str, metric: &str, machine: &str) -> Self {
        Self {
            key: SeriesKey {
                machine: machine.into(),
                scenario: cell.into(),
                metric: metric.into(),
                ..SeriesKey::default()
            },
            threshold: 0.005,
            points: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Another night's result.
    pub(crate) fn add(&mut self, night: usize, value: f64, attributes: Attributes) {
        let revision = format!("r{night}");
        self.points.push(Point {
            timestamp: time(night),
            revision: revision.clone(),
            value,
        });
        self.places.push(Place {
            time: history::moment(time(night)),
            revision,
            attributes: attributes.into(),
        });
    }
}

/// Looks at all series as they are some hours after a night.
pub(crate) fn look(ledger: &mut Ledger, all: &[Series], night: usize) -> Night {
    let options = TrendOptions::default();
    let found: Vec<(Trend, Option<usize>)> = all
        .iter()
        .map(|one| {
            let found = change_points(&one.points, &options).expect("finite");
            let news = news(&one.points, &found, &options).expect("finite");
            (found, news)
        })
        .collect();
    let now = time(night) + 7200.0;
    let seen: Vec<Seen> = all
        .iter()
        .zip(&found)
        .map(|(one, (found, news))| Seen {
            key: &one.key,
            direction: Direction::HigherIsBetter,
            threshold: one.threshold,
            points: &one.points,
            places: &one.places,
            found,
            news: *news,
            overdue: one
                .places
                .last()
                .is_some_and(|last| now - last.time.as_duration().as_secs_f64() > 3.5 * DAY),
        })
        .collect();
    ledger.update(&PointFilter::default(), &seen, moment(night))
}

/// Some hours after a night's session began.
pub(crate) fn moment(night: usize) -> Timestamp {
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds")]
    let seconds = time(night) as i64;
    Timestamp::from_second(seconds + 7200).expect("a time")
}

/// A series whose every night has the value that `of` says, times the scatter of half a percent.
pub(crate) fn series(cell: &str, nights: usize, of: impl Fn(usize) -> f64) -> Series {
    let mut series = Series::new(cell, "throughput_samples_per_second", "here");
    extend(&mut series, nights, of);
    series
}

/// Goes on with it up to so many nights.
pub(crate) fn extend(series: &mut Series, nights: usize, of: impl Fn(usize) -> f64) {
    let salt = series.key.scenario.len() + series.key.metric.len();
    for night in series.points.len()..nights {
        let value = of(night) * (1.0 + 0.01 * scatter(night, salt));
        series.add(night, value, Attributes::new());
    }
}
