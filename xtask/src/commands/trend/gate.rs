//! What the gate looks at, and when it says no.

use std::collections::BTreeSet;

use history::SeriesKey;
use judge::{
    compare::{Options, Verdict},
    family::q_values,
};
use serde::Serialize;

use super::{followed::Followed, supersede::told};
use crate::error::{Error, Result};

/// Why the gate says no to a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reason {
    /// The last run brought a change for the worse to light.
    Regressed,
    /// Results have stopped coming.
    NoNewResult,
}

/// What the gate says of every series that it looks at. Of many series some look regressed by chance
/// every night, so that the false discovery rate is held, as it is in a comparison.
pub(super) fn decide(all: &mut [Followed], gated: impl Fn(&SeriesKey) -> bool) {
    for one in all.iter_mut() {
        one.of_gate = gated(&one.series.key);
        one.gated = one.of_gate && one.superseded_by.is_none();
    }
    let mut members: Vec<&mut Followed> = all.iter_mut().filter(|one| one.gated).collect();
    let p: Vec<f64> = members
        .iter()
        .map(|one| one.news.map_or(1.0, |place| one.change_points[place].p))
        .collect();
    let options = Options::default();
    for (one, q) in members.iter_mut().zip(q_values(&p)) {
        one.q = one.news.map(|_| q);
        one.fails.clear();
        if one.verdict == Some(Verdict::Regressed) && q <= options.alpha && one.counts_as_a_change()
        {
            one.fails.push(Reason::Regressed);
        }
        if one.staleness.is_some_and(|staleness| staleness.overdue) {
            one.fails.push(Reason::NoNewResult);
        }
    }
}

impl Followed {
    /// Whether what the last run brought to light is more than the noise threshold.
    fn counts_as_a_change(&self) -> bool {
        let ratio = self.news.and_then(|place| self.change_points[place].ratio);
        ratio.is_none_or(|ratio| ratio.ln().abs() > self.threshold.ln_1p())
    }
}

/// What the command ends with: an error where a series fails, and where there is none to look at.
pub(super) fn end(all: &[Followed]) -> Result<()> {
    if !all.iter().any(|one| one.gated) {
        let message = superseded(all).unwrap_or_else(|| {
            format!(
                "none of the {} series found is one that the gate looks at; name what it shall \
                 look at with --metric, or leave --gate out",
                all.len()
            )
        });
        return Err(Error::NothingToFollow { message });
    }
    let count = |reason| all.iter().filter(|one| one.fails.contains(&reason)).count();
    let (regressed, stopped) = (count(Reason::Regressed), count(Reason::NoNewResult));
    if regressed + stopped == 0 {
        return Ok(());
    }
    Err(Error::TrendGate { regressed, stopped })
}

/// That others have taken the place of all that the gate would look at.
fn superseded(all: &[Followed]) -> Option<String> {
    let by: BTreeSet<String> = all
        .iter()
        .filter(|one| one.of_gate)
        .filter_map(|one| Some(told(&one.series.key, one.superseded_by.as_ref()?)))
        .collect();
    if by.is_empty() {
        return None;
    }
    let by: Vec<String> = by.into_iter().collect();
    Some(format!(
        "all series found that the gate would look at are superseded by {}: no new result of them \
         is waited for, so that there is nothing to look at; ask for what took their place, or \
         leave --gate out",
        by.join(" and by ")
    ))
}

#[cfg(test)]
mod tests {
    use history::{SeriesInfo, SeriesKey};
    use judge::{
        compare::Direction,
        trend::{ChangePoint, Point, Trend},
    };

    use super::*;

    fn regressed(metric: &str, p: f64) -> Followed {
        let points: Vec<Point> = (0..40)
            .map(|i| Point {
                timestamp: f64::from(i),
                revision: String::new(),
                value: 1.0,
            })
            .collect();
        let series = SeriesInfo {
            key: SeriesKey {
                metric: metric.to_owned(),
                ..SeriesKey::default()
            },
            unit: String::new(),
            direction: Direction::HigherIsBetter,
            kind: judge::compare::Kind::TimeLike,
            points: 40,
            oldest: None,
            newest: None,
        };
        let found = Trend {
            change_points: vec![ChangePoint {
                index: 39,
                timestamp: 39.0,
                revision: String::new(),
                before: 1.0,
                after: 0.9,
                ratio: Some(0.9),
                interval: None,
                p,
            }],
        };
        Followed {
            threshold: 0.005,
            ..Followed::new(series, points, found, Some(0))
        }
    }

    fn failing(mut all: Vec<Followed>) -> usize {
        decide(&mut all, |key| key.metric == "gated");
        all.iter().filter(|one| !one.fails.is_empty()).count()
    }

    #[test]
    fn among_many_series_a_gate_asks_for_more() {
        assert_eq!(failing(vec![regressed("gated", 0.015)]), 1);
        let among = |p: f64| {
            let mut all = vec![regressed("gated", p)];
            all.extend((0..99).map(|_| Followed {
                news: None,
                verdict: None,
                ..regressed("gated", 1.0)
            }));
            failing(all)
        };
        assert_eq!(among(0.015), 0, "one of a hundred looks so by chance");
        assert_eq!(among(0.0001), 1);
        assert_eq!(
            failing((0..100).map(|_| regressed("gated", 0.015)).collect()),
            100
        );
    }

    #[test]
    fn a_metric_that_explains_fails_no_gate() {
        assert_eq!(failing(vec![regressed("other", 0.0)]), 0);
    }

    /// With a level after the change that is this share of the one before.
    fn by(ratio: f64) -> Followed {
        let mut one = regressed("gated", 0.0);
        one.change_points[0].ratio = Some(ratio);
        one
    }

    #[test]
    fn a_change_that_a_comparison_calls_none_fails_no_gate() {
        assert_eq!(failing(vec![by(0.996)]), 0, "0.4 % of 0.5 %");
        assert_eq!(failing(vec![by(1.0 - 512.0 / 4.5e9)]), 0);
        assert_eq!(failing(vec![by(0.994)]), 1);
        // A level that was 0 has no ratio and no noise threshold.
        let mut one = by(1.0);
        one.change_points[0].ratio = None;
        assert!(one.counts_as_a_change());
    }

    #[test]
    fn what_another_series_took_over_fails_no_gate() {
        let old = Followed {
            superseded_by: Some(SeriesKey::default()),
            ..by(0.9)
        };
        assert_eq!(failing(vec![old]), 0);
    }

    #[test]
    fn a_gate_says_why_and_over_nothing_it_does_not_pass() {
        let mut all = vec![by(0.9), by(1.0)];
        all[1].verdict = None;
        all[1].staleness = judge::trend::staleness(&[0.0, 1.0, 2.0], 100.0, None);
        decide(&mut all, |_| true);
        let told = end(&all).unwrap_err().to_string();
        assert!(
            told.contains("1 made regressed by the last run, 1 without a new result"),
            "{told}"
        );
        let mut all = vec![regressed("other", 0.0)];
        decide(&mut all, |key| key.metric == "gated");
        let told = end(&all).unwrap_err().to_string();
        assert!(told.contains("none of the 1 series"), "{told}");
    }
}
